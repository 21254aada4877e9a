# SPDX-License-Identifier: Apache-2.0
"""Tensors on a GPU in a worker: the rules of DLPack, and where outputs go when the host has no memory on the device. The driver is played
(tests/fakes/gpu); the models' tensors are those of tests/e2e/lib/cuda_producer.py."""

import sys

import numpy as np
import pytest

from host import ROOT
from patience import PATIENCE

sys.path.append(str(ROOT / "tests/e2e/lib"))
from gpus import fake_gpus  # noqa: E402

HEAD = f"""
sys = __import__("sys")
sys.path.append({str(ROOT / "tests/e2e/lib")!r})
import cuda_producer as cuda
"""


@pytest.fixture
def gpus(tmp_path, monkeypatch):
    made = fake_gpus(tmp_path, 2)
    for name, value in made.variables.items():
        monkeypatch.setenv(name, value)
    return made


def run(started, body, data=np.arange(4, dtype=np.int32)):
    """What execute gives for a request with IN, OUT's array."""
    code = HEAD + "class TritonPythonModel:\n    def execute(self, requests):\n        given = requests[0].inputs()[0].as_numpy()\n"
    code += "".join(f"        {line}\n" for line in body.strip().splitlines())
    code += "        return [pb_utils.InferenceResponse([out])]\n"
    host = started(code)
    _, (response,), _ = host.execute([{"inputs": {"IN": data}}])
    assert response.kind == 1, response.message
    return response.outputs["OUT"]


def test_a_tensor_on_the_device_goes_both_ways(started, gpus):
    body = """
for versioned in (False, True):
    source = cuda.Array(given, 1, versioned)
    out = pb_utils.Tensor.from_dlpack("OUT", source)
    assert not out.is_cpu() and out.__dlpack_device__() == (2, 1) and out.shape() == [4] and out.triton_dtype() == 8
    for more in ({}, {"max_version": (1, 0)}, {"stream": 2}, {"stream": 0, "max_version": (1, 3)}, {"stream": -1, "max_version": None}):
        taken = cuda.Array.take(out.__dlpack__(**more))
        assert taken.versioned == (more.get("max_version") is not None)
        assert taken.memory == source.memory and taken.numpy().tolist() == given.tolist()
        taken.release()
    bare = pb_utils.Tensor.from_dlpack("OUT", source.to_dlpack())
    assert bare.__dlpack_device__() == (2, 1)
    capsule = bare.to_dlpack()
    del bare
    assert cuda.freed.count(source.memory) == 0
    cuda.Array.take(capsule).release()
    assert cuda.freed.count(source.memory) == 1
for wrong in ({"dl_device": (1, 0)}, {"copy": True}):
    try:
        out.__dlpack__(**wrong)
        assert False
    except BufferError:
        pass
"""
    assert run(started, body).tolist() == [0, 1, 2, 3]


def test_consumers_come_after_what_the_producer_was_to_do(started, gpus):
    """The producer is given the worker's stream; the consumer's goes on behind it, unless it wants no order."""
    body = """
source = cuda.Array(given)
out = pb_utils.Tensor.from_dlpack("OUT", source)
(stream,) = source.streams
assert type(stream) is int and stream > 2
out.__dlpack__(stream=-1)
print("without", flush=True)
out.__dlpack__(stream=1)
"""
    before = gpus.counters()
    run(started, body)
    done = gpus.counters().since(before)
    # two for the consumer's stream, one before the copy that takes OUT to the CPU
    assert done["cuStreamWaitEvent"] == 3, done


def test_a_bare_capsule_has_the_device_awaited(started, gpus):
    run(started, 'out = pb_utils.Tensor.from_dlpack("OUT", cuda.Array(given).to_dlpack())')
    assert gpus.counters()["cuCtxSynchronize"] == 1


def refused(started, body):
    code = HEAD + "class TritonPythonModel:\n    def execute(self, requests):\n        given = requests[0].inputs()[0].as_numpy()\n"
    code += "".join(f"        {line}\n" for line in body.strip().splitlines())
    _, (response,), _ = started(code).execute([{"inputs": {"IN": np.arange(4, dtype=np.int32)}}])
    assert response.kind == 2
    return response.message


def test_what_is_wrong_with_a_tensor_is_said(started, gpus):
    said = refused(started, 'pb_utils.Tensor.from_dlpack("OUT", cuda.Array(given, strides=(2,)))')
    assert "DLPack tensor is not contiguous. Only contiguous DLPack tensors that are stored in C-Order are supported." in said
    said = refused(started, 'pb_utils.Tensor.from_dlpack("OUT", cuda.Array(given)).as_numpy()')
    assert "Tensor is stored in GPU and cannot be converted to NumPy." in said
    said = refused(started, "array = cuda.Array(given)\narray.device = 5\n" 'pb_utils.Tensor.from_dlpack("OUT", array)')
    assert "when GPU is not available: " in said and "there is no GPU 5" in said


