# SPDX-License-Identifier: Apache-2.0
"""States that the server keeps for Python models (docs/sequences.md): an output with the name of a state is the next one. Triton's Python backend has no states."""
import numpy as np
import pytest
import tritonclient.grpc as grpc
import tritonclient.http as http
from conftest import wait_for
from python_models import make_python, tensor
from sequence_models import http_client
from sequence_situations import OLDEST, told
from state_models import first, state
from test_sequences_lost import kill

IDLE = "max_sequence_idle_microseconds: 600000000"
STRATEGIES = {"direct": "direct { }", "oldest": OLDEST % 4}
# The sum so far, which is the next state. Where IN has a second element, that says what else: 1 gives no state, 2 fails, 3 gives one of another type.
ADDS = """
def initialize(self, args):
    with open(os.path.join(os.path.dirname(__file__), "pid"), "w") as file:
        file.write(str(os.getpid()))
def execute(self, requests):
    return [self.respond(value(r).reshape(-1), value(r, "STATE_IN")) for r in requests]
def respond(self, given, before):
    total = before + given[0] if given.size else before
    what = given[1] if given.size > 1 else 0
    if what == 2:
        return pb_utils.InferenceResponse(error=pb_utils.TritonError("no such luck"))
    kept = [pb_utils.Tensor("STATE_OUT", total.astype(np.int64) if what == 3 else total)]
    return pb_utils.InferenceResponse([pb_utils.Tensor("OUT", total), *(kept if what != 1 else [])])
"""
GROWS = """
def execute(self, requests):
    answers = []
    for request in requests:
        all = np.concatenate([value(request, "STATE_IN"), value(request)])
        answers.append(pb_utils.InferenceResponse([pb_utils.Tensor("OUT", all), pb_utils.Tensor("STATE_OUT", all)]))
    return answers
"""
STREAMS = """
def execute(self, requests):
    for request in requests:
        given, sender = value(request), request.get_response_sender()
        sender.send(answer(given + value(request, "STATE_IN")))
        sender.send(pb_utils.InferenceResponse([pb_utils.Tensor("STATE_OUT", given)]), flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)
"""
SHOWN = 'output { name: "STATE_OUT" data_type: TYPE_INT32 dims: [ 1 ] }'


def batching(*parts, strategy="direct { }"):
    return f"sequence_batching {{ {strategy} {IDLE} {' '.join(parts)} }}"


@pytest.fixture
def serve(start_server, repository):
    def started(body=ADDS, strategy="direct", max_batch_size=0, of=None, more="", **options):
        scheduling = batching(of or state(more=first()), strategy=STRATEGIES[strategy])
        directory = make_python(repository, "m", body, max_batch_size=max_batch_size, more=scheduling + more, **options)
        return start_server(repository), directory

    return started


def ask(server, given, who=1, flags="", rows=False, outputs=("OUT",), kind="INT32"):
    data = np.array([given] if rows else given, {"INT32": np.int32, "BYTES": object}[kind])
    with http_client(server) as client:
        answer = told(client.infer, "m", [tensor(data, kind)], sequence_id=who, sequence_start="start" in flags, sequence_end="end" in flags)
        if isinstance(answer, str):
            return answer
        assert [one["name"] for one in answer.get_response()["outputs"]] == list(outputs)
        return answer.as_numpy("OUT").reshape(-1).tolist()


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("rows", [False, True])
def test_a_state_goes_on_from_request_to_request(serve, strategy, rows):
    server, _ = serve(strategy=strategy, max_batch_size=4 if rows else 0)
    sequences = (1, 2, 3) if rows else (1,)
    for n in range(4):
        for who in sequences:  # with direct, of four rows three are in use
            flags = "start" if n == 0 else "end" if n == 3 else ""
            assert ask(server, [10 * who + n], who, flags, rows) == [sum(10 * who + i for i in range(n + 1))]
    assert ask(server, [5], 1, "start end", rows) == [5]


def test_a_sequence_that_begins_again_has_the_first_state(serve):
    server, _ = serve()
    assert [ask(server, [5], flags="start"), ask(server, [6]), ask(server, [1], flags="start"), ask(server, [1], flags="end")] == [[5], [11], [1], [2]]


def test_what_is_not_given_or_fails_leaves_the_state(serve):
    server, _ = serve()
    assert [ask(server, [5], flags="start"), ask(server, [7, 1]), ask(server, [1])] == [[5], [12], [6]]
    assert "no such luck" in ask(server, [7, 2])
    assert "state 'STATE_OUT' of model 'm' is INT64, its configuration says INT32" in ask(server, [7, 3])
    assert ask(server, [1], flags="end") == [7]


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_state_may_grow(serve, strategy):
    server, _ = serve(GROWS, strategy, of=state(dims="[ -1 ]", more=first()))
    assert [ask(server, [1, 2], flags="start"), ask(server, [3]), ask(server, [4], flags="end")] == [[0, 1, 2], [0, 1, 2, 3], [0, 1, 2, 3, 4]]


def test_texts_are_kept(serve):
    server, _ = serve(GROWS, of=state("TYPE_STRING", "[ -1 ]"), kind="TYPE_STRING")
    assert ask(server, [b"a", b""], flags="start", kind="BYTES") == [b"", b"a", b""]
    assert ask(server, ["grüße".encode()], flags="end", kind="BYTES") == [b"", b"a", b"", "grüße".encode()]


def test_a_state_is_an_output_where_it_is_listed_and_asked_for(serve):
    server, _ = serve(more=" " + SHOWN)
    assert ask(server, [5], flags="start", outputs=("OUT", "STATE_OUT")) == [5]
    with http_client(server) as client:
        for names in (["OUT"], ["STATE_OUT"]):
            answer = client.infer("m", [tensor(np.array([1], np.int32))], sequence_id=1, outputs=[http.InferRequestedOutput(name) for name in names])
            assert [one["name"] for one in answer.get_response()["outputs"]] == names
    assert ask(server, [1], flags="end", outputs=("OUT", "STATE_OUT")) == [8]


def test_a_stream_keeps_none(serve):
    """Its responses are not in step with the end of its request."""
    server, _ = serve(STREAMS, more=" model_transaction_policy { decoupled: true }")
    answers = []
    with grpc.InferenceServerClient(f"127.0.0.1:{server.grpc_port}") as client:
        client.start_stream(lambda result, error: answers.append(str(error) if error else result.as_numpy("OUT").tolist()))
        data = grpc.InferInput("IN", [1], "INT32").set_data_from_numpy(np.array([5], np.int32))
        client.async_stream_infer("m", [data], sequence_id=1, sequence_start=True)
        wait_for("the answers", lambda: len(answers) == 2)
        client.stop_stream()
    assert answers[0] == [5] and "state 'STATE_OUT' of model 'm' cannot be kept: the model is decoupled" in answers[1]


def test_a_worker_that_dies_loses_no_state(serve):
    server, directory = serve()
    assert [ask(server, [5], flags="start"), ask(server, [6])] == [[5], [11]]
    kill(directory)
    wait_for("the end", lambda: "the Python worker ended" in server.log)
    assert ask(server, [1], flags="end") == [12]
