# SPDX-License-Identifier: Apache-2.0
"""Tensors in memory of a client on a GPU (a driver that is played), over both protocols, with Triton's own clients."""
import base64
import concurrent.futures
import contextlib
import json
import re
import subprocess

import numpy
import proc
import pytest
import tritonclient.grpc as over_grpc
from client_memory import inference, place, region
from client_memory import register as register_system
from client_memory import unregister as unregister_system
from conftest import Starter, make_identity, wait_for
from cuda_memory import Memory, Protocol
from gpus import Client, fake_gpus
from grpc_sides import Answers, client_of
from tracing import ON, TENSORS, read_traces, to_file
from tritonclient.utils import InferenceServerException, deserialize_bytes_tensor, serialize_byte_tensor

ON_GPU = "instance_group [ { kind: KIND_GPU gpus: [ 0 ] } ]"
ON_CPU = "instance_group [ { kind: KIND_CPU } ]"
ALLOW = ("--allow-client-shm=true",)
INVALID = "failed to register shared memory region"
SIZE = 1 << 20


@pytest.fixture(scope="module")
def gpus(tmp_path_factory):
    return fake_gpus(tmp_path_factory.mktemp("gpus"), devices=2)


@pytest.fixture(scope="module")
def server(nereid, backends, gpus, tmp_path_factory):
    repository = tmp_path_factory.mktemp("models")
    make_identity(repository, "gpu", more=ON_GPU)
    make_identity(repository, "cpu", more=ON_CPU)
    make_identity(repository, "strings", "TYPE_STRING", more=ON_GPU)
    starter = Starter(nereid, backends, tmp_path_factory.mktemp("server"))
    yield starter(repository, flags=ALLOW, variables=gpus.variables)
    starter.stop_all()


@pytest.fixture(scope="module")
def process(gpus):
    """Another process, whose memory it is."""
    with Client(gpus) as client:
        yield client


@pytest.fixture(params=["http", "grpc"])
def triton(request, server):
    with Protocol(request.param, server).open() as protocol:
        yield protocol
        protocol.unregister()
        assert protocol.regions() == {}


@pytest.fixture
def memory(process, triton):
    """A registered region of SIZE bytes."""
    made = Memory(process, SIZE)
    triton.register(made.name, made.handle, SIZE)
    yield made
    triton.unregister(made.name)
    process.free(made.base)


def refusal(call, *arguments, **more):
    with pytest.raises(InferenceServerException) as refused:
        call(*arguments, **more)
    return refused.value.message()


@contextlib.contextmanager
def fault(gpus, function, code=0, **more):
    gpus.fault(function, code, **more)
    try:
        yield
    finally:
        gpus.heal()


@pytest.mark.parametrize("model", ["gpu", "cpu"])
def test_tensors_are_read_from_it_and_written_to_it(triton, memory, gpus, model):
    """The clients' own calls; nothing is copied on the way but by the backend, from place to place."""
    data = numpy.random.default_rng(1).random((1, 1000), numpy.float32)
    memory.write(data.tobytes())
    assert triton.regions() == {memory.name: (0, SIZE)} == triton.regions(memory.name)
    source = triton.input(data.shape, "FP32", (memory.name, data.nbytes))
    target = triton.output((memory.name, data.nbytes, 65536))
    for _ in range(2):
        before = gpus.counters()
        result = triton.infer(model, [source], [target])
        done = gpus.counters().since(before)
        assert memory.read(data.nbytes, 65536) == data.tobytes()
        memory.write(bytes(data.nbytes), 65536)
    if model == "gpu":
        assert done["copies_on_device"] == 1 and done["copies_to_host"] == done["copies_to_device"] == 0
    if triton.name == "http":
        assert result.get_response()["outputs"] == [{"name": "OUTPUT0", "datatype": "FP32", "shape": [1, 1000]}]
    else:
        assert list(result.get_response().raw_output_contents) == [b""] and result.get_output("OUTPUT0").shape == [1, 1000]


