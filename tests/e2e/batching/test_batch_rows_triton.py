# SPDX-License-Identifier: Apache-2.0
"""Requests whose batch has no rows: refused before the queue, on both sides, while everybody else in the same batches is served."""
import json
import re
import threading

import numpy
import pytest
from client_memory import BASE, inference, place, region, register
from conftest import PATIENCE, make_identity, wait_for
from grpc_bad_requests import request, typed
from grpc_sides import NEREID, TRITON, client_of, tensor
from oracle import Counters
from test_http_triton import answer, infer, servers, side  # noqa: F401 - fixtures

ASKED = 60  # requests of each client
PATH = "/v2/models/batched/infer"
MISMATCH = "[request id: <id_unknown>] input byte size mismatch for input 'INPUT0' for model 'batched'. Expected 8, got 0"


def make(directory):
    make_identity(directory, "batched", "TYPE_INT32", more="dynamic_batching { max_queue_delay_microseconds: 2000 }")
    make_identity(directory, "canary")
    return directory


def rows(count, columns=2):
    return infer("batched", range(count * columns), (count, columns))


def clients(work, count):
    """Runs `work` on so many threads at once; the first exception is raised here."""
    failures = []

    def run(number):
        try:
            work(number)
        except BaseException as failure:  # noqa: B902 - raised below
            failures.append(failure)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]


def statistics(server):
    return json.loads(server.ask("/v2/models/batched/stats").body)["model_stats"][0]


def refused_requests(server):
    text = server.ask("/metrics", port=server.metrics_port).text
    return sum(int(count) for count in re.findall(r'^nereid_inference_refused_total{[^}]*model="batched"[^}]*} (\d+)$', text, re.M))


def of_batches(found):
    return sum(batch["batch_size"] * batch["compute_infer"]["count"] for batch in found["batch_stats"])


def successes_after(server, expected):
    """Statistics once they have so many successes: a request is counted when its response is on its way."""
    def counted():
        found = statistics(server)
        return found["inference_stats"]["success"]["count"] >= expected and of_batches(found) == found["inference_count"] and found

    return wait_for("all successes", counted)


def test_innocent_requests_beside_those_without_rows_never_fail(servers, side):
    server = servers[side]
    before, counters, refused, refusals = statistics(server), Counters.of(server), refused_requests(server), []

    def work(number):
        if number == 0:  # the client without rows
            for _ in range(3 * ASKED):
                status, _, body = answer(server, *infer("batched", (), (0, 2)))
                assert status == 400 and body["error"].startswith(MISMATCH)
                refusals.append(body)
        elif number == 1:
            with client_of(server) as client:
                for value in range(ASKED):
                    data = numpy.array([[value, -value]], numpy.int32)
                    assert (client.infer("batched", [tensor(data)]).as_numpy("OUTPUT0") == data).all()
        else:
            for _ in range(ASKED):
                status, _, body = answer(server, *rows(number - 1))
                assert status == 200, body
                assert body["outputs"][0]["data"] == list(range(2 * (number - 1)))
                assert body["outputs"][0]["shape"] == [number - 1, 2]

    clients(work, 6)
    asked, inferred = 5 * ASKED, (1 + 1 + 2 + 3 + 4) * ASKED
    after = successes_after(server, before["inference_stats"]["success"]["count"] + asked)
    wait_for("the same in metrics", lambda: Counters.of(server).since(counters, "batched")["success"] >= asked)
    gained = Counters.of(server).since(counters, "batched")
    assert after["inference_count"] - before["inference_count"] == inferred
    assert gained["success"] == asked and gained["pending"] == 0
    # What never got into the queue is no failed request; nereid has a counter of its own for it.
    assert after["inference_stats"]["fail"]["count"] == before["inference_stats"]["fail"]["count"] and gained["failed"] == 0
    assert side is TRITON or refused_requests(server) - refused == len(refusals) == 3 * ASKED
    assert of_batches(after) == after["inference_count"]


def refusal(server, message):
    with client_of(server) as client, pytest.raises(Exception) as caught:
        client._client_stub.ModelInfer(message, timeout=PATIENCE)
    return caught.value.code().name, caught.value.details()


def test_no_way_leads_past_it(servers, side):
    server = servers[side]
    for message in (request("batched", shape=(0, 2), raw=b""), typed("int_contents", [], model="batched", shape=(0, 2))):
        code, text = refusal(server, message)
        assert code == "INVALID_ARGUMENT" and text.startswith(MISMATCH)
    head = json.dumps({"inputs": [{"name": "INPUT0", "datatype": "INT32", "shape": [0, 2], "parameters": {"binary_data_size": 0}}]}).encode()
    status, _, body = answer(server, PATH, head, {"Inference-Header-Content-Length": str(len(head))})
    assert status == 400 and body["error"].startswith(MISMATCH)


def test_nothing_of_shared_memory_is_no_row(servers):
    server = servers[NEREID]
    with region() as made:
        assert register(server, "rows", made.key, made.size).status == 200
        for size, words in ((0, "Expected 8, got 0"), (8, "inference request batch-size must be >= 1 for 'batched', got 0")):
            reply = server.ask(PATH, inference("INT32", [0, 2], place("rows", size)))
            assert reply.status == 400 and words in reply.text
        assert server.ask(PATH, inference("INT32", [1, 2], place("rows", 8))).status == 200
        assert server.ask(f"{BASE}/region/rows/unregister", b"").status == 200


def test_what_triton_hands_on_without_its_first_dimension_is_refused(servers):
    """[0, 0], and bytes for [0, 2]: Triton 2.51 executes them with the shapes [0] and [2], in the batches of others."""
    for message in (request("batched", shape=(0, 0), raw=b""), request("batched", shape=(0, 2))):
        assert refusal(servers[NEREID], message) == (
            "INVALID_ARGUMENT", "[request id: <id_unknown>] inference request batch-size must be >= 1 for 'batched', got 0 for input 'INPUT0'")
