# SPDX-License-Identifier: Apache-2.0
"""Python models on GPUs: kinds and parameters, tensors on devices in and out by DLPack, calls of other models with them, faults. The driver is played
(gpus.py); what a framework does the models do by ctypes (cuda_producer.py)."""
import base64
import concurrent.futures
import os
import shutil
import signal
import subprocess
import textwrap

import numpy as np
import pytest
import tritonclient.http as triton
from conftest import ROOT, Starter, make_identity, wait_for
from cuda_memory import Memory
from gpus import BUILD, Client, fake_gpus
from python_models import children, infer, make_python, tensor

CONFIG = """
backend: "python"
input { name: "IN" data_type: TYPE_INT32 dims: [ -1 ] }
output { name: "OUT" data_type: TYPE_INT32 dims: [ -1 ] }
"""
ON = "instance_group { kind: KIND_GPU gpus: [ 0 ] }\n"
DEVICES = 'parameters { key: "FORCE_CPU_ONLY_INPUT_TENSORS" value { string_value: "no" } }\n'
SIZE = 1 << 16

# Adds 1 on the device, in memory of its own, which it gives as an object or as a bare capsule.
ADD = """
def execute(self, requests):
    responses = []
    for request in requests:
        given = request.inputs()[0]
        said = request.request_id()
        assert given.is_cpu() == (said == "cpu"), said
        if given.is_cpu():
            array = given.as_numpy()
        else:
            assert given.__dlpack_device__() == (2, 0)
            try:
                given.as_numpy()
                assert False
            except pb_utils.TritonModelException as problem:
                assert str(problem) == "Tensor is stored in GPU and cannot be converted to NumPy."
            array = cuda.read(given)
        made = cuda.Array(array + 1, versioned=said == "versioned", strides=(2,) if said == "strides" else None)
        out = pb_utils.Tensor.from_dlpack("OUT", made.to_dlpack() if said == "capsule" else made)
        assert not out.is_cpu() and out.shape() == list(array.shape)
        if said != "capsule":
            assert made.streams and made.streams[0] not in (None, 0, 1), made.streams
        responses.append(pb_utils.InferenceResponse([out]))
        out = None
    return responses
"""

# Gives what it got, where it is.
PASS = """
def execute(self, requests):
    return [pb_utils.InferenceResponse([pb_utils.Tensor.from_dlpack("OUT", r.inputs()[0])]) for r in requests]
"""

# Gives what it got, and keeps a way to it: it could write there while the answer is still read.
KEEP = """
def execute(self, requests):
    (request,) = requests
    given = request.inputs()[0]
    made = pb_utils.Tensor.from_dlpack("OUT", given)
    self.kept = {"capsule": lambda: given.to_dlpack(), "input": lambda: given, "request": lambda: request,
                 "output": lambda: made, "object": lambda: pb_utils.Tensor.from_dlpack("X", made)}[request.request_id()]()
    return [pb_utils.InferenceResponse([made])]
"""

# Calls a model for each device with a tensor on it, and wants the answer on the next one; adds all up.
CALLS = """
def execute(self, requests):
    responses = []
    for request in requests:
        total = 0
        for device in range(3):
            made = cuda.Array(value(request), device)
            wanted = pb_utils.PreferredMemory(pb_utils.TRITONSERVER_MEMORY_GPU, (device + 1) % 3)
            call = pb_utils.InferenceRequest(model_name="echo", requested_output_names=["OUTPUT0"], preferred_memory=wanted,
                                             inputs=[pb_utils.Tensor.from_dlpack("INPUT0", made)])
            answered = call.exec()
            made.free()
            if answered.has_error():
                raise pb_utils.TritonModelException(answered.error().message())
            found = answered.output_tensors()[0]
            assert found.__dlpack_device__() == (2, (device + 1) % 3), found.__dlpack_device__()
            total = total + cuda.read(found) * (device + 1)
        wanted = pb_utils.PreferredMemory(pb_utils.TRITONSERVER_MEMORY_CPU)
        call = pb_utils.InferenceRequest(model_name="echo", requested_output_names=["OUTPUT0"], preferred_memory=wanted,
                                         inputs=[pb_utils.Tensor("INPUT0", value(request))])
        found = call.exec().output_tensors()[0]
        assert found.is_cpu() and (found.as_numpy() == value(request)).all()
        responses.append(answer(total.astype(np.int32)))
    return responses
"""


