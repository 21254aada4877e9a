# SPDX-License-Identifier: Apache-2.0
"""Models that are loaded when somebody asks for them, and evicted when their memory is wanted: real clients over HTTP and gRPC."""
import concurrent.futures
import json
import queue
import random
import re
import signal
import socket

import numpy as np
import proc
import pytest
import tritonclient.grpc as grpcclient
from conftest import BUILD, PATIENCE, make_faulty, make_identity, wait_for
from ensembles import chain, make_ensemble
from python_models import make_python
from streaming import make_streaming
from test_lifecycle import make_held

BODY = b'{"inputs":[{"name":"INPUT0","shape":[1,1],"datatype":"FP32","data":[7]}]}'
ON_DEMAND = ["--model-control-mode=ondemand"]


def infer_path(name):
    return f"/v2/models/{name}/infer"


def index(server):
    return {row["name"]: (row.get("state"), row.get("reason")) for row in json.loads(server.ask("/v2/repository/index", b"").body)}


def test_the_first_request_loads_its_model(start_server, repository):
    for name in "abc":
        make_identity(repository, name)
    server = start_server(repository, flags=ON_DEMAND)
    assert index(server) == {"a": (None, None), "b": (None, None), "c": (None, None)}
    assert server.ask("/v2/models/a/ready").status == 400
    reply = server.ask(infer_path("a"), BODY)
    assert reply.status == 200 and json.loads(reply.body)["outputs"][0]["data"] == [7]
    assert server.ask("/v2/models/a/ready").status == 200
    with grpcclient.InferenceServerClient(f"localhost:{server.grpc_port}") as client:
        assert client.get_model_metadata("b").name == "b"
        assert client.get_model_config("c").config.name == "c"
    assert {name: state for name, (state, _) in index(server).items()} == {"a": "READY", "b": "READY", "c": "READY"}
    missing = server.ask(infer_path("missing"), BODY)
    assert missing.status == 404 and missing.text == '{"error":"Request for unknown model: \'missing\' is not found"}'


def metric(server, name):
    found = re.search(rf"^{name} (\S+)$", server.ask("/metrics", port=server.metrics_port).text, re.M)
    return float(found.group(1))


def waiting(server):
    return metric(server, "nereid_demand_waiting_requests")


def async_infer(path, body=BODY):
    """The head and body of a request that closes its connection."""
    return b"POST %s HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%s" % (path.encode(), len(body), body)


def numbers(value=7):
    tensor = grpcclient.InferInput("INPUT0", [1, 1], "FP32")
    tensor.set_data_from_numpy(np.array([[value]], np.float32))
    return [tensor]


def threads_of(server):
    return proc.status(server.process.pid, "Threads")


def test_a_storm_of_first_requests_is_one_load_and_no_threads(start_server, repository):
    hold = make_held(repository, "slow")
    make_identity(repository, "other")
    server = start_server(repository, flags=ON_DEMAND)
    server.ask(infer_path("other"), BODY)
    sockets = [socket.create_connection(("localhost", server.http_port)) for _ in range(400)]
    before = threads_of(server)
    for each in sockets:
        each.sendall(async_infer(infer_path("slow")))
    with grpcclient.InferenceServerClient(f"localhost:{server.grpc_port}") as client:
        answers = queue.Queue()
        for _ in range(100):
            client.async_infer("slow", numbers(), lambda result, error: answers.put((result, error)))
        wait_for("500 requests that wait", lambda: waiting(server) == 500)
        assert threads_of(server) < before + 50
        assert server.ask(infer_path("other"), BODY).status == 200  # the loops go on
        assert index(server)["slow"][0] == "LOADING"
        hold.unlink()
        for each in sockets:
            with each:
                each.settimeout(PATIENCE)
                assert b"".join(iter(lambda: each.recv(65536), b"")).startswith(b"HTTP/1.1 200")
        for _ in range(100):
            result, error = answers.get(timeout=PATIENCE)
            assert error is None and result.as_numpy("OUTPUT0")[0, 0] == 7
    assert server.log.count("loading: slow:1") == 1
    assert metric(server, "nereid_demand_loads_total") == 2 and waiting(server) == 0


