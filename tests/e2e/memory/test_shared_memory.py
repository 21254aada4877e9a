# SPDX-License-Identifier: Apache-2.0
"""Tensors in memory of the client, as Triton's clients use it, and what the extension's endpoints answer."""
import concurrent.futures
import json
import os
import re

import numpy
import pytest
import tritonclient.grpc as triton_grpc
import tritonclient.http as http
import tritonclient.utils.shared_memory as client_shm
from client_memory import BASE, inference, mapped, place, region, register, registered, status, unregister
from conftest import ELEMENT_SIZES, IDENTITY, WITHOUT_GPUS, Starter, wait_for
from grpc_sides import Answers, client_of
from python_models import make_python
from tritonclient.utils import InferenceServerException, deserialize_bytes_tensor, serialize_byte_tensor

ALLOW = ("--allow-client-shm=true",)
DISABLED = "Client shared memory is disabled. Start the server with '--allow-client-shm=true' to enable."
PAGE = os.sysconf("SC_PAGE_SIZE")
TYPES = [name for name, size in ELEMENT_SIZES.items() if size > 0]


def json_of(answer):
    assert answer.status == 200, answer.text
    return json.loads(answer.body)


@pytest.fixture(scope="module")
def sharing(nereid, backends, targets, tmp_path_factory):
    """A server that lets clients share memory."""
    starter = Starter(nereid, backends, tmp_path_factory.mktemp("sharing"))
    yield starter(targets, flags=ALLOW, variables=WITHOUT_GPUS)
    starter.stop_all()


@pytest.fixture
def memory(sharing):
    """A registered region 'r' of four pages, and nothing that is left registered."""
    with region(4 * PAGE) as made:
        assert register(sharing, "r", made.key, made.size).status == 200
        yield made
        assert unregister(sharing).status == 200
        wait_for("the region's end", lambda: mapped(sharing, made) == 0)


def test_it_is_off_by_default(target):
    """Row 24: exact text and status; what there is may be asked."""
    for kind in ("system", "cuda"):
        base = f"/v2/{kind}sharedmemory"
        for path in ("/region/r/register", "/region/r/unregister", "/unregister", "/register"):
            answer = target.ask(base + path, b'{"key":"/x","byte_size":1}')
            assert (answer.status, json.loads(answer.body)) == (501, {"error": DISABLED})
        assert target.ask(base + "/status").body == b"[]"
        answer = target.ask(base + "/region/r/status")
        assert answer.status == 404 and f"Unable to find {kind} shared memory region: 'r'" in answer.text
    answer = target.ask("/v2/models/t_fp32/infer", inference("FP32", [1, 1], place("r", 4)))
    assert answer.status == 404 and json.loads(answer.body)["error"] == "Unable to find shared memory region: 'r'"


def test_the_clients_own_functions(sharing):
    """Unmodified tritonclient: create, register, set, infer, read, unregister."""
    client = http.InferenceServerClient(sharing.url)
    data = numpy.arange(16, dtype=numpy.float32).reshape(1, 16)
    ends = [client_shm.create_shared_memory_region(name, f"/nereid_{name}_{os.getpid()}", 64) for name in ("in", "out")]
    try:
        client_shm.set_shared_memory_region(ends[0], [data])
        for name in ("in", "out"):
            client.register_system_shared_memory(name, f"/nereid_{name}_{os.getpid()}", 64)
        assert [row["name"] for row in client.get_system_shared_memory_status()] == ["in", "out"]
        assert client.get_system_shared_memory_status("in") == [
            {"name": "in", "key": f"/nereid_in_{os.getpid()}", "offset": 0, "byte_size": 64}]
        source, target = http.InferInput("INPUT0", data.shape, "FP32"), http.InferRequestedOutput("OUTPUT0")
        source.set_shared_memory("in", 64)
        target.set_shared_memory("out", 64)
        result = client.infer("t_fp32", [source], outputs=[target])
        assert result.get_response()["outputs"] == [{"name": "OUTPUT0", "datatype": "FP32", "shape": [1, 16]}]
        assert (client_shm.get_contents_as_numpy(ends[1], numpy.float32, data.shape) == data).all()
        assert (client.infer("t_fp32", [source]).as_numpy("OUTPUT0") == data).all()  # memory in, JSON out
        client.unregister_system_shared_memory("in")
        client.unregister_system_shared_memory()
        assert client.get_system_shared_memory_status() == []
        with pytest.raises(InferenceServerException, match="Unable to find system shared memory region: 'in'"):
            client.get_system_shared_memory_status("in")
    finally:
        for end in ends:
            client_shm.destroy_shared_memory_region(end)


