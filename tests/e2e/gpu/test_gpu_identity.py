# SPDX-License-Identifier: Apache-2.0
"""Instances on GPUs: the identity backend on a driver that is played (gpus.py), byte for byte in and out of each place.

Identity gathers its inputs on the device and copies its outputs from there (backends/common/backend_transfer.h), as a backend that
computes there does.
"""
import queue
import re
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import tritonclient.grpc as grpc
import tritonclient.http as triton
from conftest import DEADLINE, PATIENCE, TOGETHER, make_identity, wait_for
from gpus import fake_gpus

MIB = 1 << 20
ON_GPU = "instance_group [ { kind: KIND_GPU } ]"
TWO_PAIRS = """
    backend: "identity" max_batch_size: 8
    input [ { name: "INPUT0" data_type: TYPE_INT32 dims: [ -1 ] }, { name: "INPUT1" data_type: TYPE_STRING dims: [ 2 ] optional: true } ]
    output [ { name: "OUTPUT0" data_type: TYPE_INT32 dims: [ -1 ] }, { name: "OUTPUT1" data_type: TYPE_STRING dims: [ 2 ] } ]
"""
# What the driver is asked for while a request waits; each of them may take milliseconds, or waits for the whole device.
ALLOCATIONS = ("allocations", "cuMemAlloc_v2", "cuMemFree_v2", "cuMemHostAlloc", "cuMemFreeHost", "cuStreamCreateWithPriority",
               "cuEventCreate", "cuDevicePrimaryCtxRetain")


@pytest.fixture
def gpus(tmp_path):
    return fake_gpus(tmp_path)


def client_of(server):
    return triton.InferenceServerClient(server.url, network_timeout=DEADLINE, connection_timeout=DEADLINE, concurrency=8)


def tensor(data, name="INPUT0"):
    type = {"u": "UINT8", "f": "FP32", "i": "INT32", "O": "BYTES"}[data.dtype.kind]
    return triton.InferInput(name, data.shape, type).set_data_from_numpy(data)


def noise(size, seed=1):
    return np.random.default_rng(seed).integers(0, 256, (1, size), np.uint8)


def echoes(client, data, model="m"):
    return np.array_equal(client.infer(model, [tensor(data)]).as_numpy("OUTPUT0"), data)


def first_look(gpus):
    """The watch of GPUs makes its stream."""
    wait_for("the watch", lambda: gpus.counters()["nvmlDeviceRegisterEvents"] > 0)


def in_stream(server, model, requests):
    """What each of the requests, sent without waiting, gets: its output, or its error's text."""
    answers, found = queue.Queue(), {}
    with grpc.InferenceServerClient(f"127.0.0.1:{server.grpc_port}") as client:
        client.start_stream(lambda result, error: answers.put((result, error)))
        for number, data in enumerate(requests):
            input = grpc.InferInput("INPUT0", data.shape, "UINT8").set_data_from_numpy(data)
            client.async_stream_infer(model, [input], request_id=str(number))
        for _ in requests:
            result, error = answers.get(timeout=PATIENCE)
            if error is None:
                found[int(result.get_response().id)] = result.as_numpy("OUTPUT0")
            else:
                found.setdefault("errors", []).append(error.message())
    return found


@pytest.mark.slow
def test_every_size_comes_back_and_only_the_first_requests_ask_the_driver_for_memory(start_server, repository, gpus):
    make_identity(repository, "m", "TYPE_UINT8", more=ON_GPU)
    server = start_server(repository, variables=gpus.variables)
    sizes = (64 * MIB, 4 * MIB - 1, 4 * MIB, 4 * MIB + 1, 1, 3, 4096)
    first_look(gpus)
    with client_of(server) as client:
        for size in sizes:
            assert echoes(client, noise(size)), size
        before = gpus.counters()
        for size in sizes:
            assert echoes(client, noise(size, 2)), size
        asked = gpus.counters().since(before)
        assert echoes(client, noise(0))
    assert {name: asked[name] for name in ALLOCATIONS} == dict.fromkeys(ALLOCATIONS, 0)
    assert asked["bytes_to_device"] == asked["bytes_to_host"] == sum(sizes)
    assert asked["cuMemcpyDtoHAsync_v2"] == len(sizes)
    # nobody waits for the device but by an event
    assert asked["syncs"] == asked["cuStreamSynchronize"] == asked["cuCtxSynchronize"] == 0
    assert asked["pageable_copies"] == asked["foreign_copies"] == 0


