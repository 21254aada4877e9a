# SPDX-License-Identifier: Apache-2.0
"""Sequences with real clients (docs/sequences.md). What Triton does with them too is in test_sequences_triton.py; here stands what that is."""
import concurrent.futures
import json
import re

import numpy as np
import pytest
import tritonclient.grpc as over_grpc
from conftest import PATIENCE, wait_for
from grpc_sides import NEREID, SideStarter
from sequence_models import http_client, make_sequences, step, values
from sequence_situations import LONG_US, OLDEST, SITUATIONS, Counters, await_pending, make_models, steps, told
from tritonclient.utils import InferenceServerException

NO_START = "400: inference request for sequence %d to model '%s' must specify the START flag on the first request of the sequence"
NO_ID = "400: inference request to model '%s' must specify a non-zero or non-empty correlation ID"
ROWS = "400: inference request to model '%s' must specify batch-size 1 due to requirements of sequence batcher"
LATE = "503: timeout of the corresponding sequence has been expired"


def said(number, start=0, end=0, row=0, size=1, real=1):
    return [number, start, end, 1, row, size, real]


def expected(name):
    """For each situation the answers, of a model with that strategy; `row` is where direct has more rows than one."""
    direct = name != "oldest"

    def placed(number, row, **more):
        return said(number, row=row, size=row + 1, **more) if direct else said(number, **more)

    narrow, brief = f"{name}_narrow", f"{name}_brief"
    sums = [sum(range(71, 71 + n)) for n in range(1, 11)]
    return {
        "ordinary": [said(5, 1), said(11), placed(1, 1, start=1), said(18, end=1), placed(3, 1, end=1)],
        "without batches": [said(5, 1), said(11), said(18, end=1), said(2, 1, 1)],
        "one request": [said(5, 1, 1), NO_START % (1, name), said(6, 1, 1)],
        "wrong": [NO_ID % name, NO_ID % name, NO_START % (77, name), NO_START % (77, name), said(1, 1, 1), NO_START % (3, name)],
        "rows": [ROWS % name, ROWS % name],
        "a second start": [said(5, 1), said(11), said(1, 1), said(2), said(4, end=1), NO_START % (1, name)],
        "one id of two clients": ([said(5, 1)], [said(11), said(10, 1)], [said(11)], [said(13, end=1)], [NO_START % (1, name)] * 2),
        "places": (
            [said(1, 1), placed(2, 1, start=1), placed(3, 2, start=1)],
            [placed(13, 2), placed(12, 1), said(11)],
            [said(16, end=1), said(7, 1), placed(23, 2)],
            [placed(12, 1, end=1), placed(23, 2, end=1), said(7, end=1)],
        ),
        "counted": dict(inferences=12, executions=12, **{f"{kind} count": 12 for kind in ("success", "queue", "compute_infer")}, **{"fail count": 0},
                        **({"batches of 1": 5, "batches of 2": 3, "batches of 3": 4} if direct else {"batches of 1": 12})),
        "two instances": ([said(1, 1), said(2, 1)], ([False], [said(5), said(7, end=1)], [said(3, 1, 1)]), [said(11, end=1)]),
        "idle": ([said(1, 1)], NO_START % (21, brief), [said(2, 1, 1)]),
        "a backlog and nobody": ([said(1, 1)], [said(2, 1, 1)], [NO_START % (51, brief)]),
        "backlog": ([said(1, 1)], ([False, False], [said(6), said(12, end=1)], [said(2, 1, 1), said(3, 1, 1)])),
        "a backlog that grows": ([said(1, 1)], ([False] * 4, [said(7, end=1)], [said(2, 1), said(5), said(9, end=1), said(5, 1, 1)])),
        "timeout": ([said(1, 1)], LATE, NO_START % (62, narrow), [said(2, end=1), said(5, 1, 1)]),
        "a stream": {str(71 + k): [[total + k * (n + 1), int(n == 0), int(n == 9), 1] for n, total in enumerate(sums)] for k in range(3)},
        "cancelled in the backlog": ([said(1, 1)], [said(3, end=1)], [NO_START % (82, narrow), said(4, 1, 1)]),
    }


def strategy_and_situation(name):
    return name.split(", ", 1)


