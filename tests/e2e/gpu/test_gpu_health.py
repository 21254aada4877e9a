# SPDX-License-Identifier: Apache-2.0
"""What a GPU that fails does to a server: it is told of within a second, its models refuse at once, others go on."""
import base64
import concurrent.futures
import json
import re

import proc
import pytest
from conftest import PATIENCE, TOGETHER, make_identity, wait_for
from cuda_memory import Memory, Protocol
from gpus import Client as GpuClient
from gpus import fake_gpus
from grpc_sides import client_of
from test_gpu_metrics import values
from test_isolated import ISOLATE
from test_metrics import BODY
from tritonclient.utils import InferenceServerException

DEAD = "GPU 0: an illegal memory access was encountered (CUDA_ERROR_ILLEGAL_ADDRESS)"


def group(*gpus, count=1):
    return f"instance_group [ {{ kind: KIND_GPU gpus: [ {', '.join(map(str, gpus))} ] count: {count} }} ]"


def ready(server, name=None):
    return server.ask("/v2/health/ready" if name is None else f"/v2/models/{name}/ready").status == 200


def infer(server, name):
    return server.ask(f"/v2/models/{name}/infer", BODY)


def index(server):
    rows = json.loads(server.ask("/v2/repository/index", b"{}").text)
    return {row["name"]: (row.get("state"), row.get("reason")) for row in rows}


@pytest.fixture
def gpus(tmp_path):
    return fake_gpus(tmp_path, 2)


def kill(gpus, device=0, code=700):
    """The context is dead: whatever asks the driver about it hears so."""
    gpus.fault("cu[MSE]*", code, device=device, times=0)


def start(start_server, repository, gpus, *flags):
    make_identity(repository, "first", more=group(0))
    make_identity(repository, "second", more=group(1))
    make_identity(repository, "both", more=group(0, 1))
    make_identity(repository, "cpu", more="instance_group [ { kind: KIND_CPU } ]")
    server = start_server(repository, flags=["--model-control-mode=explicit", "--load-model=*", *flags], variables=gpus.variables)
    for name in ("first", "second", "both", "cpu"):
        assert infer(server, name).status == 200
    return server


def expect_refused(server, name, reason):
    answer = infer(server, name)
    assert answer.status == 503
    assert json.loads(answer.text)["error"].endswith(f"model '{name}' cannot run: {reason}")


def test_a_dead_context_is_found_and_its_models_refuse(start_server, repository, gpus):
    server = start(start_server, repository, gpus)
    kill(gpus)
    wait_for("not ready", lambda: not ready(server))
    assert server.ask("/v2/health/live").status == 200
    expect_refused(server, "first", DEAD)
    assert [ready(server, name) for name in ("first", "second", "both", "cpu")] == [False, True, False, True]
    assert index(server) == {"first": ("UNAVAILABLE", DEAD), "second": ("READY", None), "both": ("UNAVAILABLE", DEAD), "cpu": ("READY", None)}
    assert [infer(server, name).status for name in ("second", "cpu")] == [200, 200]
    wait_for("the instances that are left", lambda: [infer(server, "both").status for _ in range(8)] == [200] * 8)
    assert values(server, "nereid_gpu_fault", "gpu_uuid", "code") == {(gpus.devices[0]["uuid"], "CUDA_ERROR_ILLEGAL_ADDRESS"): 1}
    wait_for("the log", lambda: server.log.count(f"{DEAD}; requests for it are refused") == 1)
    assert server.process.poll() is None


def test_what_waits_is_refused_too(start_server, repository, gpus):
    """Requests that wait for a batch are answered when their GPU fails."""
    make_identity(repository, "m", more=group(0) + TOGETHER % 8)
    server = start_server(repository, variables=gpus.variables)
    with concurrent.futures.ThreadPoolExecutor() as threads:
        waiting = [threads.submit(infer, server, "m") for _ in range(3)]
        wait_for("three wait", lambda: values(server, "nv_inference_pending_request_count", "model")["m",] == 3)
        kill(gpus)
        for answer in waiting:
            assert answer.result().status == 503 and DEAD in answer.result().text


