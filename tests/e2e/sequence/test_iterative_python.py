# SPDX-License-Identifier: Apache-2.0
"""Requests that a Python model has go again (set_release_flags): each test runs with nereid's backend and with Triton's."""
import json
import threading

import pytest
from conftest import wait_for
from python_models import make_python
from python_sides import SIDES, TESTED, output, python_backends, side, start_python  # noqa: F401 - fixtures

# Triton's backend of 2.51 now and then keeps a part of a request that failed, and the server then waits for it at its end.
of_ours = pytest.mark.parametrize("side", [of for name, of in TESTED.items() if name != "triton"], ids=[name for name in TESTED if name != "triton"], indirect=True)

# Counts IN down to 0 and answers how often it went; one below 0 fails at its second pass.
COUNT = """
def initialize(self, args):
    self.passes = {}
def pass_of(self, request):
    key = request.correlation_id()
    self.passes[key] = self.passes.get(key, 0) + 1
    return self.passes[key]
def end_of(self, request):
    return self.passes.pop(request.correlation_id())
def again(self, request, wanted):
    if wanted < 0 and self.pass_of(request) > 1:
        raise ValueError("the second pass")
    elif wanted >= 0 and self.pass_of(request) >= wanted:
        return False
    request.set_release_flags(pb_utils.TRITONSERVER_REQUEST_RELEASE_RESCHEDULE)
    return True
"""
RETURNED = COUNT + """
def execute(self, requests):
    answers = []
    for request in requests:
        wanted = int(value(request).reshape(-1)[0])
        answers.append(None if self.again(request, wanted) else answer(np.array([self.end_of(request)], np.int32)))
    return answers
"""
AWAITED = RETURNED.replace("def execute", "async def execute")
WRONG = """
def execute(self, requests):
    for request in requests:
        request.set_release_flags(pb_utils.TRITONSERVER_REQUEST_RELEASE_RESCHEDULE)
    return [answer(value(request)) for request in requests]
"""
TAKEN_BACK = """
def execute(self, requests):
    for request in requests:
        request.set_release_flags(pb_utils.TRITONSERVER_REQUEST_RELEASE_RESCHEDULE)
        request.set_release_flags(pb_utils.TRITONSERVER_REQUEST_RELEASE_ALL)
    return [answer(value(request)) for request in requests]
"""
# Answers each pass; `self.senders` has that of the first one.
STREAMED = COUNT + """
def execute(self, requests):
    for request in requests:
        wanted = int(value(request).reshape(-1)[0])
        sender = request.get_response_sender()
        goes = self.again(request, wanted)
        number = self.passes[request.correlation_id()]
        if wanted >= 0:
            sender.send(answer(np.array([number], np.int32)), flags=0 if goes else pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)
        if not goes:
            self.end_of(request)
"""
# All answers come by the first pass's sender, whose requests the later ones are.
FIRST_SENDER = COUNT + """
def execute(self, requests):
    for request in requests:
        wanted = int(value(request).reshape(-1)[0])
        self.senders = getattr(self, "senders", {})
        sender = self.senders.setdefault(request.correlation_id(), request.get_response_sender())
        goes = self.again(request, wanted)
        number = self.passes[request.correlation_id()]
        sender.send(answer(np.array([number], np.int32)), flags=0 if goes else pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)
        if not goes:
            self.end_of(request)
            del self.senders[request.correlation_id()]
"""
ITERATIVE = "sequence_batching { iterative_sequence: true %s max_sequence_idle_microseconds: 60000000 }"
DECOUPLED = "model_transaction_policy { decoupled: true }"
BODIES = {"returned": RETURNED, "awaited": AWAITED}
STREAMS = {"streamed": STREAMED, "first_sender": FIRST_SENDER}


