# SPDX-License-Identifier: Apache-2.0
"""HTTP/2 as attackers speak it: floods, streams that are reset or make the server reset them, headers, windows.

Scorecard rows 15 and 16. Most run on the release build: what they look at is memory and processor time.
"""
import struct

import pytest
from conftest import EVERYTHING, make_identity, wait_for
from http2 import (
    ACK, CONTINUATION, DATA, END_HEADERS, END_STREAM, GOAWAY, HEADER_TABLE_SIZE, HEADERS, INITIAL_WINDOW_SIZE,
    FRAME_SIZE_ERROR, INTERNAL, MAX_CONCURRENT_STREAMS, MAX_FRAME_SIZE, OK, PING, PRIORITY, PUSH_PROMISE, REFUSED_STREAM, RESOURCE_EXHAUSTED, SETTINGS, STREAM_INFER,
    Connection, Result, connections, data, field, frame, headers, infer_request, message, number, pending, request_block,
    reset_stream, settings, streaming_request, window_update,
)
from oracle import MIB, cpu_seconds, peak, reset_peak, rss, survives
from streaming import make_streaming

pytestmark = [pytest.mark.slow, pytest.mark.long]

COUNT = 100_000
BLOCK = request_block()
REQUEST = message(infer_request())


def streams(make, count=COUNT):
    """`make` of each stream's number."""
    return b"".join(make(2 * i + 1) for i in range(count))


def bomb(stream, size):
    """A header list of 1 GB in 250 KB: one byte names a field of 4 KB again and again."""
    entry = b"\x40" + number(1, 7) + b"x" + number(4000, 7) + b"y" * 4000 if stream == 1 else b""
    return headers(stream, BLOCK + entry, 0) + frame(CONTINUATION, END_HEADERS, stream, b"\xbe" * size)


FLOODS = {
    "settings": lambda: settings([(HEADER_TABLE_SIZE, 4096)]) * COUNT,
    "tables": lambda: b"".join(settings([(HEADER_TABLE_SIZE, i % 4096)]) for i in range(COUNT)),
    "windows of streams": lambda: b"".join(settings([(INITIAL_WINDOW_SIZE, i % 65536)]) for i in range(COUNT)),
    "settings acknowledged": lambda: frame(SETTINGS, ACK) * COUNT,
    "pings": lambda: frame(PING, payload=bytes(8)) * COUNT,
    "pings acknowledged": lambda: frame(PING, ACK, payload=bytes(8)) * COUNT,
    "priorities": lambda: streams(lambda i: frame(PRIORITY, 0, i, struct.pack(">IB", 0, 1))),
    "window updates": lambda: window_update(1) * COUNT,
    "empty data": lambda: headers(1, BLOCK) + frame(DATA, 0, 1) * COUNT,
    "padding": lambda: headers(1, BLOCK) + frame(DATA, 8, 1, b"\xff" + bytes(255)) * COUNT,
    "goaway": lambda: frame(GOAWAY, payload=bytes(8)) * COUNT,
    "continuation": lambda: headers(1, BLOCK, 0) + frame(CONTINUATION, 0, 1, field("x", "y" * 1000)) * COUNT,
    "empty continuation": lambda: headers(1, BLOCK, 0) + frame(CONTINUATION, 0, 1) * COUNT,
    "header bombs": lambda size=250_000: streams(lambda i: bomb(i, size), 300),
    "trailer bombs": lambda size=250_000: bomb(1, size) + b"".join(
        headers(i, BLOCK) + frame(HEADERS, END_STREAM, i) + frame(CONTINUATION, END_HEADERS, i, b"\xbe" * size)
        for i in range(3, 603, 2)),
    "push promises": lambda: frame(PUSH_PROMISE, END_HEADERS, 1, struct.pack(">I", 2) + BLOCK) * COUNT,
    "rapid reset": lambda: streams(lambda i: headers(i, BLOCK) + reset_stream(i)),
    "rapid reset of requests": lambda: streams(lambda i: headers(i, BLOCK) + data(i, REQUEST, END_STREAM) + reset_stream(i)),
    "made to reset: window": lambda: streams(lambda i: headers(i, BLOCK) + window_update((1 << 31) - 1, i)),
    "made to reset: no window": lambda: streams(lambda i: headers(i, BLOCK) + window_update(0, i)),
    "made to reset: priority": lambda: streams(lambda i: headers(i, BLOCK) + frame(PRIORITY, 0, i, struct.pack(">IB", i, 1))),
    "made to reset: too much": lambda: streams(
        lambda i: headers(i, BLOCK + field("content-length", "1")) + data(i, b"123456")),
    "made to reset: too little": lambda: streams(
        lambda i: headers(i, BLOCK + field("content-length", "99")) + data(i, b"123456", END_STREAM)),
    "made to reset: after the end": lambda: streams(
        lambda i: headers(i, BLOCK, END_HEADERS | END_STREAM) + data(i, b"123456")),
    "made to reset: trailers": lambda: streams(lambda i: headers(i, BLOCK) + headers(i, field("x", "y"))),
    "made to reset: field": lambda: streams(lambda i: headers(i, BLOCK + field("A", "y"))),
}