def test_one_end_may_be_in_memory(triton, memory):
    data = numpy.arange(64, dtype=numpy.float32).reshape(2, 32)
    memory.write(data.tobytes(), 64)
    source = triton.input(data.shape, "FP32", (memory.name, data.nbytes, 64))
    assert numpy.array_equal(triton.infer("gpu", [source]).as_numpy("OUTPUT0"), data)
    given = triton.input(data.shape, "FP32", data=data * 2)
    triton.infer("gpu", [given], [triton.output((memory.name, 4096, 4096))])
    assert memory.read(data.nbytes, 4096) == (data * 2).tobytes()


def test_strings_are_read_once_on_the_host(triton, memory):
    strings = numpy.array([[b"", b"abc", "ü".encode(), b"\0\1"]], dtype=object)
    data = serialize_byte_tensor(strings).item()
    memory.write(data, 100)
    source = triton.input(strings.shape, "BYTES", (memory.name, len(data), 100))
    triton.infer("strings", [source], [triton.output((memory.name, 1000, 4096))])
    assert list(deserialize_bytes_tensor(memory.read(len(data), 4096))) == list(strings.ravel())
    assert list(triton.infer("strings", [source]).as_numpy("OUTPUT0").ravel()) == list(strings.ravel())
    memory.write((2**31).to_bytes(4, "little"), 100)
    assert "INPUT0" in refusal(triton.infer, "strings", [source])


def test_strings_that_cannot_be_read_fail_their_request_only(triton, memory, gpus):
    strings = numpy.array([[b"abc"]], dtype=object)
    data = serialize_byte_tensor(strings).item()
    memory.write(data)
    source = triton.input(strings.shape, "BYTES", (memory.name, len(data)))
    with fault(gpus, "cuMemcpyDtoHAsync_v2", 1):
        assert f"shared memory region '{memory.name}': failed to perform CUDA copy" in refusal(triton.infer, "strings", [source])
    assert triton.infer("strings", [source]).as_numpy("OUTPUT0")[0][0] == b"abc"


# ---- registering ----

# What is registered (of SIZE bytes on device 0), and what the text says.
REGISTRATIONS = {
    "a handle that is too short": (dict(handle=lambda handle: handle[:63]), "'raw_handle' must be a valid"),
    "a handle that is too long": (dict(handle=lambda handle: handle + b"x"), "'raw_handle' must be a valid"),
    "no handle": (dict(handle=lambda handle: b""), "'raw_handle' must be a valid"),
    "a handle of nothing": (dict(handle=lambda handle: b"\xff" * 64), "invalid args: region 'new': failed to open CUDA IPC handle"),
    "a handle of zeroes": (dict(handle=lambda handle: bytes(64)), "invalid args: region 'new': failed to open CUDA IPC handle"),
    "a byte too many": (dict(size=SIZE + 1), f"failed to register shared memory region 'new': invalid args: its size of {SIZE + 1} "
                                             f"bytes is more than the {SIZE} that are allocated on GPU 0"),
    "more than there can be": (dict(size=2**63 - 1), "more than the"),
    "a device that is not there": (dict(device=2), "region 'new' is on GPU 2, but this server's GPUs are 0 to 1"),
    "a device that cannot be": (dict(device=2**40), "but this server's GPUs are 0 to 1"),
    "another device than the memory's": (dict(device=1), "the memory is on GPU 0, not on GPU 1"),
    "a name that is too long": (dict(name="n" * 256), "255 bytes"),
}


@pytest.mark.parametrize("case", REGISTRATIONS)
def test_registrations_that_are_refused(triton, memory, gpus, case):
    change, words = REGISTRATIONS[case]
    before = gpus.counters()
    text = refusal(triton.register, change.get("name", "new"), change.get("handle", bytes)(memory.handle),
                   change.get("size", SIZE), change.get("device", 0))
    assert words in text and text.startswith((INVALID, "'raw_handle'", "expected a name", "the URL has a name")), text
    assert triton.regions() == {memory.name: (0, SIZE)}
    after = gpus.counters()
    assert after["ipc_opened"] == before["ipc_opened"] and after["contexts.1"] == before["contexts.1"]


