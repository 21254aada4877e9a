# SPDX-License-Identifier: Apache-2.0
"""What clients that do not read, or do not go on, make the server keep (docs/reliability.md, "Queues that a slow client fills")."""
import contextlib
import re
import struct

import pytest
from conftest import EVERYTHING, make_identity, wait_for
from http2 import (
    END_HEADERS, INFER, INITIAL_WINDOW_SIZE, OK, REFUSED_STREAM, RESOURCE_EXHAUSTED, SERVICE, STREAM_INFER, Connection, headers, infer_request,
    message, request_block, streaming_request, window_update,
)
from oracle import peak, reset_peak, rss
from python_models import make_python
from streaming import make_streaming
from test_lifecycle import make_held
from tritonclient.grpc import service_pb2

MIB = 1 << 20
FREE = 64 << 10  # of each connection, whatever others have
LIMIT = 8 * MIB
ANSWERS = 900  # of one request: 4 bytes each, and some 4 KiB of the server's memory
INDEX = service_pb2.RepositoryIndexRequest().SerializeToString()


@pytest.fixture
def server(start_release, repository):
    make_identity(repository, "t_fp32")
    make_python(repository, "many", """
        def execute(self, requests):
            for request in requests:
                sender = request.get_response_sender()
                for i in range(value(request)[0]):
                    sender.send(answer(np.array([i], np.int32)))
                sender.send(flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)
        """, kind="TYPE_INT32", max_batch_size=0, more="model_transaction_policy { decoupled: true }")
    return start_release(repository, flags=[*EVERYTHING, f"--grpc-max-inflight-bytes={LIMIT}", "--grpc-write-timeout-ms=0", "--grpc-http2-max-ping-strikes=0"])


@contextlib.contextmanager
def many(server, count, **more):
    with contextlib.ExitStack() as stack:
        yield [stack.enter_context(Connection(server, **more)) for _ in range(count)]


def test_small_answers_that_nobody_reads_count_by_what_they_take(server):
    """Of a window of none; the sum of their bytes is nothing."""
    clients = 100
    request = message(infer_request("many", (1,), [struct.pack("<i", ANSWERS)], "INT32", "IN"))
    with Connection(server) as other:
        assert other.ask(messages=[message(infer_request())]).status == OK
        memory = rss(server)
        reset_peak(server)
        with many(server, clients, values=[(INITIAL_WINDOW_SIZE, 0)]) as held:
            streams = [each.call(STREAM_INFER, [request]) for each in held]
            wait_for("the cuts", lambda: server.log.count("is cut: the server holds as many bytes of answers as it may") >= clients - 10)
            assert peak(server) - memory < 2 * LIMIT + clients * FREE + 16 * MIB
            assert other.ask(messages=[message(infer_request())]).status == OK  # who holds little is served
            for each, stream in zip(held, streams):
                each.send(window_update(1 << 30, stream))
            ends = [each.result(stream) for each, stream in zip(held, streams)]
            told = [end for end in ends if end.status == RESOURCE_EXHAUSTED and "as many bytes of answers" in end.text]
            assert len(told) >= clients - 10 and all(end in told or end.status == OK for end in ends)
    lines = re.findall(r"\[request id: <id_unknown>, model 'many'\] the stream of 127\.0\.0\.1:\d+ is cut", server.log)
    assert len(lines) >= clients - 10


def test_answers_that_come_faster_than_they_are_taken_count(start_release, repository):
    """Of a model that answers in a loop and does not look whether it is cancelled; its client reads nothing."""
    make_streaming(repository)
    server = start_release(repository, flags=[f"--grpc-max-inflight-bytes={LIMIT}", "--grpc-write-timeout-ms=0"])
    request = message(streaming_request("streaming", count=500_000, deaf=True))
    with Connection(server, values=[(INITIAL_WINDOW_SIZE, 0)]) as other:
        memory = rss(server)
        reset_peak(server)
        stream = other.call(STREAM_INFER, [request])
        wait_for("the model's last answer", lambda: "streaming: sent 500000 of 500000" in server.log)
        assert peak(server) - memory < 2 * LIMIT + FREE + 16 * MIB
        other.send(window_update(1 << 30, stream))
        assert other.result(stream).status == RESOURCE_EXHAUSTED


@pytest.mark.slow
def test_long_answers_to_control_calls_that_nobody_reads_count(start_release, repository):
    """An index of 120 KB, asked for 800 times."""
    for i in range(800):
        make_identity(repository, f"{i:04}" + "x" * 150)
    server = start_release(repository, flags=["--model-control-mode=explicit", f"--grpc-max-inflight-bytes={LIMIT}", "--grpc-write-timeout-ms=0", "--grpc-http2-max-ping-strikes=0"])
    with Connection(server) as other:
        assert other.ask(SERVICE + "RepositoryIndex", [message(INDEX)]).status == OK
        memory = rss(server)
        reset_peak(server)
        with many(server, 4, values=[(INITIAL_WINDOW_SIZE, 0)]) as held:
            calls = [(each, each.call(SERVICE + "RepositoryIndex", [message(INDEX)])) for each in held for _ in range(200)]
            for each in held:
                each.ping()

            def refused():
                for each in held:
                    each.ping()
                return sum(result.status == RESOURCE_EXHAUSTED for each in held for result in each.streams.values()) > len(calls) // 2

            wait_for("the refusals", refused)
            assert peak(server) - memory < 2 * LIMIT + 32 * MIB
            assert len(re.findall(r"calls such as one of 127\.0\.0\.1:\d+ get no answer: the server holds as many bytes of answers", server.log)) == 1


def test_calls_that_do_not_go_on_count_by_what_they_take(server):
    """Each has its header, of 8 KiB, and nothing more: beyond the budget further ones are refused, and others are served."""
    clients, calls = 20, 1000
    block = request_block(INFER, ("x-more", "x" * 8000))
    memory = rss(server)
    with many(server, clients) as held, Connection(server) as other:
        for each in held:
            for _ in range(calls):
                each.send(headers(each.new_stream(), block, END_HEADERS))
            each.ping()
        ends = [result for each in held for result in each.streams.values()]
        assert len(ends) > clients * calls // 2 and all(result.reset == REFUSED_STREAM for result in ends)
        assert rss(server) - memory < 2 * LIMIT + clients * FREE + 16 * MIB
        assert other.ask(messages=[message(infer_request())]).status == OK


def test_what_is_sent_while_a_stream_waits_counts(start_release, repository):
    """For its model, which is loaded on demand: the window's bytes are held meanwhile."""
    hold = make_held(repository, "slow")
    server = start_release(repository, flags=["--model-control-mode=ondemand", f"--grpc-max-inflight-bytes={LIMIT}"])
    request = message(infer_request("slow"))
    with many(server, 4) as held:
        for each in held:
            for _ in range(8):
                stream = each.call(STREAM_INFER, [request], end=False)
                each.upload(stream, request * (512 * 1024 // len(request)))
            each.ping()
        ends = [result for each in held for result in each.streams.values()]
        hold.unlink()
        assert {result.status for result in ends} == {RESOURCE_EXHAUSTED}, ends
        assert len(ends) >= 32 - LIMIT // (512 * 1024) - len(held)