def make(repository, name, body, config=ON + DEVICES, more=""):
    body = "global cuda\nimport cuda_producer as cuda\n" + textwrap.dedent(body)
    directory = make_python(repository, name, body, config=CONFIG + config + more)
    shutil.copy(ROOT / "tests/e2e/lib/cuda_producer.py", directory / "1")


def make_echo(repository, gpus=(0,)):
    more = f"instance_group {{ kind: KIND_GPU gpus: {list(gpus)} }}"
    make_identity(repository, "echo", "TYPE_INT32", more=more, max_batch_size=0)


@pytest.fixture(scope="module")
def gpus(tmp_path_factory):
    return fake_gpus(tmp_path_factory.mktemp("gpus"), 3)


def checked_worker(tmp_path_factory):
    """In a build with AddressSanitizer the workers are checked by it, too."""
    worker, libraries = BUILD / "checked/worker", []
    if not worker.exists():
        return ()
    for name in ("libasan.so", "libubsan.so"):
        libraries.append(subprocess.run([os.environ.get("CC", "cc"), f"-print-file-name={name}"], capture_output=True, text=True).stdout.strip())
    python = tmp_path_factory.mktemp("checked") / "python"
    variables = f'LD_PRELOAD="{" ".join(libraries)}" PYTHONMALLOC=malloc ASAN_OPTIONS=detect_leaks=0:handle_sigill=1'
    python.write_text(f"#!/bin/sh\n{variables} exec {ROOT}/.venv/bin/python {worker}\n")
    python.chmod(0o755)
    return (f"--backend-config=python,python-executable={python}",)


@pytest.fixture(scope="module")
def server(nereid, backends, gpus, tmp_path_factory):
    repository = tmp_path_factory.mktemp("models")
    make(repository, "add", ADD)
    make(repository, "pass", PASS)
    make(repository, "keep", KEEP)
    make(repository, "forced", ADD, ON)
    make(repository, "calls", CALLS, ON)
    make_echo(repository, (0, 1, 2))
    starter = Starter(nereid, backends, tmp_path_factory.mktemp("server"))
    yield starter(repository, flags=("--allow-client-shm=true", *checked_worker(tmp_path_factory)), variables=gpus.variables)
    starter.stop_all()


@pytest.fixture
def region(gpus, server):
    """Memory of a client on GPU 0, registered."""
    with Client(gpus) as process, triton.InferenceServerClient(server.url) as client:
        memory = Memory(process, SIZE)
        client.register_cuda_shared_memory(memory.name, base64.b64encode(memory.handle), 0, SIZE)
        memory.client = client
        yield memory
        client.unregister_cuda_shared_memory(memory.name)


