# SPDX-License-Identifier: Apache-2.0
"""What happens around the steps of an ensemble while they run: other branches, cancellations, failures, unloads, limits, memory of clients."""
import concurrent.futures
import json
import signal
import time

import numpy as np
import pytest
import tritonclient.grpc as grpc
import tritonclient.http as http
from client_memory import BASE, inference, place, region, register
from conftest import make_identity, wait_for
from ensembles import chain, make_ensemble, step
from python_models import make_python
from test_isolated import make_xy
from test_ensembles import COUNTS, DECOUPLED, Stream, ask, client_of, counts, inputs_of, one_to_one, row
from tracing import ON, TENSORS, read_traces, to_file
from tritonclient.utils import InferenceServerException

# Each instance makes its mark and waits for that of the model that the parameter `other` names.
MEETS = """
def initialize(self, args):
    self.own, self.other = args["model_name"], json.loads(args["model_config"])["parameters"]["other"]["string_value"]
    self.folder = os.path.join(args["model_repository"], "..")

def execute(self, requests):
    open(os.path.join(self.folder, self.own + ".here"), "w").close()
    while not os.path.exists(os.path.join(self.folder, self.other + ".here")):
        time.sleep(0.001)
    return [answer(value(request, "INPUT0"), "OUTPUT0") for request in requests]
"""
# Works until its request is cancelled; a mark says that it has begun.
PATIENT = """
def execute(self, requests):
    replies = []
    for request in requests:
        open(os.path.join(os.path.dirname(__file__), "began"), "w").close()
        pb_utils.Logger.log_info("patient: began")
        while not request.is_cancelled():
            time.sleep(0.001)
        pb_utils.Logger.log_info("patient: cancelled")
        replies.append(pb_utils.InferenceResponse(error=pb_utils.TritonError("given up", pb_utils.TritonError.CANCELLED)))
    return replies
"""
# Fails once the model `patient` has begun.
FAILS_LATER = """
def execute(self, requests):
    while not os.path.exists(os.path.join(os.path.dirname(__file__), "../../patient/1/began")):
        time.sleep(0.001)
    return [pb_utils.InferenceResponse(error=pb_utils.TritonError("no such luck")) for request in requests]
"""
# Waits for the mark `go`.
WAITS = """
def execute(self, requests):
    pb_utils.Logger.log_info("waits: began")
    while not os.path.exists(os.path.join(os.path.dirname(__file__), "go")):
        time.sleep(0.001)
    return [answer(value(request, "INPUT0"), "OUTPUT0") for request in requests]
"""
# How many of its instances were at work at once, in the second column.
CROWD = """
def initialize(self, args):
    self.folder = os.path.join(os.path.dirname(__file__), "crowd")
    os.makedirs(self.folder, exist_ok=True)

def execute(self, requests):
    mark = os.path.join(self.folder, str(os.getpid()))
    open(mark, "w").close()
    time.sleep(0.02)
    found = len(os.listdir(self.folder))
    os.unlink(mark)
    return [answer(np.array([[value(request, "INPUT0").flat[0], found]], np.float32), "OUTPUT0") for request in requests]
"""
CALLS = """
def execute(self, requests):
    replies = []
    for request in requests:
        inner = pb_utils.InferenceRequest(model_name="both", requested_output_names=["OUTPUT0"],
                                          inputs=[pb_utils.Tensor("INPUT0", value(request, "INPUT0"))])
        reply = inner.exec()
        if reply.has_error():
            raise pb_utils.TritonModelException(reply.error().message())
        replies.append(answer(pb_utils.get_output_tensor_by_name(reply, "OUTPUT0").as_numpy(), "OUTPUT0"))
    return replies
"""
SLOW = 'parameters { key: "execute_delay_ms" value { string_value: "%d" } }'


def make_model(repository, name, body, count=1, more="", **options):
    return make_python(repository, name, body, config=one_to_one(more=f"instance_group {{ count: {count} kind: KIND_CPU }}" + more, **options)
                       .replace("instance_group { kind: KIND_CPU }", ""))


def branches(repository, left, right):
    """An ensemble whose two outputs come of two models."""
    make_ensemble(repository, "fork", [step(left, {"INPUT0": "INPUT0"}, {"OUTPUT0": "OUTPUT0"}),
                                       step(right, {"INPUT0": "INPUT0"}, {"OUTPUT0": "OUTPUT1"})], outputs=("OUTPUT0", "OUTPUT1"))