NAMES = [name for name in SITUATIONS if strategy_and_situation(name)[1] in expected("direct")]


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    starter = SideStarter(NEREID, NEREID.backends(tmp_path_factory.mktemp("backends")), tmp_path_factory.mktemp("sequences"))
    try:
        yield starter(make_models(tmp_path_factory.mktemp("models")), flags=["--load-model=*"])
    finally:
        starter.stop_all()


@pytest.mark.parametrize("name", NAMES)
def test_what_happens_to_sequences(server, name):
    strategy, situation = strategy_and_situation(name)
    work, model = SITUATIONS[name]
    assert work(server, model) == expected(strategy)[situation]


# How many of the batch are null requests, and whether all that they hold is zeros. They answer too, and nobody gets that.
ZEROS = """
def execute(self, requests):
    nulls = [r for r in requests if not value(r, "READY").any()]
    zeros = all(not t.as_numpy().any() and t.as_numpy().size for r in nulls for t in r.inputs())
    shapes = [value(r).shape for r in nulls]
    facts = [len(requests), len(nulls), int(zeros), int(all(shape == value(requests[-1]).shape for shape in shapes))]
    return [answer(np.array([facts], np.int32)) for request in requests]
"""


def test_rows_without_a_request_are_zeros(start_server, repository):
    """In Triton they have whatever was in memory, which a model that does not look at READY may act on."""
    make_sequences(repository, idle_us=LONG_US, body=ZEROS)
    server = start_server(repository)
    with http_client(server) as client:
        for who in (1, 2, 3):
            client.infer("m", [values(77)], sequence_id=who, sequence_start=True)
        for who, facts in ((3, [3, 2, 1, 1]), (2, [2, 1, 1, 1]), (1, [1, 0, 1, 1])):
            assert client.infer("m", [values(99)], sequence_id=who, sequence_end=who == 1).as_numpy("OUT").tolist() == [facts]


@pytest.mark.parametrize("batch", [0, 4])
@pytest.mark.parametrize("boolean,dtype,kind,who", [
    ("int32", "int32", "uint64", 2**64 - 2), ("fp32", "float32", "int64", 7), ("bool", "bool", "uint32", 2**32 + 5), ("bool", "bool", "string", "who?")])
def test_the_controls_are_inputs(server, boolean, dtype, kind, who, batch):
    shape = [1, 1] if batch else [1]
    data, no = np.ones(shape, dtype).tolist(), np.zeros(shape, dtype).tolist()
    numbers = {"uint64": 2**64 - 2, "int64": 7, "uint32": 5}
    ids = np.array([who.encode()], np.object_) if kind == "string" else np.array([numbers[kind]], kind)
    model = f"tell_{boolean}_{kind}_{batch}"
    with http_client(server) as client:
        for start, end in ((True, False), (False, False), (False, True), (True, True)):
            answer = client.infer(model, [values(7, batch=batch > 0)], sequence_id=who, sequence_start=start, sequence_end=end)
            given, (correlation, flags) = json.loads(answer.as_numpy("OUT").reshape(-1)[0])
            assert given["START"] == [dtype, shape, str(data if start else no)]
            assert given["END"] == [dtype, shape, str(data if end else no)]
            assert given["READY"] == [dtype, shape, str(data)]
            assert given["CORRID"] == [str(ids.dtype), shape, str(ids.reshape(shape).tolist())]
            assert (correlation, flags) == (who, start + 2 * end)


@pytest.mark.parametrize("model,who,found,wanted", [
    ("tell_int32_uint64_4", "text", "BYTES", "UINT64"), ("tell_bool_uint32_4", "5", "BYTES", "UINT32"), ("tell_bool_string_4", 5, "UINT64", "BYTES")])
def test_an_id_is_of_the_control_s_type(server, model, who, found, wanted):
    with http_client(server) as client:
        answer = told(client.infer, model, [values(1)], sequence_id=who, sequence_start=True)
    assert answer == f"400: [request id: <id_unknown>] sequence batching control 'CORRID' data-type is '{found}', but model '{model}' expects '{wanted}'"