def test_a_tensor_that_cannot_be_is_an_error_of_its_own(started, gpus):
    """The worker goes on: the last one is good."""
    body = """
def said(change, bare=False, **more):
    source = cuda.Array(given, **more)
    memory = source.memory
    change(source)
    try:
        pb_utils.Tensor.from_dlpack("OUT", source.to_dlpack() if bare else source)
    except pb_utils.TritonModelException as problem:
        assert cuda.freed.count(memory) == 0  # it is still the producer's
        return str(problem)
def change(**values):
    return lambda source: source.__dict__.update(values)
for shape in ((-4,), (1 << 40, 1 << 40), (1 << 62,), (1 << 45,), (0, -1)):
    assert said(change(shape=shape)) == "DLPack tensor has a shape that is not possible.", shape
    assert said(change(shape=shape), versioned=True) == "DLPack tensor has a shape that is not possible.", shape
assert said(change(memory=0)) == "DLPack tensor of 16 bytes has no data."
assert "DLPack tensor has 200 dimensions, at most " in said(change(shape=(1,) * 200))
for device, text in ((-1, "is on GPU -1, which is not there"), (64, "is on GPU 64, which is not there"), (7, "there is no GPU 7: CUDA shows 2")):
    found = said(change(device=device), bare=True)
    assert text in found, found
capsule = cuda.Array(given).to_dlpack()
first = pb_utils.Tensor.from_dlpack("OUT", capsule)
try:
    pb_utils.Tensor.from_dlpack("OUT", capsule)
    assert False
except ValueError as problem:
    assert "PyCapsule_GetPointer" in str(problem)
empty = cuda.Array(given)
empty.shape, empty.memory = (0, 1 << 40, 1 << 40), 0
nothing = pb_utils.Tensor.from_dlpack("OUT", empty)
assert nothing.shape() == [0, 1 << 40, 1 << 40]
out = first
"""
    assert run(started, body).tolist() == [0, 1, 2, 3]


def test_a_tensor_of_nothing_on_a_device_is_an_output_as_any(started, gpus):
    out = run(started, 'out = pb_utils.Tensor.from_dlpack("OUT", cuda.Array(given[:0]))')
    assert out.shape == (0,)


def test_memory_that_was_freed_early_fails_the_request_and_ends_the_worker(started, gpus):
    """The context is dead by that: nothing on the device would succeed any more."""
    code = HEAD + """
class TritonPythonModel:
    def execute(self, requests):
        array = cuda.Array(requests[0].inputs()[0].as_numpy(), 1)
        out = pb_utils.Tensor.from_dlpack("OUT", array)
        array.free()
        return [pb_utils.InferenceResponse([out])]
"""
    host = started(code)
    _, (response,), _ = host.execute([{"inputs": {"IN": np.arange(4, dtype=np.int32)}}])
    assert response.kind == 2 and "tensor 'OUT': failed to perform CUDA copy" in response.message
    assert host.process.wait(PATIENCE) == 1
    assert "this worker ends, the next one has another context" in host.output()


@pytest.mark.parametrize("dtype", ["'>i4'", "'f4'", "'i2'"])
def test_an_array_whose_type_is_changed_behind_its_tensor_is_refused(started, dtype):
    said = refused(started, f'a = given.copy()\nout = pb_utils.Tensor("OUT", a)\na.dtype = {dtype}\nreturn [pb_utils.InferenceResponse([out])]')
    assert "the tensor's array is no longer of the tensor's datatype" in said




def test_one_of_several_requests_fails_alone(started, gpus):
    """The second copy from the device does not succeed, however often it is tried."""
    code = HEAD + """
class TritonPythonModel:
    def execute(self, requests):
        return [pb_utils.InferenceResponse([pb_utils.Tensor.from_dlpack("OUT", cuda.Array(r.inputs()[0].as_numpy(), int(r.inputs()[0].as_numpy()[0])))]) for r in requests]
"""
    host = started(code)
    gpus.fault("cuMemcpyDtoHAsync_v2", 1, device=1, times=0)
    _, responses, _ = host.execute([{"inputs": {"IN": np.array([device, 7], np.int32)}} for device in (0, 1, 0)])
    assert [response.kind for response in responses] == [1, 2, 1], [response.message for response in responses]
    assert "tensor 'OUT': failed to perform CUDA copy" in responses[1].message
    assert responses[2].outputs["OUT"].tolist() == [0, 7]


def test_without_a_driver_a_tensor_on_a_device_is_refused(started):
    body = """
class Far:
    def __dlpack_device__(self):
        return (2, 63)
    def __dlpack__(self, stream=None):
        raise AssertionError("nobody can take it")
pb_utils.Tensor.from_dlpack("OUT", Far())
"""
    said = refused(started, body)
    assert "DLPack capsule passed pointer to memory allocated on GPU device, when GPU is not available: there is no GPU 63: " in said
