# SPDX-License-Identifier: Apache-2.0
"""Calls that are cancelled, time out or lose their connection at any moment (scorecard row 18; CVE 2025-23322, 2026-24266).

NEREID_GRPC_STORM says how many calls (100,000 for the scorecard).
"""
import os
import random
import shutil

import pytest
from conftest import EVERYTHING, PATIENCE, ROOT, Starter, make_identity, wait_for
from http2 import (
    CANCELLED, DEADLINE_EXCEEDED, END_STREAM, INFER, INITIAL_WINDOW_SIZE, NOT_FOUND, OK, SERVICE, STREAM_INFER, UNAVAILABLE,
    Connection, infer_request, message, pending, reset_stream, streaming_request, window_update,
)
from oracle import survives
from safety import on_threads
from streaming import make_streaming
from tritonclient.grpc import service_pb2

pytestmark = pytest.mark.slow

CALLS = int(os.environ.get("NEREID_GRPC_STORM", 10_000))
THREADS = 4
RESETS = 800  # of a connection: then a new one takes over, since 1,000 at once are too many


def repeat_request():
    request = service_pb2.ModelInferRequest(model_name="repeat")
    request.inputs.add(name="INPUT0", datatype="INT32", shape=(3,))
    request.raw_input_contents.append(bytes(12))
    return request.SerializeToString()


UNARY, STREAMED, FAILING = infer_request("t_fp32"), [infer_request("t_fp32")] * 5, [("triton_grpc_error", "true")]
KINDS = {  # path, messages, metadata
    "unary": lambda r: (INFER, [UNARY], []),
    "unary, slow": lambda r: (INFER, [streaming_request("slow", delay_us=r.randrange(3000))], []),
    "unary, released early": lambda r: (INFER, [streaming_request("slow", delay_us=r.randrange(500), early=True)], []),
    "unary, fails": lambda r: (INFER, [streaming_request("slow", fail_at=0)], []),
    "stream": lambda r: (STREAM_INFER, STREAMED, []),
    "stream, slow": lambda r: (STREAM_INFER, [streaming_request("slow", delay_us=r.randrange(2000)) for _ in range(3)], []),
    "stream, released early": lambda r: (STREAM_INFER, [streaming_request("slow", early=True) for _ in range(4)], []),
    "decoupled": lambda r: (STREAM_INFER, [decoupled(r) for _ in range(3)], []),
    "decoupled, early": lambda r: (STREAM_INFER, [decoupled(r, early=True) for _ in range(2)], []),
    "half of them fail": lambda r: (STREAM_INFER, [decoupled(r, fail_at=r.choice([0, 1, -1, -1])) for _ in range(4)], FAILING),
    "unknown model": lambda r: (STREAM_INFER, [infer_request("x")] * 2, r.choice([FAILING, []])),
    "job": lambda r: (SERVICE + "ModelReady", [service_pb2.ModelReadyRequest(name="t_fp32").SerializeToString()], []),
    "python": lambda r: (STREAM_INFER, [repeat_request()] * 2, r.choice([FAILING, []])),
}
STATUSES = {OK, CANCELLED, DEADLINE_EXCEEDED, NOT_FOUND, UNAVAILABLE}


def decoupled(r, **more):
    final = r.choice(["flag", "with"])
    return streaming_request("decoupled", count=r.randrange(1, 4), delay_us=r.randrange(500), final=final, **more)


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    directory = tmp_path_factory.mktemp("storm")
    make_identity(directory, "canary")
    make_identity(directory, "t_fp32")
    make_streaming(directory, "slow", decoupled=False, more="instance_group { count: 4 kind: KIND_CPU }")
    make_streaming(directory, "decoupled", more="instance_group { count: 4 kind: KIND_CPU }")
    shutil.copytree(ROOT / "tests/python_models/repeat", directory / "repeat")
    return directory


@pytest.fixture(scope="module")
def stormy(nereid, backends, models, tmp_path_factory):
    starter = Starter(nereid, backends, tmp_path_factory.mktemp("stormy"))
    yield starter(models, flags=EVERYTHING)
    starter.stop_all()