# Over HTTP alone.
BODIES = {
    "no handle": ({}, "Shared memory register request has no 'raw_handle' field"),
    "a handle that is text": ({"raw_handle": "QQ=="}, "attempt to access non-existing object member 'b64'"),
    "a handle without text": ({"raw_handle": {}}, "attempt to access non-existing object member 'b64'"),
    "a handle of a number": ({"raw_handle": {"b64": 1}}, "attempt to access JSON non-string as string: 'b64'"),
    "a handle that is no base64": ({"raw_handle": {"b64": "!" * 88}}, "'raw_handle' must be a valid base64 encoded cudaIpcMemHandle_t"),
    "no size": ({"byte_size": None}, "attempt to access non-existing object member 'byte_size'"),
    "no device": ({"device_id": None}, "attempt to access non-existing object member 'device_id'"),
    "a size below 0": ({"byte_size": -1}, "non-unsigned-integer as unsigned-integer: 'byte_size'"),
    "a device below 0": ({"device_id": -1}, "non-unsigned-integer as unsigned-integer: 'device_id'"),
    "a device of text": ({"device_id": "0"}, "non-unsigned-integer as unsigned-integer: 'device_id'"),
    "no object": ([1], "has no 'raw_handle' field"),
    "no JSON": (b"{", "failed to parse the request JSON buffer"),
    "nothing": (b"", "has no 'raw_handle' field"),
}


@pytest.mark.parametrize("case", BODIES)
def test_bodies_that_are_refused(server, case):
    body, words = BODIES[case]
    if isinstance(body, dict) and body.keys() & {"byte_size", "device_id"}:
        body = {"raw_handle": {"b64": "A" * 86 + "=="}, "byte_size": 1, "device_id": 0} | body
        body = {name: value for name, value in body.items() if value is not None}
    answer = server.ask("/v2/cudasharedmemory/region/new/register", body if isinstance(body, bytes) else json.dumps(body).encode())
    assert answer.status == 400 and words in json.loads(answer.body)["error"], answer.text


def test_why_the_driver_refuses(triton, memory, gpus):
    for code, words in ((201, "this same process"), (101, "--pid=host"), (801, "WSL2"), (217, "cannot reach"), (1, "may have ended")):
        with fault(gpus, "cuIpcOpenMemHandle_v2", code):
            text = refusal(triton.register, "new", memory.handle, SIZE)
        assert text.startswith(f"{INVALID}: invalid args: region 'new': failed to open CUDA IPC handle: ") and words in text, text
    assert triton.regions() == {memory.name: (0, SIZE)}


def in_another_pid_namespace():
    """The command that starts a process there."""
    for rights in ([], ["--user", "--map-root-user"]):
        command = ["unshare", *rights, "--pid", "--fork"]
        if subprocess.run([*command, "true"], capture_output=True).returncode == 0:
            return command
    return None


def test_a_handle_of_another_pid_namespace(start_server, repository, tmp_path):
    gpus, within = fake_gpus(tmp_path), in_another_pid_namespace()
    server = start_server(repository, flags=ALLOW, variables=gpus.variables)
    if within is None:  # this machine allows none: the driver answers by itself
        gpus.fault("cuIpcOpenMemHandle_v2", 101)
    with Client(gpus, within=within or ()) as other, Protocol("http", server).open() as protocol:
        text = refusal(protocol.register, "new", other.handle(other.allocate(SIZE)), SIZE)
        assert "its process may be in another PID namespace (containers need --pid=host and --ipc=host)" in text
        assert protocol.regions() == {}