def test_branches_run_at_the_same_time(repository, start_server):
    for name, other in (("left", "right"), ("right", "left")):
        make_model(repository, name, MEETS, more=f'parameters {{ key: "other" value {{ string_value: "{other}" }} }}')
    branches(repository, "left", "right")
    server = start_server(repository)
    assert (ask(server, "fork", row(1, 2)).as_numpy("OUTPUT1") == row(1, 2)).all()


def test_a_cancellation_reaches_the_step_under_way(repository, start_server):
    make_identity(repository, "a")
    make_model(repository, "patient", PATIENT)
    make_ensemble(repository, "both", chain("a", "patient", "a"))
    make_ensemble(repository, "outer", chain("both"))
    server = start_server(repository)
    for asked, model in enumerate(("both", "outer"), 1):
        with client_of(server, grpc) as client:
            answers = []
            call = client.async_infer(model, inputs_of(row(1), grpc), lambda result, error: answers.append(error))
            wait_for("the step", lambda: server.log.count("patient: began") == asked)
            call.cancel()
            wait_for("the step's end", lambda: server.log.count("patient: cancelled") == asked)
            wait_for("the answer", lambda: answers)
        assert "CANCELLED" in str(answers[0]).upper()
        wait_for("the count", lambda: counts(server, model)[1] == 1)
    text = server.ask("/metrics", port=server.metrics_port).text
    assert 'nv_inference_request_failure{model="outer",reason="CANCELED",version="1"} 1' in text
    assert counts(server, "a")[0] == 2  # the last step never began


def test_a_cancellation_takes_a_step_out_of_its_queue(repository, start_server):
    make_model(repository, "patient", PATIENT)
    make_ensemble(repository, "both", chain("patient", "patient"))
    server = start_server(repository)
    with client_of(server, grpc) as client:
        answers = []
        first = client.async_infer("patient", inputs_of(row(1), grpc), lambda result, error: None)
        wait_for("the first", lambda: "patient: began" in server.log)
        call = client.async_infer("both", inputs_of(row(1), grpc), lambda result, error: answers.append(error))
        wait_for("the queue", lambda: 'nv_inference_pending_request_count{model="patient",version="1"} 1' in server.ask("/metrics", port=server.metrics_port).text)
        call.cancel()
        wait_for("the count", lambda: counts(server, "both")[1] == 1)
        assert server.log.count("patient: began") == 1
        first.cancel()
        wait_for("the end", lambda: "patient: cancelled" in server.log)


def test_a_step_whose_time_in_its_queue_is_over_fails_the_request(repository, start_server):
    waits = make_model(repository, "waits", WAITS, more="dynamic_batching { default_queue_policy { default_timeout_microseconds: 1000 } }", max_batch_size=1)
    make_identity(repository, "a")
    make_ensemble(repository, "both", chain("a", "waits"), max_batch_size=1)
    server = start_server(repository)
    with concurrent.futures.ThreadPoolExecutor() as pool:
        # One that holds the instance: its own time in the queue may be over, too, on a machine that is busy.
        holds = [pool.submit(until_taken, server, "waits")]
        wait_for("the first", lambda: "waits: began" in server.log)
        for kind, status in ((http, "503"), (grpc, "StatusCode.UNAVAILABLE")):
            with pytest.raises(InferenceServerException, match="^.*in ensemble 'both', .*Request timeout expired") as failure:
                ask(server, "both", row(1), kind)
            assert failure.value.status() == status
        (waits / "1/go").touch()
        assert (holds[0].result().as_numpy("OUTPUT0") == row(1)).all()
    assert counts(server, "both")[:2] == (0, 2)


def until_taken(server, model):
    while True:
        try:
            return ask(server, model, row(1))
        except InferenceServerException as late:
            assert "Request timeout expired" in late.message()


def test_a_failure_cancels_the_other_branches_and_is_told_once(repository, start_server):
    make_model(repository, "patient", PATIENT)
    make_model(repository, "fails", FAILS_LATER)
    branches(repository, "patient", "fails")
    server = start_server(repository)
    with pytest.raises(InferenceServerException) as failure:
        ask(server, "fork", row(1))
    assert failure.value.message() == "in ensemble 'fork', no such luck"
    wait_for("the other branch", lambda: server.log.count("patient: began") == server.log.count("patient: cancelled"))
    assert counts(server, "fork")[:2] == (0, 1)