def test_what_waits_behind_a_call_that_never_comes_back_is_refused(start_server, repository, gpus):
    make_identity(repository, "m", more=group(0))
    server = start_server(repository, variables=gpus.variables)
    gpus.fault("cuMemcpyHtoDAsync_v2", hang=True)
    with concurrent.futures.ThreadPoolExecutor() as threads:
        try:
            stuck = threads.submit(infer, server, "m")
            wait_for("the call", lambda: gpus.counters()["cuMemcpyHtoDAsync_v2"] == 1)
            waiting = [threads.submit(infer, server, "m") for _ in range(3)]
            wait_for("three wait", lambda: values(server, "nv_inference_pending_request_count", "model")["m",] == 3)
            kill(gpus)
            for answer in waiting:
                assert answer.result(PATIENCE).status == 503 and DEAD in answer.result().text
            assert not stuck.done()
        finally:
            gpus.heal()


def test_an_xid_tells_of_a_gpu_that_is_lost(start_server, repository, gpus):
    server = start(start_server, repository, gpus)
    wait_for("the watch", lambda: gpus.counters()["nvmlDeviceRegisterEvents"] > 0)
    gpus.devices[1]["xids"] = [79]
    gpus.write()
    wait_for("not ready", lambda: not ready(server))
    reason = "GPU 1: the GPU has fallen off the bus (Xid 79)"
    expect_refused(server, "second", reason)
    assert index(server)["second"] == ("UNAVAILABLE", reason)
    assert infer(server, "first").status == 200
    assert values(server, "nereid_gpu_fault", "gpu_uuid", "code") == {(gpus.devices[1]["uuid"], "Xid 79"): 1}


def test_what_is_on_a_gpu_that_has_gone_is_answered(start_server, repository, gpus):
    """Its copy never ends: the driver says "not ready" for ever."""
    server = start(start_server, repository, gpus)
    wait_for("the watch", lambda: gpus.counters()["nvmlDeviceRegisterEvents"] > 0)
    begun = gpus.counters()["cuMemcpyDtoHAsync_v2"]
    gpus.fault("cuMemcpyDtoHAsync_v2", 0, later=True, hang=True, device=1)
    with concurrent.futures.ThreadPoolExecutor() as threads:
        waiting = threads.submit(infer, server, "second")
        wait_for("its copy", lambda: gpus.counters()["cuMemcpyDtoHAsync_v2"] > begun)
        gpus.devices[1]["xids"] = [79]
        gpus.write()
        answer = waiting.result()
    assert answer.status == 503 and "GPU 1: the GPU has fallen off the bus (Xid 79)" in answer.text
    gpus.heal()  # so that the server can end


def test_a_model_is_not_loaded_on_a_gpu_that_failed(start_server, repository, gpus):
    server = start(start_server, repository, gpus)
    kill(gpus)
    wait_for("not ready", lambda: not ready(server))
    make_identity(repository, "late", more=group(0))
    answer = server.ask("/v2/repository/models/late/load", b"{}")
    assert answer.status != 200 and DEAD in answer.text
    for name in ("first", "both"):
        assert server.ask(f"/v2/repository/models/{name}/unload", b"{}").status == 200
    wait_for("ready", lambda: index(server)["first"][0] == "UNAVAILABLE" and ready(server, "second"))
    assert infer(server, "cpu").status == 200


def test_a_model_with_sequences_refuses_them_at_once(start_server, repository, gpus):
    make_identity(repository, "m", more=group(0) + " sequence_batching { max_sequence_idle_microseconds: 600000000 direct { } }")
    server = start_server(repository, variables=gpus.variables)
    body = BODY.replace(b"[2,1]", b"[1,1]").replace(b"[1,2]", b"[1]")
    first = body[:-1] + b',"parameters":{"sequence_id":7,"sequence_start":true}}'
    assert server.ask("/v2/models/m/infer", first).status == 200
    kill(gpus)
    wait_for("not ready", lambda: not ready(server))
    for parameters in (b'"sequence_id":7', b'"sequence_id":8,"sequence_start":true'):
        answer = server.ask("/v2/models/m/infer", body[:-1] + b',"parameters":{' + parameters + b"}}")
        assert answer.status == 503 and DEAD in answer.text