def test_there_is_one_name_space_of_both_kinds(triton, memory, server):
    taken = "shared memory region '%s' already in manager"
    assert refusal(triton.register, memory.name, memory.handle, SIZE) == taken % memory.name
    with region() as made:
        answer = register_system(server, memory.name, made.key, made.size)
        assert answer.status == 400 and json.loads(answer.body)["error"] == taken % memory.name
        assert register_system(server, "host", made.key, made.size).status == 200
        assert refusal(triton.register, "host", memory.handle, SIZE) == taken % "host"
        kinds = "The region named '%s' is registered as %s shared memory, not %s shared memory"
        assert refusal(triton.regions, "host") == kinds % ("host", "system", "CUDA")
        assert refusal(triton.client.get_system_shared_memory_status, memory.name) == kinds % (memory.name, "CUDA", "system")
        assert refusal(triton.regions, "no-such") == "Unable to find cuda shared memory region: 'no-such'"
        triton.unregister("host")  # of the other kind: nothing
        triton.client.unregister_system_shared_memory(memory.name)
        triton.client.unregister_system_shared_memory()
        assert triton.regions() == {memory.name: (0, SIZE)}
        assert unregister_system(server).status == 200
    with triton_of_both(server) as (over_http, over_grpc):
        assert over_http.regions() == over_grpc.regions() == {memory.name: (0, SIZE)}


@contextlib.contextmanager
def triton_of_both(server):
    with Protocol("http", server).open() as over_http, Protocol("grpc", server).open() as over_grpc:
        yield over_http, over_grpc