@pytest.mark.parametrize("flood", FLOODS.values(), ids=FLOODS)
def test_a_flood_ends_the_connection_and_hurts_nobody_else(target, flood):
    with survives(target), Connection(target) as connection:
        connection.ping()
        # A sanitizer's server would take the large ones more slowly than it forgives them.
        connection.send(flood(25_000) if flood in (FLOODS["header bombs"], FLOODS["trailer bombs"]) else flood())
        connection.await_close()


@pytest.mark.alone
@pytest.mark.parametrize("flood", FLOODS.values(), ids=FLOODS)
def test_a_flood_costs_little(release_target, flood):
    """Less than a second of the processor, and less memory than 1,024 streams may have."""
    attack = flood()
    with survives(release_target, grown_bytes=8 * MIB), Connection(release_target) as connection:
        connection.ping()
        reset_peak(release_target)
        memory, processor = rss(release_target), cpu_seconds(release_target)
        connection.send(attack)
        connection.await_close()
        assert cpu_seconds(release_target) - processor < 1
        assert peak(release_target) - memory < 16 * MIB


@pytest.mark.alone
def test_new_fields_in_each_call_cost_no_memory(release_target):
    """3,000 calls of 100 fields each that no table has had: HPACK's table is written 300,000 times."""
    def call(i):
        fresh = b"".join(
            b"\x40" + number(7, 7) + b"x%06d" % (i * 100 + k) + number(20, 7) + b"v" * 20 for k in range(100))
        return headers(2 * i + 1, BLOCK + fresh, END_HEADERS | END_STREAM)

    with survives(release_target, grown_bytes=8 * MIB), Connection(release_target) as connection:
        memory, processor = rss(release_target), cpu_seconds(release_target)
        reset_peak(release_target)
        for start in range(0, 3000, 500):
            connection.send(*(call(i) for i in range(start, start + 500)))
            assert connection.result(2 * (start + 499) + 1).status == INTERNAL  # there is no message
        assert cpu_seconds(release_target) - processor < 1
        assert peak(release_target) - memory < 16 * MIB


# --- headers


