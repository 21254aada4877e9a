# SPDX-License-Identifier: Apache-2.0
"""What may happen to sequences: each situation is a function of a server that gives what its clients were told."""
import concurrent.futures
import json
import time

import numpy as np
import tritonclient.grpc as over_grpc
from conftest import PATIENCE, wait_for
from oracle import Counters
from python_models import make_python, tensor
from sequence_models import controls, http_client, make_sequences, step, values
from tritonclient.utils import InferenceServerException

SHORT_US, LONG_US = 200_000, 600_000_000
OLDEST = "oldest { max_candidate_sequences: %d }"
STRATEGIES = {"direct": "direct { }", "oldest": OLDEST % 4}

# Says what it is given of a sequence, by name: controls of all types.
TELL = """
def execute(self, requests):
    told = []
    for request in requests:
        given = {t.name(): [str(t.as_numpy().dtype), list(t.as_numpy().shape), str(t.as_numpy().tolist())] for t in request.inputs()}
        more = [request.correlation_id(), request.flags()]
        told.append(answer(np.array([json.dumps([given, more], sort_keys=True)], np.object_)))
    return told
"""
TELL_CONFIG = """
backend: "python"
max_batch_size: %d
input { name: "IN" data_type: TYPE_INT32 dims: [ -1 ] }
output { name: "OUT" data_type: TYPE_STRING dims: [ 1 ] }
sequence_batching { max_sequence_idle_microseconds: %d %s }
"""


# What control tensors there are: how booleans are said, and the type of the id.
TOLD = [("int32", "uint64"), ("fp32", "int64"), ("bool", "uint32"), ("int32", "int32"), ("bool", "string")]


def make_models(repository):
    for name, strategy in STRATEGIES.items():
        one = strategy.replace("4", "1")
        make_sequences(repository, name, strategy, LONG_US)
        make_sequences(repository, f"{name}_flat", one, LONG_US, max_batch_size=0)
        make_sequences(repository, f"{name}_brief", one, SHORT_US, max_batch_size=1)
        make_sequences(repository, f"{name}_narrow", one, LONG_US, max_batch_size=1)
        make_sequences(repository, f"{name}_two", one, LONG_US, max_batch_size=1, count=2)
    make_sequences(repository, "unsaid", "", LONG_US)
    for boolean, kind in TOLD:
        for batch in (0, 4):
            text = TELL_CONFIG % (batch, LONG_US, controls(boolean, f"TYPE_{kind.upper()}"))
            make_python(repository, f"tell_{boolean}_{kind}_{batch}", TELL, config=text)
    return repository


def told(work, *arguments, **more):
    """What a call gives, or the error that it raises."""
    try:
        return work(*arguments, **more)
    except InferenceServerException as error:
        return f"{error.status()}: {error.message()}"


def steps(server, model, *wanted, batch=True):
    """Requests one after the other: (number, id, "start end")."""
    with http_client(server) as client:
        return [told(step, client, number, who, "start" in flags, "end" in flags, model, batch) for number, who, flags in wanted]


def tell(server, model, who, flags, batch):
    with http_client(server) as client:
        answer = told(client.infer, model, [values(7, batch=batch)], sequence_id=who, sequence_start="start" in flags, sequence_end="end" in flags)
        return answer if isinstance(answer, str) else json.loads(answer.as_numpy("OUT").reshape(-1)[0])


def await_pending(server, model, count):
    wait_for("what waits", lambda: Counters.of(server).get(model, {}).get("pending") == count)


def after(server, model, blocked, release):
    """Requests that wait, each on a connection of its own, and what lets them go."""
    with concurrent.futures.ThreadPoolExecutor(len(blocked)) as threads:
        asked = []
        for one in blocked:
            asked.append(threads.submit(steps, server, model, one))
            await_pending(server, model, len(asked))
        early = [request.done() for request in asked]
        let_go = steps(server, model, *release)
        return early, let_go, [request.result(PATIENCE)[0] for request in asked]


def ordinary(server, model):
    return steps(server, model, (5, 1, "start"), (6, 1, ""), (1, 2, "start"), (7, 1, "end"), (2, 2, "end"))


def without_batches(server, model):
    return steps(server, model, (5, 1, "start"), (6, 1, ""), (7, 1, "end"), (2, 2, "start end"), batch=False)


def single(server, model):
    return steps(server, model, (5, 1, "start end"), (5, 1, ""), (6, 1, "start end"))