def test_a_server_ends_for_it_where_that_is_wanted(start_server, repository, gpus):
    server = start(start_server, repository, gpus, "--on-gpu-fault=exit")
    start_server.running.pop(server)
    kill(gpus)
    assert server.process.wait(PATIENCE) == 3
    assert DEAD in server.log and "stopping, since a GPU has failed (--on-gpu-fault=exit)" in server.log


def test_nobody_looks_while_no_gpu_is_used(start_server, repository, gpus):
    make_identity(repository, "cpu", more="instance_group [ { kind: KIND_CPU } ]")
    server = start_server(repository, variables=gpus.variables)
    assert infer(server, "cpu").status == 200
    names = set(proc.threads(server.process.pid).values())
    assert "gpu-watch" not in names and "gpu-metrics" in names
    assert gpus.counters()["cuDevicePrimaryCtxRetain"] == 0


def register_all(threads, server, handle):
    """More than the threads of jobs, over both protocols, as clients do that do not wait for each other."""
    body = json.dumps({"raw_handle": {"b64": base64.b64encode(handle).decode()}, "device_id": 0, "byte_size": 4096}).encode()
    client = client_of(server)
    for i in range(10):
        yield threads.submit(lambda i=i: server.ask(f"/v2/cudasharedmemory/region/http{i}/register", body).status == 200)
        yield threads.submit(lambda i=i: client.register_cuda_shared_memory(f"grpc{i}", base64.b64encode(handle), 0, 4096) is None)


def test_a_driver_that_hangs_keeps_no_thread_of_loads(start_server, repository, gpus):
    server = start(start_server, repository, gpus, "--allow-client-shm=true")
    with GpuClient(gpus) as client, concurrent.futures.ThreadPoolExecutor(20) as threads:
        handle = client.handle(client.allocate(4096))
        gpus.fault("cuIpcOpenMemHandle_v2", hang=True, times=0)
        registered = list(register_all(threads, server, handle))
        try:
            wait_for("those that the driver has", lambda: gpus.counters()["cuIpcOpenMemHandle_v2"] == 4)
            for name in ("cpu", "second"):
                assert server.ask(f"/v2/repository/models/{name}/load", b"{}").status == 200
            assert index(server)["second"] == ("READY", None)
            client_of(server).get_model_repository_index()
            assert [infer(server, name).status for name in ("first", "cpu")] == [200, 200]
            assert not any(each.done() for each in registered)
        finally:
            gpus.heal()
        assert all(each.result() for each in registered)
        assert len(client_of(server).get_cuda_shared_memory_status().regions) == 20


def hang_in_a_close(server, gpus, client, threads):
    """The last user of a region leaves after it was unregistered: a job closes it, for which no request waits."""
    with Protocol("http", server).open() as protocol:
        memory = Memory(client, 4096)
        protocol.register(memory.name, memory.handle, 4096)
        before = gpus.counters()
        gpus.fault("cuMemcpyDtoDAsync_v2", hang=True, times=0)
        tensor = {"parameters": {"shared_memory_region": memory.name, "shared_memory_byte_size": 8}}
        body = {"inputs": [tensor | {"name": "INPUT0", "datatype": "FP32", "shape": [1, 2]}], "outputs": [tensor | {"name": "OUTPUT0"}]}
        answer = threads.submit(server.ask, "/v2/models/first/infer", json.dumps(body).encode())
        wait_for("its user", lambda: gpus.counters().since(before)["cuMemcpyDtoDAsync_v2"] == 1)
        protocol.unregister(memory.name)
        gpus.faults = []
        gpus.fault("cuIpcCloseMemHandle", hang=True, times=0)
        assert answer.result().status == 200
        wait_for("who closes it", lambda: gpus.counters().since(before)["cuIpcCloseMemHandle"] == 1)