@pytest.mark.parametrize("datatype", TYPES)
def test_cve_2025_23328_exactly_the_bytes_that_were_named(sharing, datatype):
    """S2: a region that begins within a page of its object, spans within it; all bytes around stay as they are."""
    size = 11 * ELEMENT_SIZES[datatype]
    start = PAGE + 8
    with region(4 * PAGE) as made:
        content = bytearray(os.urandom(made.size))
        if datatype == "BOOL":
            content = bytearray(byte & 1 for byte in content)
        made.memory[:] = bytes(content)
        assert register(sharing, "r", made.key, 2 * PAGE, offset=start).status == 200
        for source, target in ((0, PAGE), (16, 2 * PAGE - size), (8, 512), (PAGE - 5 - PAGE % 8, 64)):
            answer = sharing.ask(f"/v2/models/t_{datatype.lower()}/infer",
                                 inference(datatype, [1, 11], place("r", size, source), place("r", size, target)))
            assert answer.status == 200, answer.text
            content[start + target : start + target + size] = content[start + source : start + source + size]
            assert made.memory[:] == bytes(content), (source, target)
        assert unregister(sharing).status == 200


def test_strings_have_their_lengths_before_them(sharing, memory):
    strings = numpy.array([[b"", b"abc", "ü".encode(), b"\0\1"]], dtype=object)
    data = serialize_byte_tensor(strings).item()
    memory.memory[100 : 100 + len(data)] = data
    body = inference("BYTES", [1, 4], place("r", len(data), 100), place("r", 1000, PAGE))
    answer = sharing.ask("/v2/models/t_bytes/infer", body)
    assert json_of(answer)["outputs"] == [{"name": "OUTPUT0", "datatype": "BYTES", "shape": [1, 4]}]
    assert list(deserialize_bytes_tensor(memory.memory[PAGE : PAGE + len(data)])) == list(strings.ravel())
    for size in (len(data) - 1, len(data) + 1, 0):
        answer = sharing.ask("/v2/models/t_bytes/infer", inference("BYTES", [1, 4], place("r", size, 100)))
        assert answer.status == 400, answer.text


def test_large_tensors_of_all_ways(sharing):
    """Beyond what a loop does itself: read in place, copied by a worker, written in place."""
    count = 300_000
    with region(8 * count) as made:
        assert register(sharing, "r", made.key, made.size).status == 200
        for datatype, kind in (("FP32", numpy.float32), ("INT32", numpy.int32)):
            data = numpy.arange(count, dtype=kind)
            made.memory[: 4 * count] = data.tobytes()
            answer = sharing.ask(f"/v2/models/t_{datatype.lower()}/infer",
                                 inference(datatype, [1, count], place("r", 4 * count), place("r", 4 * count, 4 * count)))
            assert answer.status == 200, answer.text
            assert made.memory[4 * count :] == data.tobytes()
        assert unregister(sharing).status == 200


COMBINATIONS = {
    "data and memory": (dict(source=place("r", 4), data=[1]), 400, "Input must set only one of the following fields"),
    "binary and memory": (dict(source=place("r", 4) | {"binary_data_size": 4}), 400, "Input must set only one of the following"),
    "an input of no size": (dict(source={"shared_memory_region": "r"}), 400, "INPUT0"),
    "an input too short": (dict(source=place("r", 3)), 400, "INPUT0"),
    "an input too long": (dict(source=place("r", 8)), 400, "INPUT0"),
    "classes in memory": (dict(data=[1], target=place("r", 4) | {"classification": 1}), 400,
                          "Output can't set both 'shared_memory_region' and 'classification'"),
    "no classes in memory": (dict(data=[1], target=place("r", 4) | {"classification": 0}), 400, "and 'classification'"),
    "binary in memory": (dict(data=[1], target=place("r", 4) | {"binary_data": True}), 400,
                         "Output can't set both 'shared_memory_region' and 'binary_data'"),
    "not binary in memory": (dict(data=[1], target=place("r", 4) | {"binary_data": False}), 200, ""),
    "an output too short": (dict(data=[1], target=place("r", 3)), 500,
                            "shared memory size specified with the request for output 'OUTPUT0' (3 bytes) should be at least 4 "
                            "bytes to hold the results"),
    "an output of no size": (dict(data=[1], target={"shared_memory_region": "r"}), 500, "should be at least 4 bytes"),
    "an output with room": (dict(data=[1], target=place("r", PAGE)), 200, ""),
    "from and to one place": (dict(source=place("r", 4), target=place("r", 4)), 200, ""),
    "an unknown source": (dict(source=place("s", 4)), 404, "Unable to find shared memory region: 's'"),
    "an unknown target": (dict(data=[1], target=place("s", 4)), 404, "Unable to find shared memory region: 's'"),
    "an offset outside": (dict(source=place("r", 4, 4 * PAGE)), 400,
                          f"Invalid offset for shared memory region: 'r': offset {4 * PAGE}, expected less than its {4 * PAGE} bytes"),
    "an end outside": (dict(source=place("r", 4, 4 * PAGE - 3)), 400,
                       f"Invalid offset + byte size for shared memory region: 'r': offset {4 * PAGE - 3} and byte_size 4, expected the end within its "
                       f"{4 * PAGE} bytes"),
    "an end beyond 64 bits": (dict(source=place("r", 2**64 - 1, 1)), 400, "Integer overflow detected: byte_size"),
    "a size below 0": (dict(source=place("r", -1)), 400, "shared_memory_byte_size"),
    "an offset below 0": (dict(source=place("r", 4, -1)), 400, "shared_memory_offset"),
    "a region that is no name": (dict(source={"shared_memory_region": 1}), 400, "shared_memory_region"),
}