def storm(server, seed, count):
    """Calls of all kinds; of each the client waits for the end, resets it, lets it time out, or goes away."""
    r = random.Random(seed)
    connection, waited, resets = Connection(server), [], 0
    for _ in range(count):
        path, payloads, metadata = r.choice(list(KINDS.values()))(r)
        fate = r.choice(["wait", "reset", "reset in the middle", "time out", "half", "leave"])
        if fate == "time out":
            metadata = [*metadata, ("grpc-timeout", f"{r.randrange(1, 3000)}u")]
        messages = [message(payload) for payload in payloads]
        if fate == "half":
            messages[-1] = messages[-1][: r.randrange(len(messages[-1]))]
        stream = connection.call(path, messages, metadata, end=fate != "half")
        if fate in ("wait", "time out"):
            waited.append(stream)
        elif fate == "leave" and r.randrange(20) == 0:
            connection.socket.close()
            connection, waited, resets = Connection(server), [], 0
        else:
            if fate == "reset in the middle":
                connection.socket_has_input(r.random() * 0.002)
            connection.send(reset_stream(stream))
            resets += 1
        if len(waited) >= 50 or resets >= RESETS:
            check(connection, waited)
            waited = []
        if resets >= RESETS:
            connection.socket.close()
            connection, resets = Connection(server), 0
    check(connection, waited)
    connection.socket.close()


def check(connection, streams):
    for stream in streams:
        result = connection.result(stream)
        assert result.reset in (None, 0), result
        assert result.status in STATUSES, result
        del connection.streams[stream]


def test_a_storm_of_calls_leaves_nothing_behind(stormy):
    with survives(stormy):
        on_threads(THREADS, lambda i: storm(stormy, i, CALLS // THREADS), deadline=2 * PATIENCE)
        wait_for("nothing in flight", lambda: pending(stormy) == 0)


def test_a_stream_ends_with_the_first_error_for_who_asks_so(stormy):
    """And goes on for all others."""
    failing = message(streaming_request("slow", fail_at=0))
    good = message(infer_request("t_fp32"))
    with survives(stormy, singing=False), Connection(stormy) as connection:
        result = connection.ask(STREAM_INFER, [good, failing, good, good], FAILING)
        assert result.status not in (OK, None), result
        assert len(result.messages) <= 1
        result = connection.ask(STREAM_INFER, [good, failing, good])
        replies = [service_pb2.ModelStreamInferResponse.FromString(body) for _, body in result.messages]
        assert result.status == OK
        assert [bool(reply.error_message) for reply in replies] == [False, True, False]


def test_a_deadline_ends_a_call_on_time_whatever_the_model_does(stormy):
    deaf = message(streaming_request("decoupled", count=1, delay_us=3_000_000, deaf=True))
    with survives(stormy, singing=False), Connection(stormy) as connection:
        for path in (STREAM_INFER,):
            result = connection.ask(path, [deaf], [("grpc-timeout", "20m")])
            assert (result.status, result.text) == (DEADLINE_EXCEEDED, "Deadline Exceeded")
        stream = connection.call(INFER, [], [("grpc-timeout", "20m")], end=False)  # the message never comes
        assert connection.result(stream).status == DEADLINE_EXCEEDED
        for timeout in ("0n", "1n"):
            assert connection.ask(INFER, [message(UNARY)], [("grpc-timeout", timeout)]).status in (OK, DEADLINE_EXCEEDED)
        for timeout in ("99999999H", "x", "1", "m", "123456789m", "-1m"):
            assert connection.ask(INFER, [message(UNARY)], [("grpc-timeout", timeout)]).status == OK
        wait_for("nothing in flight", lambda: pending(stormy) == 0)


def test_one_stream_may_have_more_requests_than_are_taken_at_once(stormy):
    """10,000 on one stream: the rest waits, and all are answered in order."""
    requests = b"".join(message(infer_request("t_fp32", id=str(i))) for i in range(10_000))
    with survives(stormy, singing=False), Connection(stormy) as connection:
        stream = connection.call(STREAM_INFER, end=False)
        connection.upload(stream, requests, END_STREAM)
        result = connection.result(stream)
        assert result.status == OK
        ids = [service_pb2.ModelStreamInferResponse.FromString(body).infer_response.id for _, body in result.messages]
        assert ids == [str(i) for i in range(10_000)]


def test_a_decoupled_model_is_cancelled_when_nobody_reads(stormy):
    """It would give 200 MB to a client that opens no window: cut at 64 MiB, and the client is told so once it reads."""
    cancelled = stormy.log.count("cancelled 1")
    with survives(stormy, singing=False), Connection(stormy, values=[(INITIAL_WINDOW_SIZE, 0)]) as connection:
        stream = connection.call(STREAM_INFER, [message(streaming_request("decoupled", count=200, bytes=1_000_000))])
        wait_for("the cancellation", lambda: stormy.log.count("cancelled 1") > cancelled)
        connection.send(window_update(1 << 30, stream))
        result = connection.result(stream)
        assert result.status == 8 and "unread" in result.text, result