def test_a_request_waits_no_longer_than_it_wants_to(start_server, repository):
    hold = make_held(repository, "slow")
    server = start_server(repository, flags=ON_DEMAND)
    late = server.ask(infer_path("slow"), BODY[:-1] + b',"parameters":{"timeout":1000}}')
    assert late.status == 503 and late.text == '{"error":"Request timeout expired"}'
    with grpcclient.InferenceServerClient(f"localhost:{server.grpc_port}") as client:
        with pytest.raises(grpcclient.InferenceServerException, match="Request timeout expired"):
            client.infer("slow", numbers(), timeout=1000)
        with pytest.raises(grpcclient.InferenceServerException, match="Deadline Exceeded"):
            client.infer("slow", numbers(), client_timeout=0.1)
        with pytest.raises(grpcclient.InferenceServerException, match="Deadline Exceeded"):
            client.get_model_metadata("slow", client_timeout=0.1)
        call = client.async_infer("slow", numbers(), lambda result, error: None)
        wait_for("the call to wait", lambda: waiting(server) == 1)
        call.cancel()
        wait_for("its end", lambda: waiting(server) == 0)
    for path in (infer_path("slow"), "/v2/models/slow/generate", "/v2/models/slow/generate_stream"):
        with socket.create_connection(("localhost", server.http_port)) as client:
            client.sendall(async_infer(path))
            wait_for("the client to wait", lambda: waiting(server) == 1)
        wait_for("its end", lambda: waiting(server) == 0)
    with socket.create_connection(("localhost", server.http_port)) as client:
        client.sendall(b"GET /v2/models/slow/config HTTP/1.1\r\nHost: x\r\n\r\n")
        wait_for("the client to wait", lambda: waiting(server) == 1)
    wait_for("its end", lambda: waiting(server) == 0)
    hold.unlink()
    assert server.ask(infer_path("slow"), BODY).status == 200
    assert server.log.count("loading: slow:1") == 1


def test_a_stream_waits_and_keeps_its_order(start_server, repository):
    hold = make_held(repository, "slow")
    make_identity(repository, "quick")
    server = start_server(repository, flags=ON_DEMAND)
    answers = queue.Queue()
    with grpcclient.InferenceServerClient(f"localhost:{server.grpc_port}") as client:
        client.start_stream(lambda result, error: answers.put((result, error)))
        for number, name in enumerate(["quick", "slow", "quick", "missing", "slow"]):
            client.async_stream_infer(name, numbers(number), request_id=str(number))
        assert answers.get(timeout=PATIENCE)[0].get_response().id == "0"
        wait_for("the stream to wait", lambda: waiting(server) == 1)
        hold.unlink()
        for number in (1, 2):
            assert answers.get(timeout=PATIENCE)[0].get_response().id == str(number)
        assert "'missing' is not found" in str(answers.get(timeout=PATIENCE)[1])
        assert answers.get(timeout=PATIENCE)[0].get_response().id == "4"
        client.stop_stream()


def test_a_broken_model_tells_all_and_is_not_loaded_for_each(start_server, repository):
    broken = make_faulty(repository, fault="model_initialize")
    server = start_server(repository, flags=ON_DEMAND)
    reply = server.ask(infer_path("faulty"), BODY)
    assert reply.status == 503
    assert reply.text.startswith('{"error":"model \'faulty\' could not be loaded: load failed for model \'faulty\': version 1 is at UNAVAILABLE')
    assert "faulty backend: model_initialize" in reply.text
    assert server.ask("/v2/health/ready").status == 200  # a client's choice of a model is not the server's fault
    for _ in range(50):
        assert server.ask(infer_path("faulty"), BODY).text == reply.text
    assert server.log.count("loading: faulty:1") < 20  # tried again after 1, 2, 4, ... seconds
    with grpcclient.InferenceServerClient(f"localhost:{server.grpc_port}") as client:
        with pytest.raises(grpcclient.InferenceServerException, match="could not be loaded") as raised:
            client.infer("faulty", numbers())
        assert raised.value.status() == "StatusCode.UNAVAILABLE"
    make_identity(repository, broken.name)
    wait_for("its files to be seen", lambda: server.ask(infer_path("faulty"), BODY).status == 200)