def infer_over_grpc(client, model, who, start=False, end=False):
    given = over_grpc.InferInput("IN", [1, 1], "INT32").set_data_from_numpy(np.array([[1]], np.int32))
    return client.infer(model, [given], sequence_id=who, sequence_start=start, sequence_end=end).as_numpy("OUT").reshape(-1).tolist()


@pytest.mark.parametrize("model", ["direct", "oldest"])
def test_over_grpc(server, model):
    with over_grpc.InferenceServerClient(f"127.0.0.1:{server.grpc_port}") as client:
        with pytest.raises(InferenceServerException, match=r"INVALID_ARGUMENT.* inference request for sequence 700 to model .* must specify the START flag"):
            infer_over_grpc(client, model, 700)
        assert infer_over_grpc(client, model, 700, start=True)[:4] == [1, 1, 0, 1]
        assert infer_over_grpc(client, model, 700)[:4] == [2, 0, 0, 1]
        assert infer_over_grpc(client, model, 700, end=True)[:4] == [3, 0, 1, 1]


def closed_batches(server):
    text = server.ask("/metrics", port=server.metrics_port).text
    return sum(int(count) for count in re.findall(r"^nereid_batch_closed_total{.*} (\d+)$", text, re.M))


@pytest.mark.parametrize("strategy", ["direct { }", OLDEST % 2])
def test_cancelling_what_waits_behind_ends_the_sequence(start_server, repository, strategy):
    """The first is executed, the second and the third wait: the second is cancelled, and the third goes with it."""
    directory = make_sequences(repository, strategy=strategy, idle_us=LONG_US, max_batch_size=1)
    server = start_server(repository)
    answers = {}

    def took(number):
        return lambda result, error: answers.update({number: str(error.status()) if error else result.as_numpy("OUT").reshape(-1)[0]})

    with over_grpc.InferenceServerClient(f"127.0.0.1:{server.grpc_port}") as client:
        def ask(number, start=False):
            given = over_grpc.InferInput("IN", [1, 2], "INT32").set_data_from_numpy(np.array([[number, 0]], np.int32))
            return client.async_infer("m", [given], took(number), sequence_id=5, sequence_start=start)

        ask(1, True)
        wait_for("the execution", lambda: closed_batches(server) == 1)
        second = ask(2)
        await_pending(server, "m", 1)
        ask(3)
        await_pending(server, "m", 2)
        second.cancel()
        wait_for("the cancellations", lambda: len(answers) == 2)
        (directory / "1/go").touch()
        wait_for("the answers", lambda: len(answers) == 3)
    assert answers[1] == 1 and "CANCELLED" in answers[2] and "CANCELLED" in answers[3]
    assert steps(server, "m", (1, 5, ""), (4, 5, "start end")) == [NO_START % (5, "m"), said(4, 1, 1)]


def test_many_sequences_at_once(start_server, repository):
    """More than there are slots, over several instances, each with a client of its own: each has its sum, and nothing is left."""
    make_sequences(repository, "direct", idle_us=LONG_US, count=2)
    make_sequences(repository, "oldest", OLDEST % 3 + " ", idle_us=LONG_US, count=2)
    server = start_server(repository)

    def one(number):
        model, who = ("direct", "oldest")[number % 2], number + 1
        asked = [(n, who, ("start" if n == 0 else "") + ("end" if n == 7 else "")) for n in range(8)]
        return [out[0] for out in steps(server, model, *asked)] == [sum(range(n + 1)) for n in range(8)]

    with concurrent.futures.ThreadPoolExecutor(32) as threads:
        assert all(threads.map(one, range(96)))
    for model in ("direct", "oldest"):
        found = json.loads(server.ask(f"/v2/models/{model}/stats").body)["model_stats"][0]
        assert found["inference_count"] == 48 * 8 and found["inference_stats"]["fail"]["count"] == 0
        assert Counters.of(server)[model]["pending"] == 0