def make(repository):
    for name, body in {**BODIES, "wrong": WRONG, "taken_back": TAKEN_BACK}.items():
        make_python(repository, name, body, more=ITERATIVE % "")
    make_python(repository, "oldest", RETURNED, max_batch_size=4, more=ITERATIVE % "oldest { max_candidate_sequences: 4 }")
    for name, body in STREAMS.items():
        make_python(repository, name, body, more=ITERATIVE % "" + DECOUPLED)
    make_python(repository, "plain", RETURNED)
    make_python(repository, "plain_stream", STREAMED, more=DECOUPLED)
    return repository


@pytest.fixture
def serve(start_python, repository):
    """A server of some of the models: Triton's library takes its time for each."""
    make(repository)
    return lambda *models: start_python(repository, flags=[f"--load-model={model}" for model in models])


def passes(server, model, wanted, shape=None):
    tensor = {"name": "IN", "datatype": "INT32", "shape": shape or [1], "data": [wanted]}
    return server.ask(f"/v2/models/{model}/infer", json.dumps({"inputs": [tensor]}).encode())


def stream(server, model, wanted):
    """What generate_stream gives."""
    answer = server.ask(f"/v2/models/{model}/generate_stream", json.dumps({"IN": wanted}).encode())
    return [json.loads(line[5:]) for line in answer.text.splitlines() if line.startswith("data:")]


def outputs(events):
    return [event["OUT"] for event in events]


def test_requests_go_again(serve):
    server = serve(*BODIES)
    for model in BODIES:
        for wanted in (5, 1, 300):
            assert output(passes(server, model, wanted), "OUT") == [wanted], model
    answer = passes(server, "returned", -1)
    assert answer.status == 500 and "the second pass" in answer.text
    assert output(passes(server, "returned", 2), "OUT") == [2]


def test_many_go_at_once(serve):
    server = serve("oldest")
    together = {}

    def work(number):
        together[number] = [output(passes(server, "oldest", number, [1, 1]), "OUT") for _ in range(3)]

    threads = [threading.Thread(target=work, args=(number,)) for number in range(1, 9)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert together == {number: [[number]] * 3 for number in range(1, 9)}


@pytest.mark.parametrize("model", STREAMS)
def test_each_pass_may_answer(serve, model):
    server = serve(model)
    for wanted in (4, 1):
        assert outputs(stream(server, model, wanted)) == list(range(1, wanted + 1))


@of_ours
def test_a_later_pass_may_fail(serve):
    server = serve("streamed")
    assert "the second pass" in server.ask("/v2/models/streamed/generate_stream", json.dumps({"IN": -1}).encode()).text
    assert outputs(stream(server, "streamed", 2)) == [1, 2]


@of_ours
def test_a_request_that_goes_again_has_no_answer(serve):
    server = serve("wrong", "taken_back")
    answer = passes(server, "wrong", 1)
    assert answer.status == 500
    assert "Expected a None object in the execute function return list for reschduled request, found type" in answer.text
    assert output(passes(server, "taken_back", 3), "OUT") == [3]


@of_ours
def test_other_models_do_not_reschedule(serve):
    server = serve("plain", "plain_stream")
    words = "Request is released with TRITONSERVER_REQUEST_RELEASE_RESCHEDULE, while the model is not configured to handle such a flag."
    assert words in passes(server, "plain", 3).text
    assert words in server.ask("/v2/models/plain_stream/generate_stream", json.dumps({"IN": 3}).encode()).text
    assert passes(server, "plain", 1).status == 200


def test_it_is_counted(serve, side):
    """But for failures in NVIDIA's server: it ends a sequence by a cancelled request of its own, and now and then counts that one as failed."""
    server = serve("returned")
    expected = [5, 5, 5] if side is SIDES["nereid-in-triton"] else [5, 5, 5, 0]

    def counts():
        found = json.loads(server.ask("/v2/models/returned/stats").body)["model_stats"][0]
        return found["inference_count"], found["execution_count"], found["inference_stats"]["success"]["count"], found["inference_stats"]["fail"]["count"]

    before = counts()
    passes(server, "returned", 5)
    wait_for("the count", lambda: [b - a for a, b in zip(before, counts())][: len(expected)] == expected)