def test_a_raw_body_comes_back(start_server, repository, gpus):
    make_identity(repository, "m", "TYPE_UINT8", more=ON_GPU)
    server = start_server(repository, variables=gpus.variables)
    for size in (1000, MIB):
        reply = server.ask("/v2/models/m/infer", noise(size).tobytes(), headers={"Inference-Header-Content-Length": "0"})
        assert reply.status == 200 and reply.body.endswith(noise(size).tobytes())


def test_strings_come_back_and_what_is_absent_is_zeros(start_server, repository, gpus):
    (repository / "m/1").mkdir(parents=True)
    (repository / "m/config.pbtxt").write_text(TWO_PAIRS + ON_GPU)
    server = start_server(repository, variables=gpus.variables)
    numbers = np.arange(12, dtype=np.int32).reshape(2, 6)
    words = np.array([[b"", b"\0two"], [b"x" * 100000, "ä".encode()]], dtype=object)
    with client_of(server) as client:
        answer = client.infer("m", [tensor(numbers), tensor(words, "INPUT1")])
        assert np.array_equal(answer.as_numpy("OUTPUT0"), numbers) and np.array_equal(answer.as_numpy("OUTPUT1"), words)
        wanted = [triton.InferRequestedOutput(name) for name in ("OUTPUT1", "OUTPUT0")]
        answer = client.infer("m", [tensor(numbers)], outputs=wanted)
        assert np.array_equal(answer.as_numpy("OUTPUT0"), numbers) and answer.as_numpy("OUTPUT1").tolist() == [[b"", b""]] * 2
        answer = client.infer("m", [tensor(numbers), tensor(words, "INPUT1")], outputs=wanted[1:])
        assert [output["name"] for output in answer.get_response()["outputs"]] == ["OUTPUT0"]


def test_a_batch_is_one_copy_to_the_device_and_each_gets_its_own(start_server, repository, gpus):
    make_identity(repository, "m", "TYPE_UINT8", more=ON_GPU + TOGETHER % 4)
    server = start_server(repository, variables=gpus.variables)
    requests = [noise(1000, seed) for seed in range(4)]
    in_stream(server, "m", requests)
    before = gpus.counters()
    found = in_stream(server, "m", requests)
    asked = gpus.counters().since(before)
    assert all(np.array_equal(found[i], requests[i]) for i in range(4))
    assert (asked["copies_to_device"], asked["bytes_to_device"], asked["bytes_to_host"]) == (1, 4000, 4000)


def test_without_pools_it_works_and_says_so(start_server, repository, gpus):
    make_identity(repository, "m", "TYPE_UINT8", more=ON_GPU)
    flags = ["--cuda-memory-pool-byte-size=0:0", "--pinned-memory-pool-byte-size=0"]
    server = start_server(repository, variables=gpus.variables, flags=flags)
    first_look(gpus)
    with client_of(server) as client:
        assert echoes(client, noise(MIB))
        before = gpus.counters()
        assert echoes(client, noise(MIB, 2)) and echoes(client, noise(10))
        asked = gpus.counters().since(before)
    assert {name: asked[name] for name in ALLOCATIONS} == dict.fromkeys(ALLOCATIONS, 0)
    assert server.log.count("the CUDA memory pool of GPU 0 has no room for a tensor of 1048576 bytes") == 1


def test_each_device_has_its_instance_and_unused_ones_have_nothing(start_server, repository, tmp_path):
    gpus = fake_gpus(tmp_path, devices=3)
    make_identity(repository, "m", "TYPE_UINT8", more="instance_group [ { kind: KIND_GPU gpus: [ 0, 2 ] } ]")
    server = start_server(repository, variables=gpus.variables, flags=["--model-control-mode=explicit", "--load-model=m"])
    with client_of(server) as client:
        assert all(echoes(client, noise(100, seed)) for seed in range(20))
        now = gpus.counters()
        assert now["contexts.0"] > 0 and now["contexts.2"] > 0 and now["used.0"] > 0
        assert now["contexts.1"] == now["used.1"] == 0
        client.unload_model("m")
        wait_for("the memory", lambda: gpus.counters()["used.0"] + gpus.counters()["used.2"] == 0)
    wait_for("the contexts", lambda: gpus.counters()["contexts.0"] + gpus.counters()["contexts.2"] == 0)
    left = gpus.counters()
    assert (left["streams"], left["events"], left["host_bytes"]) == (0, 0, 0)


