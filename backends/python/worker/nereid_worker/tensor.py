# SPDX-License-Identifier: Apache-2.0
"""Tensor: a name with an array. A request's tensor refers to the server's memory and makes its array on demand."""

import weakref

import numpy as np

import _nereid

from .errors import TritonModelException
from .texts import as_text

BYTES = 13
BF16 = 14

TRITON_TO_NUMPY = {
    1: np.bool_,
    2: np.uint8,
    3: np.uint16,
    4: np.uint32,
    5: np.uint64,
    6: np.int8,
    7: np.int16,
    8: np.int32,
    9: np.int64,
    10: np.float16,
    11: np.float32,
    12: np.float64,
    BYTES: np.object_,
}
_CODES = {np.dtype(numpy_type): code for code, numpy_type in TRITON_TO_NUMPY.items()}

_nereid.look_into(np.ndarray, weakref.getweakrefcount)

_DEVICE_CPU = 1
_DEVICE_CUDA = 2
_DEVICE_CUDA_HOST = 3

_LEGACY_STREAM = 1  # what None means for a consumer on a device
_VERSION = (1, 0)  # the DLPack version for consumers that ask for one


def _slow_code(dtype):
    """The number of a dtype that is not in the table; fixed-length bytes count as BYTES."""
    if dtype.kind == "S":
        return BYTES
    for known, code in _CODES.items():
        if dtype == known:
            return code
    raise TritonModelException("NumPy dtype is not supported.")


def _name_of(name):
    name = as_text(name, "a tensor's name")
    if not name:
        raise TritonModelException("Tensor name cannot be an empty string.")
    return name


def _refuse_array(name, array):
    """Raises unless a special kind of array can be sent: a masked array's data differ from its visible values."""
    if not isinstance(array, np.ndarray):
        raise TypeError(f"tensor '{name}' needs a numpy.ndarray, not {type(array).__name__}")
    if not isinstance(array.data, memoryview):
        raise TypeError(
            f"tensor '{name}' needs a plain numpy.ndarray, not {type(array).__name__}: of a masked array send filled()"
        )


class Tensor:
    """Tensor(name, array). The array is not copied: numbers are read when the response is sent, BYTES are read now."""

    # _buffer: a _nereid.Buffer; None when the tensor was made from _array; or a tuple of the elements of BYTES that it was
    # made from. _shape: a tuple; None: _array's shape.
    __slots__ = ("_name", "_dtype", "_shape", "_array", "_buffer", "__weakref__")

    def __init__(self, name, array):
        if not name or type(name) is not str:
            name = _name_of(name)
        if type(array) is not np.ndarray:
            _refuse_array(name, array)
        dtype = array.dtype
        code = _CODES.get(dtype)
        if code is None:
            code = _slow_code(dtype)
        if not array.flags.c_contiguous:
            array = np.ascontiguousarray(array)
        self._name = name
        self._dtype = code
        self._array = array
        self._shape = self._buffer = None
        if code == BYTES:
            self._shape = array.shape
            self._buffer = _nereid.elements(array if dtype.kind == "O" else array.astype(np.object_))

    def name(self):
        return self._name

    def triton_dtype(self):
        return self._dtype

    def shape(self):
        return list(self._array.shape if self._shape is None else self._shape)

    def is_cpu(self):
        return type(self._buffer) is not _nereid.Buffer or self._buffer.device < 0

    def as_numpy(self):
        """The array, the same object each time. Writing to a request's array changes only the array, not the tensor."""
        array = self._array
        if array is None:
            array = self._array = self._make_array()
        return array

    def _make_array(self):
        if self._dtype == BYTES:
            array = np.empty(self._shape, dtype=np.object_)
            count = _nereid.fill(array, self._buffer)
            if count != array.size:
                raise TritonModelException(
                    f"tensor '{self._name}' of shape {list(self._shape)} has {count} elements, expected {array.size}"
                )
            return array
        if self._dtype == BF16:
            raise TritonModelException(
                "Tensor dtype is BF16 and cannot be converted to NumPy. Use to_dlpack() and from_dlpack() instead."
            )
        if self._buffer.device >= 0:
            raise TritonModelException("Tensor is stored in GPU and cannot be converted to NumPy.")
        array = np.asarray(self._buffer)
        return array if array.flags.writeable else array.copy()

    def to_dlpack(self):
        """A DLPack capsule. For a request's tensor on the CPU it holds a copy, because a consumer may write to it."""
        return self._capsule(None, False)

    def _capsule(self, stream, is_versioned):
        if self._dtype == BYTES:
            raise TritonModelException("DLPack does not have support for string tensors.")
        source = self._array if self._buffer is None else self._buffer
        return _nereid.to_dlpack(source, self._dtype, is_versioned, _LEGACY_STREAM if stream is None else stream)

    def __dlpack__(self, stream=None, max_version=None, dl_device=None, copy=None):
        if dl_device is not None and tuple(dl_device) != self.__dlpack_device__():
            raise BufferError(f"tensor '{self._name}' is on device {self.__dlpack_device__()}, not {tuple(dl_device)}")
        if copy and not self.is_cpu():
            raise BufferError(f"tensor '{self._name}' is not copied on its device")
        return self._capsule(stream, max_version is not None and max_version[0] >= _VERSION[0])

    def __dlpack_device__(self):
        return (_DEVICE_CPU, 0) if self.is_cpu() else (_DEVICE_CUDA, self._buffer.device)

    @staticmethod
    def from_dlpack(name, tensor):
        """A tensor on the memory of a DLPack capsule, or of an object with __dlpack__."""
        name = _name_of(name)
        is_ordered = type(tensor).__name__ != "PyCapsule"
        if is_ordered:
            tensor = _capsule_of(tensor)
        made = Tensor.__new__(Tensor)
        made._name = name
        made._dtype, made._shape, made._buffer = _nereid.from_dlpack(tensor, is_ordered)
        made._array = None
        return made

    def __repr__(self):
        return f"Tensor({self._name!r}, shape {self.shape()})"


def _capsule_of(tensor):
    if not hasattr(tensor, "__dlpack__") or not hasattr(tensor, "__dlpack_device__"):
        raise TritonModelException(
            "Provided tensor is not supported. Tensor must be a DLPack capsule "
            "or have `__dlpack__` and `__dlpack_device__` attributes"
        )
    device, number = map(int, tensor.__dlpack_device__())
    if device == _DEVICE_CUDA:
        return tensor.__dlpack__(stream=_stream_of(number))
    if device not in (_DEVICE_CPU, _DEVICE_CUDA_HOST):
        raise TritonModelException(f"DLDevice type {device} is not support by Python backend.")
    return tensor.__dlpack__(stream=None)


def _stream_of(device):
    """This worker's stream, on which a producer must make its data ready."""
    try:
        return _nereid.device_stream(device)
    except TritonModelException as problem:
        raise TritonModelException(
            "DLPack capsule passed pointer to memory allocated on GPU device, when GPU is not available: "
            f"{problem}"
        ) from None


def place_arrays():
    """Makes this thread's large arrays lie where the server can read them. Needs NumPy 1.22."""
    if tuple(map(int, np.__version__.split(".")[:2])) < (1, 22):
        return
    core = getattr(np, "_core", None) or np.core
    _nereid.place_arrays(core.multiarray._ARRAY_API)