def test_an_unload_during_a_load_is_not_the_models_failure(start_server, repository):
    endless = 'model_warmup { name: "w" batch_size: 1 count: 4294967295 inputs { key: "INPUT0" value { data_type: TYPE_FP32 dims: 1 zero_data: true } } }'
    make_identity(repository, "m", more=endless)
    server = start_server(repository, flags=ON_DEMAND)
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        first = pool.submit(server.ask, infer_path("m"), BODY)
        wait_for("its load", lambda: "loading: m:1" in server.log)
        assert server.ask("/v2/repository/models/m/unload", b"{}").status == 200
        reply = first.result()
    assert reply.status == 503 and "Newer operation has been applied to the model lifecycle" in reply.text
    short = BODY[:-1] + b',"parameters":{"timeout":500000}}'
    assert "Request timeout expired" in server.ask(infer_path("m"), short).text  # it is loaded again
    assert server.ask("/v2/repository/models/m/unload", b"{}").status == 200


@pytest.mark.parametrize("name", ["lost+found", ".git", "%2e%2e", "x" * 255, "a b", "%20", "twice", "dangling"])
def test_what_is_no_model_is_unknown_or_says_why(start_server, repository, tmp_path, name):
    (repository / "lost+found").mkdir()
    (repository / ".git").mkdir()
    (repository / "dangling").symlink_to("nowhere")
    make_identity(repository, "twice")
    (tmp_path / "more").mkdir()
    make_identity(tmp_path / "more", "twice")
    server = start_server(repository, tmp_path / "more", flags=ON_DEMAND)
    reply = server.ask(infer_path(name.replace(" ", "%20")), BODY)
    if name == "twice":
        assert reply.status == 503 and "model 'twice' could not be loaded: not unique across all model repositories" in reply.text
    else:
        assert reply.status == 404 and "Request for unknown model: " in reply.text


def test_a_version_that_is_not_there_does_not_load_the_model_again(start_server, repository):
    make_identity(repository, "m", versions=(1, 2))
    server = start_server(repository, flags=ON_DEMAND)
    for _ in range(3):
        reply = server.ask("/v2/models/m/versions/1/infer", BODY)
        assert reply.status == 404 and "'m' version 1 is not found" in reply.text
    assert server.log.count("loading: m:2") == 1
    assert server.ask("/v2/models/m/versions/2/infer", BODY).status == 200


def test_decoupled_models_are_refused_or_streamed_as_ever(start_server, repository):
    make_streaming(repository)
    server = start_server(repository, flags=ON_DEMAND)
    reply = server.ask(infer_path("streaming"), BODY)
    assert reply.status == 501 and "decoupled transaction policy" in reply.text
    assert server.log.count("loading: streaming:1") == 1


def test_load_and_unload_work_as_under_explicit_control(start_server, repository):
    for name in ("start", "m"):
        make_identity(repository, name)
    server = start_server(repository, flags=[*ON_DEMAND, "--load-model=start"])
    assert index(server) == {"start": ("READY", None), "m": (None, None)}
    assert server.ask("/v2/repository/models/m/load", b"{}").status == 200
    assert server.ask("/v2/repository/models/m/unload", b"{}").status == 200
    wait_for("the unload", lambda: index(server)["m"] == ("UNAVAILABLE", "unloaded"))
    assert server.ask(infer_path("m"), BODY).status == 200
    assert index(server)["m"] == ("READY", None)


def test_the_end_of_the_server_does_not_wait_for_models(start_server, repository):
    hold = make_held(repository, "slow")
    server = start_server(repository, flags=ON_DEMAND)
    with socket.create_connection(("localhost", server.http_port)) as client:
        client.sendall(async_infer(infer_path("slow")))
        wait_for("the client to wait", lambda: waiting(server) == 1)
        server.process.send_signal(signal.SIGTERM)
        wait_for("the signal", lambda: "Signal (15) received" in server.log)
        hold.unlink()
        client.settimeout(PATIENCE)
        reply = b"".join(iter(lambda: client.recv(65536), b""))
        assert reply.startswith((b"HTTP/1.1 200", b"HTTP/1.1 503"))
    assert server.stop(number=0) == 0


# A model keeps its configuration: this one is large beside what requests take while the model is measured.
LARGE = 'parameters { key: "large" value { string_value: "%s" } }' % ("x" * (1 << 18))


def make_models(repository, count):
    """Identities with a file each, so that they take memory by any measure."""
    names = [f"m{i:02}" for i in range(count)]
    for name in names:
        (make_identity(repository, name, more=LARGE) / "1/data").write_bytes(bytes(1 << 20))
    return names


def used(server):
    return metric(server, "nereid_demand_used_bytes")