def wrong(server, model):
    return steps(server, model, (5, 0, "start"), (5, "", "start"), (5, 77, ""), (5, 77, "end"), (1, 3, "start end"), (1, 3, ""))


def too_many_rows(server, model):
    with http_client(server) as client:
        data = np.array([[1], [2]], np.int32)
        asked = dict(sequence_start=True, sequence_end=True)
        return [told(client.infer, model, [tensor(data)], sequence_id=who, **asked) for who in (1, 0)]


def restarted(server, model):
    return steps(server, model, (5, 1, "start"), (6, 1, ""), (1, 1, "start"), (1, 1, ""), (2, 1, "end"), (9, 1, ""))


def shared(server, model):
    """Two clients with one id: their requests mix, a start takes the sequence over, an end is both's."""
    begun = steps(server, model, (5, 1, "start"))
    second = steps(server, model, (6, 1, ""), (10, 1, "start"))
    first = steps(server, model, (1, 1, ""))
    return begun, second, first, steps(server, model, (2, 1, "end")), steps(server, model, (9, 1, ""), (9, 1, "end"))


def rows(server, model):
    """Sequences in three rows; the one in the last asks alone, then a new one comes into a row that became free."""
    begun = steps(server, model, (1, 11, "start"), (2, 12, "start"), (3, 13, "start"))
    alone = steps(server, model, (10, 13, ""), (10, 12, ""), (10, 11, ""))
    more = steps(server, model, (5, 11, "end"), (7, 14, "start"), (10, 13, ""))
    return begun, alone, more, steps(server, model, (0, 12, "end"), (0, 13, "end"), (0, 14, "end"))


def counts(server, model):
    found = json.loads(server.ask(f"/v2/models/{model}/stats").body)["model_stats"][0]
    of_kind = {f"{name} count": found["inference_stats"][name]["count"] for name in ("success", "fail", "queue", "compute_infer")}
    batches = {f"batches of {b['batch_size']}": b["compute_infer"]["count"] for b in found["batch_stats"]}
    return dict(inferences=found["inference_count"], executions=found["execution_count"], **of_kind, **batches)


def statistics(server, model):
    before = counts(server, model)
    rows(server, model)
    wait_for("what is counted last", lambda: counts(server, model)["success count"] == before["success count"] + 12)
    return {name: count - before.get(name, 0) for name, count in counts(server, model).items()}


def instances(server, model):
    """Two slots, one of each instance: the third waits for one of them."""
    begun = steps(server, model, (1, 25, "start"), (2, 26, "start"))
    waited = after(server, model, [(3, 27, "start end")], [(4, 25, ""), (5, 26, "end")])
    return begun, waited, steps(server, model, (6, 25, "end"))


def idle(server, model):
    begun = steps(server, model, (1, 21, "start"))

    def is_over():
        time.sleep(4 * SHORT_US / 1e6)
        answer, = steps(server, model, (1, 21, ""))
        return isinstance(answer, str) and answer

    return begun, wait_for("the sequence's end", is_over), steps(server, model, (2, 21, "start end"))


def backlog(server, model):
    """One slot: the second and the third wait for the first to end, in their order."""
    begun = steps(server, model, (1, 31, "start"))
    waited = after(server, model, [(2, 32, "start end"), (3, 33, "start end")], [(5, 31, ""), (6, 31, "end")])
    return begun, waited


def backlog_grows(server, model):
    """A sequence in the backlog has several requests, and one after its end begins anew."""
    begun = steps(server, model, (1, 41, "start"))
    waited = after(server, model, [(2, 42, "start"), (3, 42, ""), (4, 42, "end"), (5, 42, "start end")], [(6, 41, "end")])
    return begun, waited


def backlog_idle(server, model):
    """Nobody ends the first: the others move up when it was idle for too long."""
    begun = steps(server, model, (1, 51, "start"))
    with concurrent.futures.ThreadPoolExecutor(1) as threads:
        waiting = threads.submit(steps, server, model, (2, 52, "start end"))
        return begun, waiting.result(PATIENCE), steps(server, model, (3, 51, ""))


def timeout(server, model):
    begun = steps(server, model, (1, 61, "start"))
    with http_client(server, 2) as client:
        late = told(step, client, 2, 62, True, False, model, timeout=100_000)
        then = told(step, client, 2, 62, False, False, model)
    return begun, late, then, steps(server, model, (1, 61, "end"), (5, 62, "start end"))