def test_a_model_without_a_group_stays_on_the_cpu(start_server, repository, gpus):
    make_identity(repository, "m", "TYPE_UINT8")
    server = start_server(repository, variables=gpus.variables)
    with client_of(server) as client:
        assert echoes(client, noise(100))
        assert client.get_model_config("m")["instance_group"][0]["kind"] == "KIND_CPU"
    assert gpus.counters()["contexts.0"] == 0


@pytest.mark.parametrize("function, text", [
    ("cuMemcpyHtoDAsync_v2", "INPUT0: failed to perform CUDA copy: invalid argument"),
    ("cuMemcpyDtoHAsync_v2", "OUTPUT0: failed to perform CUDA copy: invalid argument"),
    ("cuEventRecord", "invalid argument"),
    ("cuEventQuery", "invalid argument"),
])
def test_a_call_that_fails_fails_its_request_by_name_and_no_other(start_server, repository, gpus, function, text):
    make_identity(repository, "m", "TYPE_UINT8", more=ON_GPU)
    server = start_server(repository, variables=gpus.variables)
    with client_of(server) as client:
        assert echoes(client, noise(100))
        gpus.fault(function, 1, times=0)  # events: the server has some of its own
        with pytest.raises(triton.InferenceServerException, match=text):
            client.infer("m", [tensor(noise(1000))])
        gpus.heal()
        assert echoes(client, noise(1000, 3))


def test_of_a_batch_the_request_fails_whose_copy_failed(start_server, repository, gpus):
    make_identity(repository, "m", "TYPE_UINT8", more=ON_GPU + TOGETHER % 3)
    server = start_server(repository, variables=gpus.variables)
    requests = [noise(100, seed) for seed in range(3)]
    in_stream(server, "m", requests)
    gpus.fault("cuMemcpyDtoHAsync_v2", 1, at=2)  # each response has pinned memory of its own
    found = in_stream(server, "m", requests)
    assert np.array_equal(found[0], requests[0]) and np.array_equal(found[2], requests[2]) and 1 not in found
    assert len(found["errors"]) == 1 and "OUTPUT0: failed to perform CUDA copy" in found["errors"][0]


def test_one_execution_begins_while_another_is_under_way(start_server, repository, gpus):
    make_identity(repository, "m", "TYPE_UINT8", max_batch_size=0, more=ON_GPU)
    server = start_server(repository, variables=gpus.variables)
    requests = [noise(100, seed)[0] for seed in range(3)]

    def ask(data):
        with client_of(server) as client:
            return echoes(client, data)

    def begun():
        return gpus.counters().since(before)["cuMemcpyDtoHAsync_v2"]

    def waiting():
        found = re.search(r'nv_inference_pending_request_count{model="m",version="1"} (\d+)', server.ask("/metrics", port=server.metrics_port).text)
        return int(found[1])

    with ThreadPoolExecutor(len(requests)) as threads:
        gpus.fault("cuMemcpyDtoHAsync_v2", later=True, hang=True)
        before = gpus.counters()
        asked = [threads.submit(ask, data) for data in requests]
        wait_for("all three", lambda: begun() + waiting() == 3)
        wait_for("the copy that is held", lambda: gpus.counters().since(before)["hangs"] == 1)
        if begun() == 1:  # the others came behind it: they begin once it has ended, and then the second does not
            gpus.faults = []
            gpus.fault("cuMemcpyDtoHAsync_v2", later=True, hang=True, device=0)
            wait_for("the third", lambda: begun() == 3)
        else:
            assert begun() == 2
        gpus.heal()
        assert all(each.result() for each in asked)


def test_a_dead_context_fails_its_requests_and_is_told(start_server, repository, gpus):
    make_identity(repository, "m", "TYPE_UINT8", more=ON_GPU)
    make_identity(repository, "cpu", "TYPE_UINT8")
    server = start_server(repository, variables=gpus.variables)
    with client_of(server) as client:
        gpus.fault("cuMemcpyHtoDAsync_v2", 700)
        with pytest.raises(triton.InferenceServerException, match="INPUT0: failed to perform CUDA copy: .*illegal memory access"):
            client.infer("m", [tensor(noise(1000))])
        with pytest.raises(triton.InferenceServerException):
            client.infer("m", [tensor(noise(1000))])
        assert echoes(client, noise(1000), "cpu")
        row = next(row for row in client.get_model_repository_index() if row["name"] == "m")
        assert "CUDA_ERROR_ILLEGAL_ADDRESS" in row.get("reason", ""), row