@pytest.mark.parametrize("case", COMBINATIONS)
def test_one_place_for_each_tensor(sharing, memory, case):
    parts, expected, words = COMBINATIONS[case]
    answer = sharing.ask("/v2/models/t_fp32/infer", inference("FP32", [1, 1], **parts))
    assert answer.status == expected, answer.text
    if expected == 200:
        assert "data" not in json_of(answer)["outputs"][0] and "parameters" not in json_of(answer)["outputs"][0]
    else:
        assert words in json.loads(answer.body)["error"], answer.text
    assert registered(sharing) == ["r"]


REGISTRATIONS = {
    "no key": ({"byte_size": 4}, 400, "Shared memory register request has no 'key' field"),
    "no size": ({"key": "KEY"}, 400, "Shared memory register request has no 'byte_size' field"),
    "a key that is none": ({"key": 1, "byte_size": 4}, 400, "attempt to access JSON non-string as string: 'key' must"),
    "a size below 0": ({"key": "KEY", "byte_size": -1}, 400, "unsigned-integer: 'byte_size' must"),
    "a size of text": ({"key": "KEY", "byte_size": "4"}, 400, "unsigned-integer: 'byte_size' must"),
    "an offset with a fraction": ({"key": "KEY", "byte_size": 4, "offset": 1.5}, 400, "unsigned-integer: 'offset' must"),
    "nothing of it": ({"key": "KEY", "byte_size": 0}, 400, "failed to register shared memory region 'new': invalid args: offset 0 and byte_size 0, expected at least a byte"),
    "too much of it": ({"key": "KEY", "byte_size": 4 * PAGE + 1}, 400,
                       f"invalid args: offset 0 and byte_size {4 * PAGE + 1}, expected at least a byte, all of them within the {4 * PAGE} bytes of '"),
    "behind its end": ({"key": "KEY", "byte_size": 1, "offset": 4 * PAGE}, 400, "invalid args"),
    "a sum beyond 64 bits": ({"key": "KEY", "byte_size": 2**63 - 1, "offset": 2**63 - 1}, 400, "invalid args"),
    "what does not exist": ({"key": "/nereid_no_such", "byte_size": 4}, 500,
                            "Unable to open shared memory region: '/nereid_no_such': No such file or directory in the server's /dev/shm, which other containers see "),
    "slashes": ({"key": "//", "byte_size": 4}, 400, "Unable to open shared memory region: '//': cannot register shared memory region 'new' - invalid shm key"),
    "a path": ({"key": "/../tmp/x", "byte_size": 4}, 400, "invalid shm key '/../tmp/x'"),
    "a reserved name": ({"key": "triton_python_backend_shm_region_1", "byte_size": 4}, 400, "contains the reserved prefix"),
    "no object": ([1], 400, "has no 'key' field"),
    "no JSON": (b"{", 400, "failed to parse the request JSON buffer"),
    "empty": (b"", 400, "has no 'key' field"),
}


@pytest.mark.parametrize("case", REGISTRATIONS)
def test_registrations_that_are_refused(sharing, memory, case):
    body, expected, words = REGISTRATIONS[case]
    if not isinstance(body, bytes):
        body = json.dumps(body).replace("KEY", memory.key).encode()
    answer = sharing.ask(f"{BASE}/region/new/register", body)
    assert answer.status == expected and words in json.loads(answer.body)["error"], answer.text
    assert registered(sharing) == ["r"]