def size_of_a_model(start_server, repository, names):
    """What the largest of them takes as this build measures it, found with a server without a budget."""
    server, sizes, before = start_server(repository, flags=ON_DEMAND), [], 0
    for name in names:
        assert server.ask(infer_path(name), BODY).status == 200
        sizes.append(used(server) - before)
        before += sizes[-1]
    assert server.stop() == 0
    return int(max(sizes))


def loaded(server):
    return {name for name, (state, _) in index(server).items() if state == "READY"}


def ask_at_random(server, names, count, seed):
    """One client's requests, every other one over gRPC."""
    chosen = random.Random(seed)
    with grpcclient.InferenceServerClient(f"localhost:{server.grpc_port}") as client:
        for i in range(count):
            name, number = chosen.choice(names), chosen.randrange(1000)
            if i % 2:
                assert client.infer(name, numbers(number)).as_numpy("OUTPUT0")[0, 0] == number
            else:
                reply = server.ask(infer_path(name), BODY.replace(b"[7]", b"[%d]" % number))
                assert (reply.status, json.loads(reply.body)["outputs"][0]["data"]) == (200, [number])


@pytest.mark.slow
def test_fifty_models_share_a_budget_for_five(start_server, repository):
    names = make_models(repository, 50)
    budget = 5 * size_of_a_model(start_server, repository, names[:6])
    server = start_server(repository, flags=[*ON_DEMAND, f"--model-memory-budget={budget}"])
    with concurrent.futures.ThreadPoolExecutor(4) as clients:
        for done in [clients.submit(ask_at_random, server, names, 30, seed) for seed in range(4)]:
            done.result()
    # A model that is loaded while another one goes counts as its files' bytes, here more than the budget: the one that was used last stays.
    wait_for("the budget to be kept", lambda: used(server) <= budget or len(loaded(server)) == 1)

    def evictions():
        return metric(server, "nereid_demand_evictions_total")

    loads = metric(server, "nereid_demand_loads_total")
    assert metric(server, "nereid_demand_budget_bytes") == budget and loads >= len(names)
    wait_for("the count of evictions", lambda: loads == evictions() + len(loaded(server)))  # they are counted when they have begun
    assert evictions() == len(re.findall(r"evicted 'm\d\d' \(\d+ bytes, unused for [\d.]+ s\)", server.log))
    assert metric(server, "nereid_demand_failures_total") == 0


def test_the_longest_unused_goes_unless_it_is_pinned_or_cannot_come_back(start_server, repository):
    names = make_models(repository, 5)
    one = size_of_a_model(start_server, repository, names)
    pinned = repository / "m00/config.pbtxt"
    pinned.write_text(pinned.read_text() + 'parameters { key: "pinned" value { string_value: "true" } }')
    server = start_server(repository, flags=[*ON_DEMAND, f"--model-memory-budget={3 * one + one // 2}"])
    override = json.dumps({"parameters": {"config": json.dumps(server_config(repository / "m01"))}}).encode()
    assert server.ask("/v2/repository/models/m01/load", override).status == 200
    for name in ("m00", "m02", "m03"):
        assert server.ask(infer_path(name), BODY).status == 200
    wait_for("an eviction", lambda: "evicted '" in server.log)
    assert loaded(server) == {"m00", "m01", "m03"}
    assert "evicted 'm02' (" in server.log and ": room for 'm03' in the memory budget of " in server.log
    assert server.ask(infer_path("m04"), BODY).status == 200
    assert loaded(server) == {"m00", "m01", "m04"}
    assert index(server)["m03"] == ("UNAVAILABLE", "unloaded")


def server_config(directory):
    return {"backend": "identity", "max_batch_size": 8,
            "input": [{"name": "INPUT0", "data_type": "TYPE_FP32", "dims": [-1]}],
            "output": [{"name": "OUTPUT0", "data_type": "TYPE_FP32", "dims": [-1]}], "name": directory.name}


@pytest.mark.slow
def test_ensembles_keep_their_steps_while_others_are_evicted(start_server, repository):
    """Each model is in two ensembles, and asked for by itself, too: an ensemble that comes may need one that is about to go."""
    names = make_models(repository, 6)
    budget = 3 * size_of_a_model(start_server, repository, names)
    ensembles = [make_ensemble(repository, f"e{i}", chain(name, names[i - 1])).name for i, name in enumerate(names)]
    server = start_server(repository, flags=[*ON_DEMAND, f"--model-memory-budget={budget}"])
    with concurrent.futures.ThreadPoolExecutor(4) as clients:
        for done in [clients.submit(ask_at_random, server, names + 2 * ensembles, 30, seed) for seed in range(4)]:
            done.result()
    assert metric(server, "nereid_demand_evictions_total") > 0
    assert metric(server, "nereid_demand_failures_total") == 0