@pytest.mark.parametrize("strategy", ["direct { }", OLDEST % 16])
def test_a_storm_of_sequences(start_server, repository, strategy):
    """16 clients: sequences that end, of one request, that begin again, that are cancelled, that are abandoned. Under TSan too."""
    make_sequences(repository, strategy=strategy, idle_us=LONG_US, max_batch_size=16, count=2)
    server = start_server(repository)

    def sums(wanted, *answers):
        assert [answer[0] for answer in answers] == wanted, answers

    def cancelled(who):
        with over_grpc.InferenceServerClient(f"127.0.0.1:{server.grpc_port}") as client:
            given = over_grpc.InferInput("IN", [1, 1], "INT32").set_data_from_numpy(np.array([[1]], np.int32))
            over = []
            calls = [client.async_infer("m", [given], lambda result, error: over.append(1), sequence_id=who, sequence_start=n == 0) for n in range(4)]
            calls[who % 4].cancel()
            wait_for("the answers", lambda: len(over) == 4)

    def one(thread):
        for n in range(12):
            who = 1 + 100 * thread + n
            if n % 4 == 0:
                sums([1, 3, 6], *steps(server, "m", (1, who, "start"), (2, who, ""), (3, who, "end")))
            elif n % 4 == 1:
                sums([5], *steps(server, "m", (5, who, "start end")))
            elif n % 4 == 2:
                sums([5, 7, 8], *steps(server, "m", (5, who, "start"), (7, who, "start"), (1, who, "end")))
            else:
                cancelled(who)
                sums([9], *steps(server, "m", (9, who, "start end")))
        sums([1], *steps(server, "m", (1, 1 + 100 * thread, "start")))  # that nobody ends

    with concurrent.futures.ThreadPoolExecutor(16) as threads:
        list(threads.map(one, range(16)))
    wait_for("nothing waits", lambda: Counters.of(server)["m"]["pending"] == 0)
    sums([2] * 16, *(steps(server, "m", (1, 1 + 100 * thread, "end"))[0] for thread in range(16)))


def test_utilization_waits_for_the_slots(start_server, repository):
    """Half of four slots: one request waits, two go at once."""
    make_sequences(repository, strategy=f"direct {{ max_queue_delay_microseconds: {LONG_US} minimum_slot_utilization: 0.5 }}", idle_us=LONG_US)
    server = start_server(repository)
    with concurrent.futures.ThreadPoolExecutor(2) as threads:
        first = threads.submit(steps, server, "m", (1, 1, "start end"))
        await_pending(server, "m", 1)
        assert not first.done()
        assert steps(server, "m", (2, 2, "start end")) == [said(2, 1, 1, row=1, size=2, real=2)]
        assert first.result(PATIENCE) == [said(1, 1, 1, row=0, size=2, real=2)]


def test_a_delay_sends_what_there_is(start_server, repository):
    make_sequences(repository, strategy="direct { max_queue_delay_microseconds: 1000 minimum_slot_utilization: 1 }", idle_us=LONG_US)
    server = start_server(repository)
    assert steps(server, "m", (1, 1, "start"), (2, 1, "end")) == [said(1, 1), said(3, end=1)]


def test_the_server_ends_with_sequences_that_nobody_ends(start_server, repository):
    """Its ports are closed: nobody could go on with them."""
    make_sequences(repository, idle_us=LONG_US)
    server = start_server(repository)
    assert steps(server, "m", (1, 1, "start")) == [said(1, 1)]
    server.stop()


def test_an_unload_serves_what_waits(start_server, repository):
    make_sequences(repository, strategy=OLDEST % 1, idle_us=5_000_000, max_batch_size=1)
    server = start_server(repository, flags=["--model-control-mode=explicit", "--load-model=m"])
    assert steps(server, "m", (1, 1, "start")) == [said(1, 1)]
    with concurrent.futures.ThreadPoolExecutor(1) as threads:
        waiting = threads.submit(steps, server, "m", (2, 2, "start end"))
        await_pending(server, "m", 1)
        assert server.ask("/v2/repository/models/m/unload", b"{}").status == 200
        assert waiting.result(PATIENCE) == [said(2, 1, 1)]
    wait_for("the model's end", lambda: "successfully unloaded 'm'" in server.log)


def test_in_a_process_of_its_own(start_server, repository):
    """Null requests and controls cross over."""
    make_sequences(repository, idle_us=LONG_US, more='parameters { key: "isolate" value { string_value: "process" } }')
    server = start_server(repository)
    work = SITUATIONS["direct, places"][0]
    assert work(server, "m") == expected("direct")["places"]