def test_a_stop_does_not_wait_for_a_driver_that_hangs(start_server, repository, gpus):
    """Ten seconds after the exit timeout the process ends, with the status of a stop that was forced, or of a fault that is to end it."""
    make_identity(repository, "first", more=group(0))
    servers = [start_server(repository, flags=["--allow-client-shm=true", "--exit-timeout-secs=1", f"--on-gpu-fault={what}"],
                            variables=gpus.variables) for what in ("refuse", "exit")]
    with GpuClient(gpus) as client, concurrent.futures.ThreadPoolExecutor(1) as threads:
        for server in servers:
            hang_in_a_close(server, gpus, client, threads)
            start_server.running.pop(server)
        servers[0].process.terminate()
        kill(gpus)
        assert [server.process.wait(PATIENCE) for server in servers] == [1, 3]


def test_regions_of_clients_on_a_gpu_that_is_lost_are_refused(start_server, repository, gpus):
    """The front ends' copy of the layer hears of it: the driver, which would hang, is not asked."""
    make_identity(repository, "strings", "TYPE_STRING", more="instance_group [ { kind: KIND_CPU } ]")
    server = start(start_server, repository, gpus, "--allow-client-shm=true")
    with GpuClient(gpus) as client, Protocol("grpc", server).open() as protocol:
        memory = Memory(client, 4096, device=1)
        memory.write(b"\1\0\0\0a")
        protocol.register(memory.name, memory.handle, 4096, device=1)
        strings = [protocol.input([1, 1], "BYTES", (memory.name, 5))]
        assert protocol.infer("strings", strings).as_numpy("OUTPUT0").tolist() == [[b"a"]]
        wait_for("the watch", lambda: gpus.counters()["nvmlDeviceRegisterEvents"] > 0)
        gpus.devices[1]["xids"] = [48]
        for function in ("cuIpcOpenMemHandle_v2", "cuIpcCloseMemHandle", "cuMemcpyDtoHAsync_v2"):
            gpus.fault(function, hang=True, times=0, device=1)
        wait_for("not ready", lambda: not ready(server))
        reason = "GPU 1: double-bit ECC error (Xid 48)"
        for call in (lambda: protocol.register("other", memory.handle, 4096, device=1), lambda: protocol.infer("strings", strings),
                     lambda: protocol.unregister(memory.name)):
            with pytest.raises(InferenceServerException, match=re.escape(reason)):
                call()
        assert protocol.regions() == {}


def start_isolated(start_server, repository, gpus):
    make_identity(repository, "m", more=group(0) + ISOLATE)
    server = start_server(repository, variables=gpus.variables)
    assert infer(server, "m").status == 200
    wait_for("both watches", lambda: gpus.counters()["nvmlDeviceRegisterEvents"] == 2 * len(gpus.devices))
    return server


def test_a_models_own_process_ends_with_its_context(start_server, repository, gpus):
    """The next one has another; the server has lost nothing."""
    server = start_isolated(start_server, repository, gpus)
    assert "memory pool" not in server.log.partition("Started Metrics Service")[2]  # it has none
    gpus.fault("cuMemcpyHtoDAsync_v2", 700)
    assert infer(server, "m").status == 500  # of its copy, or of the process, if that has ended by then
    gpus.heal()
    wait_for("its end", lambda: f"the model's process ends: {DEAD}" in server.log)
    wait_for("the next process", lambda: infer(server, "m").status == 200)
    assert ready(server) and values(server, "nereid_gpu_fault") == {}


def test_what_a_models_own_process_has_on_a_gpu_that_has_gone_is_answered(start_server, repository, gpus):
    server = start_isolated(start_server, repository, gpus)
    gpus.fault("cuMemcpyDtoHAsync_v2", 0, later=True, hang=True)
    begun = gpus.counters()["cuMemcpyDtoHAsync_v2"]
    with concurrent.futures.ThreadPoolExecutor() as threads:
        waiting = threads.submit(infer, server, "m")
        wait_for("its copy", lambda: gpus.counters()["cuMemcpyDtoHAsync_v2"] > begun)
        gpus.devices[0]["xids"] = [79]
        gpus.write()
        assert "the process of model 'm' ended" in waiting.result().text
    gpus.heal()
    reason = "GPU 0: the GPU has fallen off the bus (Xid 79)"
    wait_for("the log", lambda: f"the model's process ends: {reason}" in server.log and f"{reason}; requests for it are refused" in server.log)
    assert values(server, "nereid_gpu_fault", "gpu_uuid", "code") == {(gpus.devices[0]["uuid"], "Xid 79"): 1}