def test_requests_protect_their_model(start_server, repository):
    slow = 'parameters { key: "execute_delay_ms" value { string_value: "1500" } }'
    make_identity(repository, "busy", more=slow + LARGE)
    (repository / "busy/1/data").write_bytes(bytes(1 << 20))
    names = make_models(repository, 2)
    one = size_of_a_model(start_server, repository, ["busy", *names])
    server = start_server(repository, flags=[*ON_DEMAND, f"--model-memory-budget={one + one // 2}"])
    with socket.create_connection(("localhost", server.http_port)) as client:
        client.sendall(async_infer(infer_path("busy")))
        wait_for("the request", lambda: "busy" in loaded(server))
        assert server.ask(infer_path(names[0]), BODY).status == 200  # it waits, or exceeds the budget
        client.settimeout(PATIENCE)
        assert b"".join(iter(lambda: client.recv(65536), b"")).startswith(b"HTTP/1.1 200")
    wait_for("the budget to be kept", lambda: loaded(server) == {names[0]})


def test_a_model_larger_than_the_budget_is_served(start_server, repository):
    names = make_models(repository, 2)
    server = start_server(repository, flags=[*ON_DEMAND, "--model-memory-budget=1"])
    for name in (*names, *names):
        assert server.ask(infer_path(name), BODY).status == 200
    assert "is loaded though the memory budget of 1 bytes has no room" in server.log
    wait_for("one to be left", lambda: loaded(server) == {names[1]})
    assert server.log.count(f"loading: {names[1]}:1") == 2
    assert server.ask(infer_path(names[1]), BODY).status == 200  # it stays until another one is wanted
    assert server.log.count(f"loading: {names[1]}:1") == 2


def test_a_python_model_calls_one_that_is_not_loaded(start_server, repository):
    make_identity(repository, "other")
    config = (make_identity(repository, "caller") / "config.pbtxt").read_text().replace('"identity"', '"python"')
    make_python(repository, "caller", """
        def execute(self, requests):
            answers = []
            for request in requests:
                asked = pb_utils.InferenceRequest(model_name="other", requested_output_names=["OUTPUT0"],
                                                  inputs=[pb_utils.get_input_tensor_by_name(request, "INPUT0")])
                reply = asked.exec()
                assert not reply.has_error(), reply.error().message()
                answers.append(pb_utils.InferenceResponse([pb_utils.get_output_tensor_by_name(reply, "OUTPUT0")]))
            return answers
        """, config=config)
    server = start_server(repository, flags=ON_DEMAND)
    reply = server.ask(infer_path("caller"), BODY)
    assert reply.status == 200 and json.loads(reply.body)["outputs"][0]["data"] == [7]
    assert loaded(server) == {"caller", "other"}


@pytest.mark.parametrize("value", ["", "-1", "1.5G", "G", "x", "99999999999T", "1 G"])
def test_a_budget_that_is_none_is_refused(start_server, repository, value):
    make_identity(repository, "m")
    server = start_server(repository, flags=[*ON_DEMAND, f"--model-memory-budget={value}"], wait=False)
    assert server.process.wait(PATIENCE) == 1
    assert "--model-memory-budget" in server.log and "<bytes>[K|M|G|T]" in server.log


@pytest.mark.alone
@pytest.mark.slow
def test_ten_thousand_models_cost_a_start_nothing(start_server, repository):
    """Each is looked at once, by its name: a start takes the processor no longer than an index, which looks at them once, too."""
    count = 2_000 if BUILD.name == "tsan" else 10_000  # there an index of 10,000 takes 5 s of the processor
    for i in range(count):
        make_identity(repository, f"model_{i:05}")
    server = start_server(repository, flags=ON_DEMAND)
    start = proc.cpu_seconds(server.process.pid)
    rows = index(server)
    assert len(rows) == count and set(rows.values()) == {(None, None)}
    assert start < 5 * (proc.cpu_seconds(server.process.pid) - start) + 1
    assert server.ask(infer_path("model_01777"), BODY).status == 200
    assert loaded(server) == {"model_01777"}
