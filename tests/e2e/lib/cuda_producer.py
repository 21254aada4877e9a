# SPDX-License-Identifier: Apache-2.0
"""A framework's tensor on a GPU, for models in tests: memory of the driver that is there, by ctypes, given and taken by DLPack. A model imports it from
beside its model.py; torch needs the real driver, this does not."""

import ctypes

import numpy as np

_CODES = {"i": 0, "u": 1, "f": 2}
_KINDS = {code: kind for kind, code in _CODES.items()}
CUDA = 2


class DLTensor(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_void_p), ("device_type", ctypes.c_int32), ("device_id", ctypes.c_int32), ("rank", ctypes.c_int32),
        ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16), ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)), ("byte_offset", ctypes.c_uint64),
    ]  # fmt: skip


class Managed(ctypes.Structure):
    _fields_ = [("tensor", DLTensor), ("context", ctypes.c_void_p), ("deleter", ctypes.c_void_p)]


class Versioned(ctypes.Structure):
    _fields_ = [
        ("major", ctypes.c_uint32), ("minor", ctypes.c_uint32), ("context", ctypes.c_void_p), ("deleter", ctypes.c_void_p),
        ("flags", ctypes.c_uint64), ("tensor", DLTensor),
    ]  # fmt: skip


_api = ctypes.pythonapi
_api.PyCapsule_New.restype = ctypes.py_object
_api.PyCapsule_New.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
_api.PyCapsule_GetPointer.restype = ctypes.c_void_p
_api.PyCapsule_GetPointer.argtypes = [ctypes.py_object, ctypes.c_char_p]
_api.PyCapsule_IsValid.argtypes = [ctypes.py_object, ctypes.c_char_p]
_api.PyCapsule_SetName.argtypes = [ctypes.py_object, ctypes.c_char_p]
_DELETER = ctypes.CFUNCTYPE(None, ctypes.c_void_p)

freed = []  # addresses whose consumers have let go
_given = {}
USED = b"used_dltensor"


@_DELETER
def _delete(address):
    owner, _ = _given.pop(address)
    freed.append(owner.memory)


def driver():
    library = ctypes.CDLL("libcuda.so.1")
    assert library.cuInit(0) == 0
    return library


def call(function, *arguments):
    code = getattr(driver(), function)(*arguments)
    if code != 0:
        raise RuntimeError(f"{function}: {code}")


_contexts = {}


def enter(device):
    if device not in _contexts:
        handle, context = ctypes.c_int(), ctypes.c_void_p()
        call("cuDeviceGet", ctypes.byref(handle), device)
        call("cuDevicePrimaryCtxRetain", ctypes.byref(context), handle)
        _contexts[device] = context
    call("cuCtxSetCurrent", _contexts[device])


class Array:
    """An array on a device: its own memory, or another's whose capsule it keeps."""

    def __init__(self, array, device=0, versioned=False, strides=None):
        array = np.ascontiguousarray(array)
        enter(device)
        memory = ctypes.c_uint64()
        call("cuMemAlloc_v2", ctypes.byref(memory), ctypes.c_size_t(max(array.nbytes, 1)))
        self.memory, self.device, self.shape, self.dtype, self.capsule = memory.value, device, array.shape, array.dtype, None
        self.versioned, self.strides, self.streams = versioned, strides, []
        self.write(array)

    def write(self, array):
        data = np.ascontiguousarray(array).tobytes()
        enter(self.device)
        call("cuMemcpyHtoDAsync_v2", ctypes.c_uint64(self.memory), data, ctypes.c_size_t(len(data)), None)

    def __dlpack_device__(self):
        return (CUDA, self.device)

    def __dlpack__(self, stream=None):
        self.streams.append(stream)
        return self.to_dlpack()

    def to_dlpack(self):
        made = (Versioned if self.versioned else Managed)()
        self._shape = (ctypes.c_int64 * max(len(self.shape), 1))(*self.shape)
        tensor = made.tensor
        tensor.data, tensor.device_type, tensor.device_id, tensor.rank = self.memory, CUDA, self.device, len(self.shape)
        tensor.code, tensor.bits, tensor.lanes = _CODES[self.dtype.kind], self.dtype.itemsize * 8, 1
        tensor.shape = self._shape
        if self.strides is not None:
            self._strides = (ctypes.c_int64 * len(self.strides))(*self.strides)
            tensor.strides = self._strides
        made.deleter = ctypes.cast(_delete, ctypes.c_void_p).value
        if self.versioned:
            made.major = 1
        _given[ctypes.addressof(made)] = self, made
        name = b"dltensor_versioned" if self.versioned else b"dltensor"
        return _api.PyCapsule_New(ctypes.addressof(made), name, None)

    @staticmethod
    def take(capsule):
        """What another gives: looked at where it is, as long as this lives."""
        versioned = bool(_api.PyCapsule_IsValid(capsule, b"dltensor_versioned"))
        kind, name = (Versioned, b"dltensor_versioned") if versioned else (Managed, b"dltensor")
        made = kind.from_address(_api.PyCapsule_GetPointer(capsule, name))
        _api.PyCapsule_SetName(capsule, USED)
        array = Array.__new__(Array)
        tensor = made.tensor
        assert tensor.device_type == CUDA and tensor.lanes == 1 and not tensor.strides
        array.memory, array.device = tensor.data + tensor.byte_offset, tensor.device_id
        array.shape = tuple(tensor.shape[i] for i in range(tensor.rank))
        array.dtype = np.dtype(f"{_KINDS[tensor.code]}{tensor.bits // 8}")
        array.capsule, array.versioned, array.strides, array.streams = made, versioned, None, []
        return array

    def numpy(self):
        array = np.empty(self.shape, self.dtype)
        enter(self.device)
        call("cuMemcpyDtoHAsync_v2", array.ctypes.data_as(ctypes.c_void_p), ctypes.c_uint64(self.memory), ctypes.c_size_t(array.nbytes), None)
        call("cuStreamSynchronize", None)
        return array

    def release(self):
        """Of a taken one: its giver's memory is not used any more."""
        made, self.capsule = self.capsule, None
        _DELETER(made.deleter)(ctypes.addressof(made))

    def free(self):
        enter(self.device)
        call("cuMemFree_v2", ctypes.c_uint64(self.memory))


def read(tensor):
    """A Tensor of a request as NumPy's array, over its device."""
    taken = Array.take(tensor.to_dlpack())
    try:
        return taken.numpy()
    finally:
        taken.release()