def streamed(server, model):
    """Many requests at once on one stream: each sequence answers in its order."""
    answers = {}

    def take(result, error):
        name = result.get_response().id if error is None else str(error)
        answers.setdefault(name, []).append(result.as_numpy("OUT").reshape(-1)[:4].tolist() if error is None else str(error))

    with over_grpc.InferenceServerClient(f"127.0.0.1:{server.grpc_port}") as client:
        client.start_stream(take)
        for n in range(10):
            for who in (71, 72, 73):
                given = over_grpc.InferInput("IN", [1, 1], "INT32").set_data_from_numpy(np.array([[n + who]], np.int32))
                client.async_stream_infer(model, [given], request_id=str(who), sequence_id=who, sequence_start=n == 0, sequence_end=n == 9)
        wait_for("all answers", lambda: sum(map(len, answers.values())) >= 30)
        client.stop_stream()
    return answers


def cancelled_in_backlog(server, model):
    """The sequence ends with it."""
    is_nereid = json.loads(server.ask("/v2").body)["name"] == "nereid"
    begun = steps(server, model, (1, 81, "start"))
    with over_grpc.InferenceServerClient(f"127.0.0.1:{server.grpc_port}") as client:
        given = over_grpc.InferInput("IN", [1, 1], "INT32").set_data_from_numpy(np.array([[1]], np.int32))
        asked = client.async_infer(model, [given], lambda result, error: None, sequence_id=82, sequence_start=True)
        await_pending(server, model, 1)
        asked.cancel()
        if is_nereid:
            await_pending(server, model, 0)
        else:
            time.sleep(3)  # it is to be seen nowhere
    ended = steps(server, model, (2, 81, "end"))
    if not is_nereid:
        await_pending(server, model, 0)
    return begun, ended, steps(server, model, (3, 82, ""), (4, 82, "start end"))


def reloaded(server, model):
    begun = steps(server, model, (1, 91, "start"), batch=False)
    assert server.ask(f"/v2/repository/models/{model}/unload", b"{}").status == 200
    wait_for("the end of the model", lambda: server.ask(f"/v2/models/{model}/ready").status != 200)
    gone = steps(server, model, (2, 91, ""), batch=False)
    assert server.ask(f"/v2/repository/models/{model}/load", b"{}").status == 200
    return begun, [text[:60] if isinstance(text, str) else text for text in gone], steps(server, model, (2, 91, ""), (2, 91, "start end"), batch=False)


SITUATIONS = {"unsaid, ordinary": (ordinary, "unsaid"), "unsaid, places": (rows, "unsaid")}
for _name in STRATEGIES:
    SITUATIONS |= {
        f"{_name}, ordinary": (ordinary, _name),
        f"{_name}, without batches": (without_batches, f"{_name}_flat"),
        f"{_name}, one request": (single, _name),
        f"{_name}, wrong": (wrong, _name),
        f"{_name}, rows": (too_many_rows, _name),
        f"{_name}, a second start": (restarted, _name),
        f"{_name}, one id of two clients": (shared, _name),
        f"{_name}, places": (rows, _name),
        f"{_name}, counted": (statistics, _name),
        f"{_name}, two instances": (instances, f"{_name}_two"),
        f"{_name}, loaded again": (reloaded, f"{_name}_flat"),
        f"{_name}, idle": (idle, f"{_name}_brief"),
        f"{_name}, a backlog and nobody": (backlog_idle, f"{_name}_brief"),
        f"{_name}, backlog": (backlog, f"{_name}_narrow"),
        f"{_name}, a backlog that grows": (backlog_grows, f"{_name}_narrow"),
        f"{_name}, timeout": (timeout, f"{_name}_narrow"),
        f"{_name}, a stream": (streamed, _name),
        f"{_name}, cancelled in the backlog": (cancelled_in_backlog, f"{_name}_narrow"),
    }
# Triton 2.51 hands texts over with what lies behind them, and takes numbers for texts and texts for numbers; later ones do not.
for _boolean, _kind in TOLD[:-1]:
    for _batch in (0, 4):
        for _flags in ("start", "", "end", "start end"):
            SITUATIONS[f"controls, {_boolean} {_kind} {_batch} {_flags}"] = (
                lambda server, model, who=2**64 - 2 if "64" in _kind else 2**32 + 5, flags=_flags, batch=_batch: tell(server, model, who, flags, batch > 0),
                f"tell_{_boolean}_{_kind}_{_batch}")