def through(region, model, data, said="", to_region=True):
    """The model's answer to a tensor in the client's memory on the GPU."""
    region.write(data.tobytes())
    given = triton.InferInput("IN", data.shape, "INT32")
    given.set_shared_memory(region.name, data.nbytes)
    wanted = triton.InferRequestedOutput("OUT")
    if to_region:
        wanted.set_shared_memory(region.name, data.nbytes, SIZE // 2)
    result = region.client.infer(model, [given], outputs=[wanted], request_id=said)
    return np.frombuffer(region.read(data.nbytes, SIZE // 2), np.int32) if to_region else result.as_numpy("OUT")


DATA = np.arange(1000, dtype=np.int32)


@pytest.mark.parametrize("said", ["object", "capsule", "versioned"])
def test_tensors_reach_a_model_on_the_device_and_leave_it_there(server, gpus, region, said):
    for _ in range(3):
        before = gpus.counters()
        assert np.array_equal(through(region, "add", DATA, said), DATA + 1)
        done = gpus.counters().since(before)
    # the model's own copies are one each way; the input, the output into the region, and from there to the client's stay on the device
    assert (done["copies_on_device"], done["copies_to_host"], done["copies_to_device"]) == (3, 2, 2), done
    assert done["cuMemCreate"] == 0, done
    assert np.array_equal(through(region, "add", DATA, said, to_region=False), DATA + 1)
    assert infer(server, "add", DATA, request_id="cpu").tolist() == (DATA + 1).tolist()


def test_a_tensor_that_is_handed_on_is_not_copied_in_the_worker(gpus, region):
    through(region, "pass", DATA)
    before = gpus.counters()
    assert np.array_equal(through(region, "pass", DATA[::-1].copy()), DATA[::-1])
    done = gpus.counters().since(before)
    assert done["copies_on_device"] == 2
    # Others were given the input: the device is awaited before its memory is used again (with Python 3.13 twice).
    # The worker may do so after it has answered.
    assert wait_for("the device is awaited", lambda: gpus.counters().since(before)["cuCtxSynchronize"]) <= 2


@pytest.mark.parametrize("kept", ["capsule", "input", "request", "output", "object"])
def test_a_tensor_on_the_device_that_the_model_has_kept_is_copied(gpus, region, kept):
    through(region, "keep", DATA, kept)
    before = gpus.counters()
    assert np.array_equal(through(region, "keep", DATA[::-1].copy(), kept), DATA[::-1])
    assert gpus.counters().since(before)["copies_on_device"] == 3


def test_inputs_are_on_the_cpu_unless_the_model_says_otherwise(server, region):
    assert np.array_equal(through(region, "forced", DATA, "cpu"), DATA + 1)
    assert "Input tensors can be both in CPU and GPU. FORCE_CPU_ONLY_INPUT_TENSORS is off." in server.log


def test_a_tensor_in_another_order_is_refused(region):
    with pytest.raises(triton.InferenceServerException, match="DLPack tensor is not contiguous. Only contiguous DLPack tensors that are stored in C-Order"):
        through(region, "add", DATA, "strides")


def test_a_copy_that_fails_fails_its_request_by_name(gpus, region):
    through(region, "add", DATA)
    for function, name in (("cuMemcpyDtoDAsync_v2", "IN"), ("cuMemcpyDtoHAsync_v2", "OUT")):
        gpus.fault(function, 1)
        try:
            with pytest.raises(triton.InferenceServerException) as problem:
                through(region, "add" if name == "IN" else "pass", DATA, to_region=name == "IN")
        finally:
            gpus.heal()
        assert f"{name}" in str(problem.value) and "failed to perform CUDA copy" in str(problem.value), problem.value
        assert np.array_equal(through(region, "add", DATA), DATA + 1)


def used(gpus):
    return {name: value for name, value in gpus.counters().items() if name.startswith("used.") and value}


def test_calls_with_tensors_on_several_gpus_leave_nothing_there(server, gpus):
    """Ten times what is left would be more than the pieces by which memory grows."""
    data = np.arange(100_000, dtype=np.int32)
    for _ in range(2):
        assert np.array_equal(infer(server, "calls", data), data * 6)
    before, allocated = used(gpus), gpus.counters()["cuMemCreate"]
    for _ in range(10):
        assert np.array_equal(infer(server, "calls", data), data * 6)
    assert used(gpus) == before and len(before) == 3
    assert gpus.counters()["cuMemCreate"] == allocated
    assert "go through CPU memory" not in server.log


def ready(server):
    return server.ask("/v2/models/m/ready").status == 200


# Its worker is not there before the file is.
BREAKS = """
def initialize(self, args):
    while not os.path.exists("GATE"):
        time.sleep(0.01)

def execute(self, requests):
    if requests[0].request_id() == "raise":
        cuda.call("cuMemAlloc_v2", None, 0)
    return [pb_utils.InferenceResponse([pb_utils.Tensor.from_dlpack("OUT", cuda.Array(value(r)))]) for r in requests]
"""
DEAD = [("cuMemcpyDtoDAsync_v2", 700, "", "tensor 'OUT': failed to perform CUDA copy: .*CUDA_ERROR_ILLEGAL_ADDRESS"),
        ("cuMemAlloc_v2", 719, "raise", "cuMemAlloc_v2: 719")]  # what a framework finds out: the model raises, and its context is asked


def test_a_dead_context_ends_the_worker_and_the_next_one_serves(start_server, repository, tmp_path):
    gpus, gate = fake_gpus(tmp_path), tmp_path / "gate"
    make(repository, "m", BREAKS.replace("GATE", str(gate)))
    gate.touch()
    server = start_server(repository, variables=gpus.variables)
    assert infer(server, "m", DATA).tolist() == DATA.tolist()
    for ends, (function, code, said, text) in enumerate(DEAD, 1):
        gate.unlink()
        gpus.fault(function, code)  # of the worker alone: the server copies to the host only
        with pytest.raises(triton.InferenceServerException, match=text):
            infer(server, "m", DATA, request_id=said)
        gpus.heal()
        wait_for("the worker's end", lambda: server.log.count("the Python worker ended: it exited with status 1") == ends)
        assert not ready(server)
        gate.touch()
        wait_for("readiness", lambda: ready(server))
        assert infer(server, "m", DATA).tolist() == DATA.tolist()
    assert server.log.count("this worker ends, the next one has another context") == 4  # each is told once, and as the cause


GETS = """
def execute(self, requests):
    responses = []
    for request in requests:
        given = request.inputs()[0]
        where = 0 if given.is_cpu() else 1
        array = given.as_numpy() if given.is_cpu() else cuda.read(given)
        out = cuda.Array(array + 1000 * where)
        responses.append(pb_utils.InferenceResponse([pb_utils.Tensor.from_dlpack("OUT", out)]))
    return responses
"""
ENSEMBLE = """
platform: "ensemble"
input { name: "IN" data_type: TYPE_INT32 dims: [ -1 ] }
output { name: "OUT" data_type: TYPE_INT32 dims: [ -1 ] }
ensemble_scheduling { step [
  { model_name: "echo" model_version: -1 input_map { key: "INPUT0" value: "IN" } output_map { key: "OUTPUT0" value: "a" } },
  { model_name: "m" model_version: -1 input_map { key: "IN" value: "a" } output_map { key: "OUT" value: "b" } },
  { model_name: "echo" model_version: -1 input_map { key: "INPUT0" value: "b" } output_map { key: "OUTPUT0" value: "OUT" } } ] }
"""


def make_ensemble(repository):
    make(repository, "m", GETS)
    make_echo(repository)
    (repository / "e/1").mkdir(parents=True)
    (repository / "e/config.pbtxt").write_text(ENSEMBLE)


def test_an_ensemble_keeps_tensors_on_the_device(start_server, repository, tmp_path):
    gpus = fake_gpus(tmp_path)
    make_ensemble(repository)
    server = start_server(repository, variables=gpus.variables)
    assert infer(server, "e", DATA).tolist() == (DATA + 1000).tolist()
    (worker,) = children(server.process.pid)
    before = gpus.counters(server.process.pid)
    infer(server, "e", DATA)
    done = gpus.counters(server.process.pid).since(before)
    assert (done["copies_to_device"], done["copies_to_host"]) == (1, 1), done


@pytest.mark.parametrize("lacks", ["fds", "vmm"])
def test_where_memory_cannot_be_shared_tensors_go_over_the_cpu(start_server, repository, tmp_path, lacks):
    gpus = fake_gpus(tmp_path, [{lacks: False}])
    make_ensemble(repository)
    server = start_server(repository, variables=gpus.variables)
    for _ in range(3):
        assert infer(server, "e", DATA).tolist() == DATA.tolist()
    assert server.log.count("tensors of Python models on GPU 0 go through CPU memory: ") == 1


def test_a_worker_that_cannot_map_memory_says_so_and_gets_the_next_tensors_on_the_cpu(start_server, repository, tmp_path):
    gpus = fake_gpus(tmp_path)
    make_ensemble(repository)
    server = start_server(repository, variables=gpus.variables)
    gpus.fault("cuMemImportFromShareableHandle", 801, times=0)  # which the server does not call
    with pytest.raises(triton.InferenceServerException, match="the tensor cannot be reached: .*CUDA_ERROR_NOT_SUPPORTED"):
        infer(server, "e", DATA)
    said = "tensors of Python models on GPU 0 go through CPU memory: "
    wait_for("its word, which may come behind the answer", lambda: said in server.log)
    for _ in range(2):
        assert infer(server, "e", DATA).tolist() == DATA.tolist()
    assert server.log.count(said) == 1


SENDS = '''
def execute(self, requests):
    for request in requests:
        given, sender = request.inputs()[0], request.get_response_sender()
        self.kept = getattr(self, "kept", []) + [given]
        for n in range(3):
            made = cuda.Array(sum(cuda.read(kept) for kept in self.kept) + n)
            sender.send(pb_utils.InferenceResponse([pb_utils.Tensor.from_dlpack("OUT", made)]))
            made.free()
        sender.send(flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)
'''


def test_responses_of_a_decoupled_model_and_inputs_that_it_keeps(start_server, repository, tmp_path):
    gpus = fake_gpus(tmp_path)
    make(repository, "m", SENDS, more="model_transaction_policy { decoupled: true }")
    make_echo(repository)
    calls = '''
    def execute(self, requests):
        responses = []
        for request in requests:
            made = cuda.Array(value(request))
            call = pb_utils.InferenceRequest(model_name="m", requested_output_names=["OUT"], inputs=[pb_utils.Tensor.from_dlpack("IN", made)])
            answers = [r.output_tensors()[0] for r in call.exec(decoupled=True) if r.output_tensors()]
            assert [t.is_cpu() for t in answers] == [False] * 3
            made.write(value(request) * 0)
            responses.append(answer(np.concatenate([cuda.read(t) for t in answers])))
        return responses
    '''
    make(repository, "calls", calls)
    server = start_server(repository, variables=gpus.variables)
    for times in (1, 2, 3):
        got = infer(server, "calls", DATA)
        assert np.array_equal(got, np.concatenate([DATA * times + n for n in range(3)])), times


def test_a_strict_sandbox_lets_the_driver_in(start_server, repository, tmp_path):
    gpus = fake_gpus(tmp_path)
    make_ensemble(repository)
    flags = ["--backend-config=python,worker-sandbox=strict", f"--backend-config=python,worker-read-paths={gpus.path.parent}"]
    server = start_server(repository, variables=gpus.variables, flags=flags)
    assert infer(server, "e", DATA).tolist() == (DATA + 1000).tolist()
    assert "go through CPU memory" not in server.log


WHERE = """
def initialize(self, args):
    pb_utils.Logger.log_info("is on " + args["model_instance_kind"] + " " + args["model_instance_device_id"])

def execute(self, requests):
    return [answer(value(request)) for request in requests]
"""


def test_a_model_without_a_group_has_an_instance_on_each_gpu(start_server, repository, tmp_path):
    gpus = fake_gpus(tmp_path, 2)
    make(repository, "m", WHERE, "")
    server = start_server(repository, variables=gpus.variables)
    assert infer(server, "m", DATA).tolist() == DATA.tolist()
    wait_for("what the workers say", lambda: "is on GPU 0" in server.log and "is on GPU 1" in server.log)
    assert "model 'm': 2 Python processes, one for each instance" in server.log
    workers = children(server.process.pid)
    assert len(workers) == 2 and not workers.keys() & gpus.processes().keys()  # a model that does not use CUDA opens no driver
    server.stop()
    server = start_server(repository, variables=gpus.variables, flags=["--backend-config=python,default-instance-kind=KIND_CPU"])
    assert infer(server, "m", DATA).tolist() == DATA.tolist()
    wait_for("what the worker says", lambda: "is on CPU 0" in server.log)


MAKES = """
def execute(self, requests):
    given = value(requests[0])
    if getattr(self, "made", None):
        self.made.free()
    self.made = cuda.Array(np.arange(given[0], dtype=np.int32))
    return [pb_utils.InferenceResponse([pb_utils.Tensor.from_dlpack("OUT", self.made)])]
"""


def test_a_worker_that_wants_more_than_there_is_goes_over_the_cpu_and_harms_nobody(start_server, repository, tmp_path):
    gpus = fake_gpus(tmp_path, [{"memory": 16 << 20}])
    make(repository, "m", MAKES)
    make(repository, "other", MAKES)
    server = start_server(repository, variables=gpus.variables, flags=["--cuda-memory-pool-byte-size=0:0"])
    much, little = 10 << 18, 1000  # elements
    for _ in range(2):
        assert np.array_equal(infer(server, "m", [much]), np.arange(much))
    said = "tensors of Python models on GPU 0 go through CPU memory: 'm_0_0' wants 10485760 bytes, 6291456 are left: "
    assert server.log.count("go through CPU memory") == server.log.count(said) == 1
    for model in ("m", "other"):
        assert np.array_equal(infer(server, model, [little]), np.arange(little))
    before = gpus.counters(server.process.pid)
    infer(server, "m", [little])
    assert gpus.counters(server.process.pid).since(before)["copies_to_host"] == 1  # the rest of the device is still shared


SELECTS = """
def initialize(self, args):
    os.environ["CUDA_VISIBLE_DEVICES"] = args["model_instance_device_id"]
""" + GETS


@pytest.mark.parametrize("device", [0, 1])
def test_a_model_that_changes_what_devices_are_visible_gets_right_tensors(start_server, repository, tmp_path, device):
    """Its GPU 0 is the server's GPU 1: nothing is shared there. Where the number stays, all is as it was."""
    gpus = fake_gpus(tmp_path, 2)
    make_ensemble(repository)
    make(repository, "m", SELECTS, f"instance_group {{ kind: KIND_GPU gpus: [ {device} ] }}\n" + DEVICES)
    shutil.rmtree(repository / "echo")
    make_echo(repository, (device,))
    server = start_server(repository, variables=gpus.variables)
    said = "the model has changed CUDA_VISIBLE_DEVICES: GPU 1 is another one for it"
    wait_for("the worker's word", lambda: device == 0 or said in server.log)
    for _ in range(3):
        assert infer(server, "e", DATA).tolist() == (DATA + (1000 if device == 0 else 0)).tolist()
    assert server.log.count(said) == device


DIES = """
def execute(self, requests):
    given = requests[0].inputs()[0]
    assert not given.is_cpu()
    if os.path.exists("GATE"):
        os.kill(os.getpid(), 9)
    return [pb_utils.InferenceResponse([pb_utils.Tensor.from_dlpack("OUT", cuda.Array(cuda.read(given)))])]
"""


def test_a_worker_that_dies_with_memory_of_a_device_leaves_none(start_server, repository, tmp_path):
    gpus, gate = fake_gpus(tmp_path), tmp_path / "gate"
    make_ensemble(repository)
    make(repository, "m", DIES.replace("GATE", str(gate)))
    server = start_server(repository, variables=gpus.variables)
    empty = gpus.counters(server.process.pid)["used.0"]
    for _ in range(2):
        assert infer(server, "e", DATA).tolist() == DATA.tolist()
        assert gpus.counters(server.process.pid)["used.0"] > empty
        gate.touch()
        with pytest.raises(triton.InferenceServerException, match="SIGKILL"):
            infer(server, "e", DATA)
        wait_for("its memory", lambda: gpus.counters(server.process.pid)["used.0"] == empty)
        gate.unlink()
        wait_for("readiness", lambda: ready(server))


WAITS = """
def execute(self, requests):
    given = requests[0].inputs()[0]
    assert not given.is_cpu()
    open("STARTED", "w").close()
    while not os.path.exists("GATE"):
        time.sleep(0.01)
    return [pb_utils.InferenceResponse([pb_utils.Tensor.from_dlpack("OUT", cuda.Array(cuda.read(given)))])]
"""
ASKS = """
def execute(self, requests):
    open("CALLER", "w").write(str(os.getpid()))
    made = cuda.Array(value(requests[0]))
    wanted = pb_utils.PreferredMemory(pb_utils.TRITONSERVER_MEMORY_GPU, 0)
    call = pb_utils.InferenceRequest(model_name="waits", requested_output_names=["OUT"], preferred_memory=wanted,
                                     inputs=[pb_utils.Tensor.from_dlpack("IN", made)])
    found = call.exec()
    assert not found.has_error(), found.error().message()
    made.free()
    return [pb_utils.InferenceResponse([pb_utils.Tensor.from_dlpack("OUT", found.output_tensors()[0])])]
"""


def test_a_worker_that_is_killed_in_a_call_with_tensors_on_a_device_takes_nobody_along(start_server, repository, tmp_path):
    """The called model answers when the caller and the memory that it wanted the answer in have no other user left."""
    gpus, gate, started, caller = fake_gpus(tmp_path), tmp_path / "gate", tmp_path / "started", tmp_path / "caller"
    make(repository, "m", ASKS.replace("CALLER", str(caller)))
    make(repository, "waits", WAITS.replace("GATE", str(gate)).replace("STARTED", str(started)))
    gate.touch()
    server = start_server(repository, variables=gpus.variables)
    assert infer(server, "m", DATA).tolist() == DATA.tolist()
    both = gpus.counters(server.process.pid)["used.0"]
    for path in (gate, started):
        path.unlink()
    with concurrent.futures.ThreadPoolExecutor() as pool:
        asked = pool.submit(infer, server, "m", DATA)
        wait_for("the call", started.exists)
        os.kill(int(caller.read_text()), signal.SIGKILL)
        with pytest.raises(triton.InferenceServerException, match="SIGKILL"):
            asked.result()
    gate.touch()
    wait_for("its memory", lambda: gpus.counters(server.process.pid)["used.0"] < both)
    wait_for("readiness", lambda: ready(server))
    assert infer(server, "m", DATA).tolist() == DATA.tolist()
    assert gpus.counters(server.process.pid)["used.0"] == both


WANTS = """
def execute(self, requests):
    wanted = pb_utils.PreferredMemory(pb_utils.TRITONSERVER_MEMORY_GPU, 0)
    call = pb_utils.InferenceRequest(model_name="echo", requested_output_names=["OUTPUT0"], preferred_memory=wanted,
                                     inputs=[pb_utils.Tensor("INPUT0", value(requests[0]))])
    found = call.exec().output_tensors()[0]
    assert not found.is_cpu()
    return [answer(cuda.read(found))]
"""


@pytest.mark.slow
def test_a_model_on_the_cpu_that_loops_run_answers_a_call_on_a_device(start_server, repository, tmp_path):
    """The played driver ends a process that calls it on a loop: what a client asks runs there, what a model asks does not."""
    gpus = fake_gpus(tmp_path)
    make(repository, "m", WANTS)
    make_identity(repository, "echo", "TYPE_INT32", more="instance_group { kind: KIND_CPU count: 2 }", max_batch_size=0)
    server = start_server(repository, variables=gpus.variables)

    def ask(model):
        for n in range(30):
            data = DATA + n
            if model == "m":
                assert infer(server, model, data).tolist() == data.tolist()
            else:
                with triton.InferenceServerClient(server.url) as client:
                    assert client.infer(model, [tensor(data, name="INPUT0")]).as_numpy("OUTPUT0").tolist() == data.tolist()

    with concurrent.futures.ThreadPoolExecutor() as pool:
        for asked in [pool.submit(ask, model) for model in ("m", "echo", "echo")]:
            asked.result()