def test_one_memory_may_have_many_names(triton, memory, gpus):
    before = gpus.counters()["ipc_opened"]
    triton.register("half", memory.handle, SIZE // 2)
    assert triton.regions() == {memory.name: (0, SIZE), "half": (0, SIZE // 2)}
    memory.write(numpy.float32(7).tobytes(), SIZE // 2 - 4)
    source = triton.input([1, 1], "FP32", ("half", 4, SIZE // 2 - 4))
    assert triton.infer("gpu", [source]).as_numpy("OUTPUT0")[0][0] == 7
    assert refusal(triton.infer, "gpu", [triton.input([1, 1], "FP32", ("half", 4, SIZE // 2 - 3))])
    triton.unregister(memory.name)
    assert triton.infer("gpu", [source]).as_numpy("OUTPUT0")[0][0] == 7
    triton.unregister("half")
    assert gpus.counters()["ipc_opened"] < before


# ---- using ----

SPANS = {
    "an offset outside": ((4, SIZE), "Invalid offset for shared memory region: 'R'"),
    "an end outside": ((4, SIZE - 3), "Invalid offset + byte size for shared memory region: 'R'"),
    "an end beyond 64 bits": ((2**63 - 1, 2**63 - 1), "Invalid offset for shared memory region: 'R'"),
    "a size beyond all": ((2**63 - 1, 4), "Invalid offset + byte size for shared memory region: 'R'"),
    "too short": ((3, 0), "INPUT0"),
    "too long": ((8, 0), "INPUT0"),
}


@pytest.mark.parametrize("case", SPANS)
def test_inputs_that_are_not_in_it(triton, memory, case):
    span, words = SPANS[case]
    text = refusal(triton.infer, "gpu", [triton.input([1, 1], "FP32", (memory.name, *span))])
    assert words.replace("R", memory.name, 1) in text if "'R'" in words else words in text, text


def test_a_sum_beyond_64_bits(server, memory):
    answer = server.ask("/v2/models/gpu/infer", inference("FP32", [1, 1], place(memory.name, 2**64 - 1, 1)))
    assert answer.status == 400 and "Integer overflow detected: byte_size" in answer.text


def test_outputs_that_do_not_fit(triton, memory):
    given = triton.input([1, 2], "FP32", data=numpy.zeros((1, 2), numpy.float32))
    text = refusal(triton.infer, "gpu", [given], [triton.output((memory.name, 7))])
    assert text.endswith("shared memory size specified with the request for output 'OUTPUT0' (7 bytes) should be at least 8 bytes to "
                         "hold the results"), text
    assert "Unable to find shared memory region: 'no-such'" in refusal(triton.infer, "gpu", [given], [triton.output(("no-such", 8))])


def test_a_region_in_use_goes_with_its_last_user(triton, memory, gpus):
    """A job closes it: the loop whose reply is the last user does not wait for the driver."""
    data = numpy.arange(4, dtype=numpy.float32).reshape(1, 4)
    memory.write(data.tobytes())
    source, target = triton.input(data.shape, "FP32", (memory.name, 16)), triton.output((memory.name, 16, 64))
    before = gpus.counters()
    with concurrent.futures.ThreadPoolExecutor(1) as clients, Protocol(triton.name, triton.server).open() as other:
        with fault(gpus, "cuMemcpyDtoDAsync_v2", hang=True):
            answer = clients.submit(other.infer, "gpu", [source], [target])
            wait_for("its user", lambda: gpus.counters().since(before)["cuMemcpyDtoDAsync_v2"] == 1)
            triton.unregister(memory.name)
            assert triton.regions() == {memory.name: (0, SIZE)} and gpus.counters()["ipc_opened"] == before["ipc_opened"]
            gpus.faults = []
            gpus.fault("cuIpcCloseMemHandle", hang=True)
            answer.result()
            wait_for("its end", lambda: triton.regions() == {})
            wait_for("who closes it", lambda: gpus.counters().since(before)["cuIpcCloseMemHandle"] == 1)
            given = triton.input(data.shape, "FP32", data=data)
            assert numpy.array_equal(triton.infer("gpu", [given]).as_numpy("OUTPUT0"), data)  # nobody waits
        wait_for("its mapping's end", lambda: gpus.counters()["ipc_opened"] == before["ipc_opened"] - 1)
    assert memory.read(16, 64) == data.tobytes()


def test_registering_holds_nobody_up(triton, memory, gpus, server):
    """The driver takes its time; names are found, inferences done, and the name is taken meanwhile."""
    before = gpus.counters()["cuIpcOpenMemHandle_v2"]
    with concurrent.futures.ThreadPoolExecutor(1) as clients, Protocol(triton.name, server).open() as other:
        with fault(gpus, "cuIpcOpenMemHandle_v2", hang=True):
            registered = clients.submit(other.register, "late", memory.handle, SIZE)
            wait_for("the driver", lambda: gpus.counters()["cuIpcOpenMemHandle_v2"] > before)
            assert "already in manager" in refusal(triton.client.register_system_shared_memory, "late", "/no-such-object", 1)
            assert triton.regions() == {memory.name: (0, SIZE)}
            assert "Unable to find cuda shared memory region: 'late'" in refusal(triton.regions, "late")
            assert "Unable to find shared memory region: 'late'" in refusal(
                triton.infer, "gpu", [triton.input([1, 1], "FP32", ("late", 4))])
            triton.infer("gpu", [triton.input([1, 1], "FP32", (memory.name, 4))])
        registered.result()
    assert triton.regions().keys() == {memory.name, "late"}
    triton.unregister("late")


def test_the_end_of_its_process(triton, gpus):
    """The mapping stays; what the driver says of it is the request's error, and nobody else's."""
    data = numpy.arange(4, dtype=numpy.float32).reshape(1, 4)
    with Client(gpus) as client:
        made = Memory(client, SIZE)
        made.write(data.tobytes())
        triton.register(made.name, made.handle, SIZE)
        source = triton.input(data.shape, "FP32", (made.name, 16))
        assert numpy.array_equal(triton.infer("gpu", [source]).as_numpy("OUTPUT0"), data)
        client.kill()
        text = refusal(triton.infer, "gpu", [source])
        assert "PUT0: failed to perform CUDA copy: " in text, text
        assert triton.regions() == {made.name: (0, SIZE)}
        triton.unregister(made.name)
        again = refusal(triton.register, "again", made.handle, SIZE)
        assert "its process may have ended" in again, again
    assert numpy.array_equal(triton.infer("gpu", [triton.input(data.shape, "FP32", data=data)]).as_numpy("OUTPUT0"), data)


def test_a_mapping_that_cannot_be_closed(triton, memory, process, gpus):
    with fault(gpus, "cuIpcCloseMemHandle", 1):
        assert refusal(triton.unregister, memory.name).startswith("failed to close CUDA IPC handle: ")
    assert triton.regions() == {}
    for name in ("a", "b"):
        triton.register(name, memory.handle, SIZE)
    with fault(gpus, "cuIpcCloseMemHandle", 1):
        text = refusal(triton.unregister)
    assert text.startswith("Failed to unregister the following cuda shared memory regions: a ,"), text
    assert triton.regions() == {}


# ---- many ----

def test_a_thousand_times(triton, memory, gpus, server):
    """No mapping, context or descriptor is left."""
    def state():
        counters = gpus.counters(server.process.pid)
        return counters["ipc_opened"], counters["contexts.0"], counters["used.0"], len(proc.descriptors(server.process.pid))

    triton.register("again", memory.handle, SIZE)
    triton.unregister("again")
    before = state()
    for i in range(500):
        triton.register("again", memory.handle, SIZE)
        triton.unregister("again" if i % 2 else "")
        if i % 2 == 0:
            triton.register(memory.name, memory.handle, SIZE)
    # a connection of an earlier test may have been there before
    wait_for("what was there before", lambda: all(now <= then for now, then in zip(state(), before)))


def test_many_clients_of_one_name(server, process, gpus):
    """Registering, using and unregistering at once: each answer is right or one of the refusals, and nothing is left."""
    made = Memory(process, SIZE)
    data = numpy.arange(16, dtype=numpy.float32).reshape(1, 16)
    made.write(data.tobytes())
    opened = gpus.counters(server.process.pid)["ipc_opened"]

    def work(name):
        done = 0
        with Protocol(name, server).open() as triton:
            source = triton.input(data.shape, "FP32", ("shared", data.nbytes))
            for _ in range(40):
                with contextlib.suppress(InferenceServerException):
                    triton.register("shared", made.handle, SIZE)
                try:
                    assert numpy.array_equal(triton.infer("gpu", [source]).as_numpy("OUTPUT0"), data)
                    done += 1
                except InferenceServerException as refused:
                    assert "Unable to find shared memory region: 'shared'" in refused.message()
                triton.unregister("shared")
        return done

    with concurrent.futures.ThreadPoolExecutor(6) as clients:
        assert all(list(clients.map(work, ["http", "grpc"] * 3)))
    with Protocol("http", server).open() as triton:
        triton.unregister()
        assert triton.regions() == {}
    wait_for("the last mapping's end", lambda: gpus.counters(server.process.pid)["ipc_opened"] == opened)


def test_a_stream_reads_it(server, memory):
    data = numpy.arange(8, dtype=numpy.float32).reshape(1, 8)
    memory.write(data.tobytes())
    answers = Answers()
    with client_of(server) as client:
        client.start_stream(answers)
        for i in range(4):
            source = over_grpc.InferInput("INPUT0", [1, 2], "FP32")
            source.set_shared_memory(memory.name, 8, 8 * i)
            target = over_grpc.InferRequestedOutput("OUTPUT0")
            target.set_shared_memory(memory.name, 8, 4096 + 8 * i)
            client.async_stream_infer("gpu", [source], outputs=[target])
        for _ in range(4):
            answers.result()
        client.stop_stream()
    assert memory.read(32, 4096) == data.tobytes()


# ---- outputs that are not in memory of the client ----


def test_binary_outputs_are_copied_from_the_device_to_where_they_are_sent_from(triton, gpus, server):
    """One copy, to pinned memory: none by the driver's own staging, none on the host; and nothing is allocated for it."""
    data = numpy.random.default_rng(3).random((1, 1 << 18), numpy.float32)
    given, binary = triton.input(data.shape, "FP32", data=data), triton.output()
    triton.infer("gpu", [given], [binary])
    before = gpus.counters()
    result = triton.infer("gpu", [given], [binary])
    done = gpus.counters().since(before)
    assert numpy.array_equal(result.as_numpy("OUTPUT0"), data)
    assert (done["copies_to_host"], done["bytes_to_host"], done["pageable_copies"], done["allocations"]) == (1, data.nbytes, 0, 0)
    wait_for("the pinned memory to be given back", lambda: pinned_bytes(server) < data.nbytes)


def pinned_bytes(server):
    text = server.ask("/metrics", port=server.metrics_port).text
    return float(re.search(r"^nv_pinned_memory_pool_used_bytes (\S+)$", text, re.M)[1])


def test_text_and_classes_of_a_model_on_a_gpu(server):
    request = {"inputs": [{"name": "INPUT0", "shape": [1, 4], "datatype": "FP32", "data": [1.5, 3, 2, -1]}]}
    answer = server.ask("/v2/models/gpu/infer", json.dumps(request).encode())
    assert json.loads(answer.body)["outputs"][0]["data"] == [1.5, 3.0, 2.0, -1.0]
    request["outputs"] = [{"name": "OUTPUT0", "parameters": {"classification": 2}}]
    answer = server.ask("/v2/models/gpu/infer", json.dumps(request).encode())
    assert json.loads(answer.body)["outputs"][0]["data"] == ["3.000000:1", "2.000000:2"]


def test_where_there_is_no_room_outputs_are_elsewhere(start_server, repository, gpus):
    make_identity(repository, "gpu", more=ON_GPU)
    server = start_server(repository, flags=("--pinned-memory-pool-byte-size=1048576",), variables=gpus.variables)
    for name in ("http", "grpc"):
        with Protocol(name, server).open() as triton:
            for count in (1 << 18, 1 << 20, 1000):
                data = numpy.random.default_rng(count).random((1, count), numpy.float32)
                given = triton.input(data.shape, "FP32", data=data)
                assert numpy.array_equal(triton.infer("gpu", [given], [triton.output()]).as_numpy("OUTPUT0"), data)


# ---- traces ----


def test_traces_have_the_tensors(start_server, repository, gpus, process, tmp_path):
    """Inputs and outputs in memory of a GPU; what cannot be read is missing, and the request knows nothing of it."""
    make_identity(repository, "gpu", more=ON_GPU)
    make_identity(repository, "cpu", more=ON_CPU)
    file = tmp_path / "trace.json"
    server = start_server(repository, flags=(*ALLOW, ON[0], TENSORS, to_file(file)), variables=gpus.variables)
    made = Memory(process, SIZE)
    made.write(numpy.array([1.5, -2], numpy.float32).tobytes())
    for name in ("http", "grpc"):
        with Protocol(name, server).open() as triton:
            triton.register("r", made.handle, SIZE)
            source, target = triton.input([1, 2], "FP32", ("r", 8)), triton.output(("r", 8, 64))
            triton.infer("gpu", [source], [target])
            triton.infer("cpu", [source])
            with fault(gpus, "cuMemcpyDtoHAsync_v2", 1, times=0):
                triton.infer("gpu", [source], [target])
            triton.unregister()
    server.stop()
    both = [("TENSOR_QUEUE_INPUT", "INPUT0", "1.5,-2.0"), ("TENSOR_BACKEND_OUTPUT", "OUTPUT0", "1.5,-2.0")]
    found = [[(activity, row["name"], row["data"]) for activity, row in trace.tensors] for trace in read_traces(file).values()]
    assert found == [both, both] * 2, found  # a trace without rows is none


# ---- the server ----


def test_the_device_is_the_client_s_alone_until_it_is_registered(start_server, repository, gpus, process):
    """No context without a region, none after the last; off by default; each protocol sees what the other registered."""
    make_identity(repository, "cpu", more=ON_CPU)
    off = start_server(repository, variables=gpus.variables)
    made = Memory(process, SIZE)
    for name in ("http", "grpc"):
        with Protocol(name, off).open() as triton:
            disabled = "Client shared memory is disabled. Start the server with '--allow-client-shm=true' to enable."
            assert refusal(triton.register, "r", made.handle, SIZE) == refusal(triton.unregister, "r") == disabled
            assert triton.regions() == {}
    off.stop()
    server = start_server(repository, flags=ALLOW, variables=gpus.variables)
    contexts = lambda: gpus.counters(server.process.pid)["contexts.0"]
    with triton_of_both(server) as (over_http, over_grpc):
        assert contexts() == 0
        over_http.register("r", made.handle, SIZE)
        assert over_grpc.regions() == {"r": (0, SIZE)} and contexts() == 1
        over_grpc.unregister("r")
        assert over_http.regions() == {} and contexts() == 0
    server.stop()