def test_a_name_is_registered_once(sharing, memory):
    answer = register(sharing, "r", memory.key, 8)
    assert answer.status == 400 and json.loads(answer.body)["error"] == "shared memory region 'r' already in manager"
    assert sharing.ask(f"{BASE}/register", b"{}").status == 400
    assert unregister(sharing, "no-such-region").status == 200


def test_cuda_memory_without_a_gpu(start_server, repository):
    server = start_server(repository, flags=ALLOW, variables={"CUDA_VISIBLE_DEVICES": ""})
    with region() as made:
        assert register(server, "r", made.key, made.size).status == 200
        check_without_a_gpu(server)


def check_without_a_gpu(sharing):
    base = "/v2/cudasharedmemory"
    body = json.dumps({"raw_handle": {"b64": "A" * 88}, "byte_size": 8, "device_id": 0}).encode()
    answer = sharing.ask(f"{base}/region/c/register", body)
    assert answer.status == 400
    refusal = "failed to register CUDA shared memory region: 'c', GPUs not supported"  # Triton's, and then why
    assert json.loads(answer.body)["error"].startswith(refusal + ": "), answer.text
    assert sharing.ask(f"{base}/status").body == b"[]"
    answer = sharing.ask(f"{base}/region/r/status")
    assert answer.status == 404 and "registered as system shared memory, not CUDA shared memory" in answer.text
    assert sharing.ask(f"{base}/region/r/unregister", b"").status == 200
    assert sharing.ask(f"{base}/unregister", b"").status == 200
    assert registered(sharing) == ["r"]
    answer = sharing.ask(f"{base}/register", body)
    assert answer.status == 400 and "'region name' is necessary to register cuda shared memory region" in answer.text


def test_a_region_in_use_is_unregistered_when_its_requests_are_done(start_server, repository, tmp_path):
    """As Triton's qa has it: it stays listed, later requests may use it, and it goes with the last."""
    gate = tmp_path / "gate"
    config = IDENTITY % dict(type="TYPE_FP32", max_batch_size=8, more="")
    make_python(repository, "slow", f"""
        def execute(self, requests):
            while not os.path.exists({str(gate)!r}):
                time.sleep(0.01)
            return [answer(value(request, "INPUT0"), "OUTPUT0") for request in requests]
        """, config=config.replace('"identity"', '"python"'))
    server = start_server(repository, flags=ALLOW)
    body = inference("FP32", [1, 4], place("r", 16), place("r", 16, 64))
    data = numpy.arange(4, dtype=numpy.float32)
    with region() as made, concurrent.futures.ThreadPoolExecutor(2) as clients:
        made.memory[:16] = data.tobytes()
        assert register(server, "r", made.key, made.size).status == 200
        answers = [clients.submit(server.ask, "/v2/models/slow/infer", body) for _ in range(2)]
        wait_for("one that runs and one that waits", lambda: waiting(server) == 1)
        assert unregister(server).status == 200
        assert registered(server) == ["r"] and mapped(server, made) == 1
        gate.touch()
        assert [answer.result().status for answer in answers] == [200, 200]
        assert made.memory[64:80] == data.tobytes()
        wait_for("the region's end", lambda: registered(server) == [] and mapped(server, made) == 0)


def waiting(server):
    metrics = server.ask("/metrics", port=server.metrics_port).text
    return int(re.search(r'nv_inference_pending_request_count\{model="slow",version="1"\} (\d+)', metrics)[1])


def test_a_region_stays_until_a_decoupled_model_over_grpc_is_done_with_its_input(start_server, repository, tmp_path):
    """Its final response was sent before: the request, and so its input, is the model's until `execute` returns."""
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    make_python(repository, "lingers", f"""
        def execute(self, requests):
            for request in requests:
                request.get_response_sender().send(flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)
            open({str(gate)!r}).read()
        """, more="model_transaction_policy { decoupled: true }")
    server = start_server(repository, flags=ALLOW)
    answers = Answers()
    with region(PAGE) as made, client_of(server) as client:
        assert register(server, "r", made.key, made.size).status == 200
        given = triton_grpc.InferInput("IN", [4], "INT32")
        given.set_shared_memory("r", 16)
        client.start_stream(answers)
        client.async_stream_infer("lingers", [given], enable_empty_final_response=True)
        answers.result()
        assert unregister(server, "r").status == 200 and registered(server) == ["r"] and mapped(server, made) == 1
        gate.write_text("")
        wait_for("the region's end", lambda: registered(server) == [])
        client.stop_stream()
