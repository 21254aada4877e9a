# SPDX-License-Identifier: Apache-2.0
"""Iterative sequences, in nereid and in Triton 2.51 with the same backends: one request that goes several times. docs/sequences.md."""
import pytest
from conftest import wait_for
from grpc_sides import NEREID, Answers, client_of
from safety import on_threads
from sequence_models import controls
from state_models import IDLE, SIDES, ask, first, given, make_stateful, serve, state, told
from tritonclient.utils import InferenceServerException

ITERATIVE = {
    "direct": "direct { }",
    "oldest": "oldest { max_candidate_sequences: 4 }",
    "one_slot": "oldest { max_candidate_sequences: 1 }",
}
NOT_ITERATIVE = {
    "sequences_direct": f"sequence_batching {{ direct {{ }} {IDLE} {state(more=first())} }}",
    "sequences_oldest": f"sequence_batching {{ oldest {{ }} {IDLE} {state(more=first())} }}",
    "dynamic": "dynamic_batching { }",
    "plain": "",
}
REFUSED = "Request is released with TRITONSERVER_REQUEST_RELEASE_RESCHEDULE, while the model is not configured to handle such a flag."
MISSING_START = "must specify the START flag on the first request of the sequence"
START = 1


def iterative(strategy, *parts):
    return f"sequence_batching {{ iterative_sequence: true {strategy} {IDLE} {state(more=first())} {' '.join(parts)} }}"


def make(repository):
    for name, strategy in ITERATIVE.items():
        make_stateful(repository, name, iterative(strategy, controls()))
        make_stateful(repository, f"{name}_stream", iterative(strategy, controls()), decoupled=True)
    make_stateful(repository, "counted", iterative("direct { }", controls()))
    make_stateful(repository, "batches", iterative("direct { }"), max_batch_size=4)
    for name, scheduling in NOT_ITERATIVE.items():
        make_stateful(repository, name, scheduling, max_batch_size=int(name == "dynamic"))


@pytest.fixture(scope="module", params=SIDES, ids=[side.name for side in SIDES])
def side(request):
    return request.param


@pytest.fixture(scope="module")
def server(side, tmp_path_factory):
    yield from serve(side, make, tmp_path_factory, "--load-model=*")


@pytest.fixture
def client(server):
    with client_of(server) as client:
        yield client


@pytest.fixture
def stream(server):
    """A stream's client and what it answers."""
    with client_of(server) as client:
        answers = Answers()
        client.start_stream(answers)
        yield client, answers
        client.stop_stream(cancel_requests=True)


def send(client, model, number, request_id="", **options):
    parameters = {name: options.pop(name) for name in ("until", "delay_us") if name in options}
    client.async_stream_infer(model, [given([number])], request_id=request_id, parameters=parameters, **options)


def sum_of(answer):
    return answer.as_numpy("OUTPUT").reshape(-1).tolist()[0]


@pytest.mark.parametrize("model", ITERATIVE)
def test_a_request_goes_on_until_it_is_released(client, model):
    for _ in range(3):
        answer = ask(client, model, [2], until=9)
        assert sum_of(answer) == 10
        assert told(answer, "flags") == 0
        assert told(answer, "inputs") == "CORRID END INPUT READY START STATE_IN"


@pytest.mark.parametrize("model", ITERATIVE)
def test_each_pass_may_answer(stream, model):
    client, answers = stream
    ids = set()
    for _ in range(2):
        send(client, f"{model}_stream", 3, until=10)
        passes = [answers.result() for _ in range(4)]
        assert [sum_of(answer) for answer in passes] == [3, 6, 9, 12]
        assert [told(answer, "flags") for answer in passes] == [START, 0, 0, 0]
        (sequence,) = {told(answer, "correlation") for answer in passes}
        ids.add(sequence)
    assert len(ids) == 2 and 0 not in ids


def test_once_is_enough(client):
    assert sum_of(ask(client, "direct", [2])) == 2


@pytest.mark.parametrize("model", [*ITERATIVE, "batches"])
def test_many_requests_go_at_once(server, model):
    found = {}

    def work(number):
        with client_of(server) as client:
            found[number] = [sum_of(ask(client, model, [number], until=20 * number, max_batch_size=int(model == "batches"))) for _ in range(3)]

    on_threads(8, lambda i: work(i + 1))
    assert found == {number: [20 * number] * 3 for number in range(1, 9)}


def test_requests_take_turns(stream):
    """A pass comes behind what waits."""
    client, answers = stream
    send(client, "oldest_stream", 1, request_id="endless", until=1 << 30, delay_us=1000)
    send(client, "oldest_stream", 2, request_id="short", until=40, delay_us=1000)
    order = []
    while order.count("short") < 20:
        order.append(answers.result().get_response().id)
        assert len(order) < 100_000 or "short" in order  # else the other one goes on and on
    assert order[order.index("short") :] == ["short", "endless"] * 19 + ["short"]


def test_a_sequence_of_the_client_ends_with_its_request(client):
    assert sum_of(ask(client, "direct", [2], sequence=77, start=True, until=5)) == 6

    def has_ended():
        try:
            ask(client, "direct", [2], sequence=77)
        except InferenceServerException as refused:
            assert MISSING_START in refused.message()
            return True
        return False  # it was on time, and ends with this one

    wait_for("the request's release, which is behind its answer", has_ended)
    assert sum_of(ask(client, "direct", [2], sequence=77, start=True, until=3)) == 4


def test_a_request_with_end_goes_once(client):
    with pytest.raises(InferenceServerException, match=f"{REFUSED}|{MISSING_START}"):  # the latter is Triton's of 2.51
        ask(client, "direct", [2], sequence=78, start=True, end=True, until=5)
    assert sum_of(ask(client, "direct", [2], sequence=78, start=True, end=True)) == 2


@pytest.mark.parametrize("model", NOT_ITERATIVE)
def test_other_models_do_not_reschedule(client, model):
    sequence = dict(sequence=5, start=True, end=True) if "sequences" in model else {}
    with pytest.raises(InferenceServerException) as problem:
        ask(client, model, [1], until=10, max_batch_size=int(model == "dynamic"), **sequence)
    assert problem.value.message() == REFUSED


def passes(client, model="one_slot"):
    return client.get_inference_statistics(model).model_stats[0].execution_count


def test_a_request_that_is_cancelled_does_not_go_again(server, client):
    before = passes(client)
    with client_of(server) as other:
        call = other.async_infer("one_slot", [given([1])], Answers(), parameters={"until": 1 << 30, "delay_us": 10000})
        wait_for("some passes", lambda: passes(client) > before + 3)
        call.cancel()
    # its slot is the only one
    assert sum_of(ask(client, "one_slot", [2], until=9)) == 10


def test_statistics_count_passes(client):
    def counts():
        found = client.get_inference_statistics("counted").model_stats[0]
        return found.inference_count, found.execution_count, found.inference_stats.success.count

    ask(client, "counted", [1], until=5)
    wait_for("the counts, of which the backend tells behind its answer", lambda: counts() == (5, 5, 5))