def fields(bytes):
    """Header fields of so many bytes, as HPACK counts them."""
    return b"".join(field(f"x-{i:03d}", "v" * (1024 - 32 - 5)) for i in range(bytes // 1024))


def test_a_header_list_of_more_than_16_kib_is_refused_and_of_more_than_64_reset(target):
    with survives(target), Connection(target) as connection:
        assert connection.ask(messages=[REQUEST], more=[("x", "v" * 12000)]).status == OK
        for size in (17, 40):
            stream = connection.new_stream()
            block = BLOCK + fields(size << 10)
            connection.send(headers(stream, block), data(stream, REQUEST, END_STREAM))
            result = connection.result(stream)
            assert result.status == RESOURCE_EXHAUSTED, result
            assert "at most 16384 are taken" in result.text, result
        stream = connection.new_stream()
        connection.send(headers(stream, BLOCK + fields(100 << 10)))
        assert connection.result(stream).reset is not None
        assert connection.ask(messages=[REQUEST]).status == OK


def test_a_header_may_come_in_8_pieces_and_not_in_more(target):
    with survives(target), Connection(target) as connection:
        for pieces, taken in ((8, True), (9, False)):
            stream = connection.new_stream()
            step = len(BLOCK) // (pieces + 1) + 1
            parts = [BLOCK[i : i + step] for i in range(0, len(BLOCK), step)]
            parts += [b""] * (pieces + 1 - len(parts))
            connection.send(headers(stream, parts[0], 0), *(
                frame(CONTINUATION, END_HEADERS if i == pieces else 0, stream, parts[i]) for i in range(1, pieces + 1)))
            if taken:
                connection.send(data(stream, REQUEST, END_STREAM))
                assert connection.result(stream).status == OK
            else:
                connection.await_close()


def test_a_frame_beyond_the_limit_ends_the_connection(target):
    with survives(target), Connection(target) as connection:
        connection.ping()
        most = connection.settings[MAX_FRAME_SIZE]
        request = message(infer_request(shape=(1, most // 4 + 1), raw=[bytes(most + 4)]))
        stream = connection.new_stream()
        connection.send(headers(stream, BLOCK), data(stream, request, END_STREAM, most=most))
        assert connection.result(stream).status == OK
        connection.send(frame(PING, payload=bytes(most + 1)))
        assert connection.await_close()[0] == FRAME_SIZE_ERROR


@pytest.mark.parametrize("method, content_type", [
    ("GET", "text/html"), ("PUT", "application/grpc"), ("POST", "application/json"), ("POST", "application/grpc-web+proto"),
])
def test_who_does_not_speak_grpc_is_told_so(target, method, content_type):
    """Even if it reads the answer byte by byte."""
    with survives(target), Connection(target, values=[(INITIAL_WINDOW_SIZE, 1)]) as connection:
        stream = connection.new_stream()
        connection.send(headers(stream, request_block("/", method=method, content_type=content_type), END_HEADERS | END_STREAM))
        result = connection.streams.setdefault(stream, Result())
        connection.read_until(lambda: len(result.body) == 1)
        connection.send(window_update(100, stream))
        assert connection.result(stream).fields[":status"] == "415"
        assert result.body.decode() == "This port serves gRPC: POST, content-type application/grpc\n"


@pytest.mark.parametrize("content_type", ["application/grpc", "application/grpc+proto", "application/grpc;charset=utf-8"])
def test_all_names_of_grpc_are_known(target, content_type):
    with Connection(target) as connection:
        stream = connection.new_stream()
        connection.send(headers(stream, request_block(content_type=content_type)), data(stream, message(infer_request()), END_STREAM))
        assert connection.result(stream).status == OK


# --- streams


def test_streams_beyond_the_limit_are_refused(target):
    """The client that knows of no limit yet has the streams refused; nothing else happens to it."""
    with survives(target), Connection(target) as connection:
        connection.ping()
        assert connection.settings[MAX_CONCURRENT_STREAMS] == 1024
        for _ in range(1024):
            connection.call(end=False)
        connection.ping()
        more = connection.call(end=False)
        connection.read_until(lambda: connection.closed or connection.streams.get(more))
        assert connection.closed or connection.streams[more].reset == REFUSED_STREAM


def test_running_calls_of_reset_streams_count(start_server, repository):
    """A client that resets its streams gets no more calls at a time than one that does not: at most 1,024 run."""
    make_identity(repository, "canary")
    make_streaming(repository, "slow")
    server = start_server(repository, flags=EVERYTHING)
    call = message(streaming_request("slow", count=1, delay_us=200_000, deaf=True))
    with survives(server, singing=False), Connection(server) as connection:
        connection.ping()
        for i in range(600):
            stream = connection.call(STREAM_INFER, [call], end=False)
            connection.send(reset_stream(stream))
        connection.read_until(lambda: True)
        assert pending(server) <= 1024
        wait_for("the end of all", lambda: pending(server) == 0)


# --- clients that do not take their replies


def test_a_client_that_opens_no_window_is_closed(start_server, targets):
    server = start_server(targets, flags=[*EVERYTHING, "--grpc-write-timeout-ms=1000"])
    with survives(server):
        with Connection(server, values=[(INITIAL_WINDOW_SIZE, 0)]) as connection:
            for _ in range(100):
                connection.call(messages=[REQUEST])
            connection.await_close()
            assert all(len(result.body) == 0 for result in connection.streams.values())
        with Connection(server, window=0) as connection:  # the 65,535 bytes of the connection that everybody has
            large = message(infer_request(shape=(1, 50_000), raw=[bytes(200_000)]))
            connection.call(messages=[large])
            connection.await_close()
            assert sum(len(result.body) for result in connection.streams.values()) == 65_535


def test_a_client_that_reads_nothing_is_closed(start_server, targets):
    server = start_server(targets, flags=[*EVERYTHING, "--grpc-write-timeout-ms=1000"])
    large = message(infer_request(shape=(1, 1 << 20), raw=[bytes(4 << 20)]))
    with survives(server), Connection(server, receive_buffer=4096) as connection:
        connection.ping()
        count = len(connections(server))
        for _ in range(4):
            stream = connection.new_stream()
            connection.send_blindly(headers(stream, BLOCK), *(data(stream, large, END_STREAM),))
        wait_for("the end of the connection", lambda: len(connections(server)) < count)


def test_a_client_that_reads_nothing_and_misbehaves_is_closed_at_once(start_server, targets):
    """What it sends on is not waited for: the loop would find the socket readable all the time."""
    server = start_server(targets, flags=[*EVERYTHING, "--grpc-write-timeout-ms=600000"])
    large = message(infer_request(shape=(1, 1 << 20), raw=[bytes(4 << 20)]))
    with survives(server), Connection(server, receive_buffer=4096) as connection:
        connection.ping()
        count = len(connections(server))
        for _ in range(4):
            stream = connection.new_stream()
            connection.send_blindly(headers(stream, BLOCK), data(stream, large, END_STREAM))

        def is_closed():  # pings count from when the socket takes no more of the replies
            connection.send_blindly(frame(PING, payload=b"question"))
            return len(connections(server)) < count

        wait_for("the end of the connection", is_closed)


def test_a_client_with_a_small_window_gets_everything(target):
    """One byte at a time, then a kilobyte."""
    with survives(target), Connection(target, values=[(INITIAL_WINDOW_SIZE, 1)]) as connection:
        stream = connection.call(messages=[message(infer_request(shape=(1, 5000), raw=[bytes(range(200)) * 100]))])
        result, expected = connection.streams.setdefault(stream, Result()), 1
        for size in [1] * 20 + [1024] * 19:
            connection.read_until(lambda: len(result.body) == expected)
            connection.send(window_update(size, stream))
            expected += size
        connection.send(window_update(4096, stream))
        assert connection.result(stream) is result
        assert result.status == OK
        assert bytes(range(200)) * 100 in result.messages[0][1]


def test_replies_that_nobody_takes_are_within_the_budget(start_release, targets):
    """1,000 calls of 60 KB each with a window of none, on 4 connections: what is too much is refused by name."""
    limit = 8 * MIB
    server = start_release(targets, flags=[*EVERYTHING, f"--grpc-max-inflight-bytes={limit}", "--grpc-write-timeout-ms=3000"])
    request = message(infer_request(shape=(1, 15_000), raw=[bytes(60_000)]))
    with survives(server, grown_bytes=16 * MIB, singing=False):
        memory = rss(server)
        reset_peak(server)
        held = [Connection(server, values=[(INITIAL_WINDOW_SIZE, 0)]) for _ in range(4)]
        for connection in held:
            for _ in range(1000):
                connection.call(messages=[request])
        refused = sum(result.status == RESOURCE_EXHAUSTED for c in held for result in c.streams.values())
        assert refused > 3000
        assert peak(server) - memory < 2 * limit + 4000 * 10_000  # calls themselves
        held[0].await_close()
        for connection in held:
            connection.socket.close()
        with Connection(server) as connection:
            assert connection.ask(messages=[request]).status == OK