RELEASED = "the backend of model 'faulty' released the request without an answer"
# What is said of each, and what answers where it is the last step: there what it gives is the ensemble's answer, as of any model.
FAULTS = {
    "execute_error": ("faulty backend: execute_error", None),
    "no_response": (RELEASED, None),
    "response_deleted": (RELEASED, None),
    "not_final": (RELEASED, None),
    "flags_only": ("unexpected deadlock, at least one output is not set while no more ensemble steps can be made", None),
    "two_answers": ("model 'faulty' answered a request twice, which only decoupled models may do", None),
    "no_outputs": ("missing required input(s) ['INPUT0']", []),
    "wrong_datatype": ("inference input 'INPUT0' data-type is 'FP64', but model 'a' expects 'INT32'", ["FP64"]),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_backend_that_misbehaves_fails_the_ensemble_only(repository, start_server, fault):
    """As the first step, between two, as the last one."""
    said, given = FAULTS[fault]
    make_identity(repository, "a", "TYPE_INT32", max_batch_size=0)
    make_xy(repository, "faulty", fault)
    places = ("first", "between", "last")
    for place, name in enumerate(places):
        names = ["INPUT0", "one", "two", "OUTPUT0"]
        steps = [("faulty", "X", "Y") if n == place else ("a", "INPUT0", "OUTPUT0") for n in range(3)]
        steps = [step(model, {taken: names[n]}, {made: names[n + 1]}) for n, (model, taken, made) in enumerate(steps)]
        make_ensemble(repository, name, steps, kind="TYPE_INT32", max_batch_size=0)
    server = start_server(repository)
    for name in places:
        for _ in range(3):
            if name == "last" and given is not None:
                outputs = ask(server, name, np.array([1], np.int32)).get_response().get("outputs", [])
                assert [one["datatype"] for one in outputs] == given
                continue
            with pytest.raises(InferenceServerException) as failure:
                ask(server, name, np.array([1], np.int32))
            assert failure.value.message().startswith(f"in ensemble '{name}', ") and said in failure.value.message()
        assert (ask(server, "a", np.array([1], np.int32)).as_numpy("OUTPUT0") == [1]).all()
        assert counts(server, name)[:2] == ((3, 0) if name == "last" and given is not None else (0, 3))


def test_a_model_that_is_unloaded_meanwhile_serves_the_runs_that_began(repository, start_server):
    waits = make_model(repository, "waits", WAITS)
    make_identity(repository, "b")
    make_ensemble(repository, "both", chain("waits", "b"))
    server = start_server(repository, flags=["--model-control-mode=explicit", "--load-model=*"])
    with concurrent.futures.ThreadPoolExecutor() as pool:
        answer = pool.submit(ask, server, "both", row(1))
        wait_for("the first step", lambda: "waits: began" in server.log)
        assert server.ask("/v2/repository/models/b/unload", b"{}").status == 200
        (waits / "1/go").touch()
        assert (answer.result().as_numpy("OUTPUT0") == row(1)).all()
    with pytest.raises(InferenceServerException, match="unknown model|not ready|no available versions"):
        ask(server, "both", row(1))


def test_runs_lose_nothing_to_reloads(repository, start_server):
    for name in "abc":
        make_identity(repository, name)
    make_ensemble(repository, "both", chain("a", "b", "c"))
    server = start_server(repository, flags=["--model-control-mode=explicit", "--load-model=*"])
    with concurrent.futures.ThreadPoolExecutor() as pool, client_of(server, http):
        over = []

        def client():
            while not over:
                assert (ask(server, "both", row(1, 2)).as_numpy("OUTPUT0") == row(1, 2)).all()

        clients = [pool.submit(client) for _ in range(4)]
        for n in range(6):
            (repository / "b" / "1" / f"changed{n}").touch()
            assert server.ask("/v2/repository/models/b/load", b"{}").status == 200
        over.append(True)
        for one in clients:
            one.result()


def test_a_limit_holds_over_all_requests(repository, start_server):
    make_model(repository, "crowd", CROWD, count=5, max_batch_size=1)
    make_ensemble(repository, "limited", chain("crowd"), max_batch_size=1, scheduling="max_inflight_requests: 2")
    server = start_server(repository)
    with concurrent.futures.ThreadPoolExecutor(12) as pool:
        found = list(pool.map(lambda n: ask(server, "limited", row(n)).as_numpy("OUTPUT0").tolist()[0], range(24)))
    assert [first for first, _ in found] == list(range(24)) and max(crowd for _, crowd in found) <= 2


def test_a_decoupled_model_does_not_run_ahead_of_a_limit(repository, start_server):
    make_python(repository, "counts", COUNTS, config=one_to_one(more=DECOUPLED))
    make_model(repository, "crowd", CROWD, count=5, max_batch_size=8)
    make_ensemble(repository, "limited", chain("counts", "crowd"), more=DECOUPLED, scheduling="max_inflight_requests: 2")
    server = start_server(repository)
    with Stream(server) as stream:
        answers = stream.ask("limited", row(20))
    assert sorted(answer[0][0] for answer in answers) == list(range(20)) and max(answer[0][1] for answer in answers) <= 2


def test_a_limit_does_not_hold_up_a_decoupled_model_that_is_a_step_twice(repository, start_server):
    make_python(repository, "counts", COUNTS, config=one_to_one(more=DECOUPLED))
    make_ensemble(repository, "limited", chain("counts", "counts"), more=DECOUPLED, scheduling="max_inflight_requests: 1")
    server = start_server(repository)
    with Stream(server) as stream:
        answers = stream.ask("limited", row(5))
    assert sorted(answer[0][0] for answer in answers) == [0, 0, 0, 0, 1, 1, 1, 2, 2, 3]  # of 0, 1, 2, 3 and 4


def test_steps_that_wait_for_a_limit_can_be_cancelled(repository, start_server):
    make_model(repository, "patient", PATIENT)
    make_ensemble(repository, "limited", chain("patient"), scheduling="max_inflight_requests: 1")
    server = start_server(repository)
    with client_of(server, grpc) as client:
        calls = [client.async_infer("limited", inputs_of(row(1), grpc), lambda result, error: None) for _ in range(5)]
        wait_for("the first", lambda: "patient: began" in server.log)
        for call in calls:
            call.cancel()
        wait_for("the counts", lambda: counts(server, "limited")[1] == 5)
    server.stop()


def test_outputs_are_written_where_the_client_wants_them(repository, start_server):
    make_identity(repository, "a", "TYPE_INT32")
    make_identity(repository, "b", "TYPE_INT32")
    make_ensemble(repository, "m", [step("a", {"INPUT0": "INPUT0"}, {"OUTPUT0": "OUTPUT0"}), step("b", {"INPUT0": "OUTPUT0"}, {"OUTPUT0": "OUTPUT1"})],
                  kind="TYPE_INT32", outputs=("OUTPUT0", "OUTPUT1"))
    server = start_server(repository, flags=["--allow-client-shm=true"])
    with region(3 * 16) as made:
        assert register(server, "r", made.key, 48).status == 200
        for first, second in ((16, 32), (32, 16), (0, 16), (16, 0)):  # the last two are written over the input
            made.memory[:] = bytes(range(16)) + bytes(32)
            body = json.loads(inference("INT32", [1, 4], place("r", 16), place("r", 16, first)))
            body["outputs"] = [{"name": "OUTPUT0", "parameters": place("r", 16, first)}, {"name": "OUTPUT1", "parameters": place("r", 16, second)}]
            reply = server.ask("/v2/models/m/infer", json.dumps(body).encode())
            assert reply.status == 200, reply.text
            assert made.memory[first:first + 16] == made.memory[second:second + 16] == bytes(range(16))
    assert server.ask(f"{BASE}/unregister", b"").status == 200


def test_classes_and_generate_work_as_for_any_model(repository, start_server):
    make_identity(repository, "a")
    make_identity(repository, "texts", "TYPE_STRING")
    make_ensemble(repository, "m", chain("a", "a"))
    make_ensemble(repository, "written", chain("texts", "texts"), kind="TYPE_STRING")
    server = start_server(repository)
    body = {"inputs": [{"name": "INPUT0", "datatype": "FP32", "shape": [1, 3], "data": [1, 3, 2]}],
            "outputs": [{"name": "OUTPUT0", "parameters": {"classification": 2}}]}
    reply = server.ask("/v2/models/m/infer", json.dumps(body).encode())
    assert json.loads(reply.body)["outputs"][0]["data"] == ["3.000000:1", "2.000000:2"]
    reply = server.ask("/v2/models/written/generate", json.dumps({"INPUT0": "grüße"}).encode())
    assert json.loads(reply.body)["OUTPUT0"] == "grüße"


def test_a_python_model_calls_an_ensemble(repository, start_server):
    make_identity(repository, "a")
    make_ensemble(repository, "both", chain("a", "a"))
    make_model(repository, "calls", CALLS)
    make_ensemble(repository, "around", chain("a", "calls"))
    server = start_server(repository)
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        for model in ("calls", "around"):
            assert all((one.as_numpy("OUTPUT0") == row(1, 2)).all() for one in pool.map(lambda _: ask(server, model, row(1, 2)), range(20)))  # noqa: B023


def test_a_server_ends_while_runs_are_under_way(repository, start_server):
    make_identity(repository, "slow", more=SLOW % 300)
    make_ensemble(repository, "both", chain("slow", "slow"))
    server = start_server(repository)
    with concurrent.futures.ThreadPoolExecutor() as pool:
        answers = [pool.submit(ask, server, "both", row(n)) for n in range(3)]
        wait_for("a step", lambda: counts(server, "slow")[0] > 0)
        server.stop(signal.SIGTERM)
        for answer in answers:
            assert answer.exception() is None or isinstance(answer.exception(), Exception)


def test_the_steps_traces_are_the_ensembles_children(repository, start_server, tmp_path):
    for name in "ab":
        make_identity(repository, name)
    make_ensemble(repository, "inner", chain("b"))
    make_ensemble(repository, "both", chain("a", "inner"))
    file = tmp_path / "trace.json"
    server = start_server(repository, flags=[*ON, TENSORS, to_file(file)])
    ask(server, "both", row(1, 2), request_id="its name")
    server.stop()
    named = {trace["model_name"]: trace for trace in read_traces(file).values()}
    ids = {name: trace["id"] for name, trace in named.items()}
    assert {name: trace.facts.get("parent_id") for name, trace in named.items()} == {
        "both": None, "a": ids["both"], "inner": ids["both"], "b": ids["inner"]}
    assert {trace.facts["request_id"] for trace in named.values()} == {"its name"}
    assert {"REQUEST_START", "QUEUE_START", "REQUEST_END"} <= set(named["both"].names) and "COMPUTE_START" not in named["both"].names
    assert "COMPUTE_START" in named["b"].names
    assert [(activity, t["data"]) for activity, t in named["both"].tensors] == [("TENSOR_QUEUE_INPUT", "1.0,2.0"), ("TENSOR_BACKEND_OUTPUT", "1.0,2.0")]


def test_a_storm_of_clients_and_cancellations(repository, start_server):
    """Each run is answered or cancelled, and nothing is left."""
    for name in "abc":
        make_identity(repository, name, more=SLOW % 1 if name == "b" else "")
    make_python(repository, "counts", COUNTS, config=one_to_one(more=DECOUPLED))
    make_ensemble(repository, "inner", chain("b", "c"))
    make_ensemble(repository, "fork", [*chain("a", "inner"), step("c", {"INPUT0": "INPUT0"}, {"OUTPUT0": "OUTPUT1"})], outputs=("OUTPUT0", "OUTPUT1"))
    make_ensemble(repository, "stream", chain("counts", "inner"), more=DECOUPLED)
    server = start_server(repository)

    def client(number):
        with client_of(server, grpc) as mine:
            for n in range(40):
                call = mine.async_infer("fork", inputs_of(row(n), grpc), lambda result, error: None)
                if (n + number) % 3 == 0:
                    time.sleep(0.001 * (n % 4))
                    call.cancel()
                else:
                    assert (ask(server, "fork", row(n)).as_numpy("OUTPUT1") == row(n)).all()
        with Stream(server) as stream:
            for n in range(5):
                assert len(stream.ask("stream", row(n))) == n

    with concurrent.futures.ThreadPoolExecutor(6) as pool:
        list(pool.map(client, range(6)))
    wait_for("the end", lambda: "nv_inference_pending_request_count" in server.ask("/metrics", port=server.metrics_port).text and all(
        line.endswith(" 0") for line in server.ask("/metrics", port=server.metrics_port).text.splitlines()
        if line.startswith("nv_inference_pending_request_count{")))
    assert (ask(server, "fork", row(1)).as_numpy("OUTPUT0") == row(1)).all()
    server.stop()
