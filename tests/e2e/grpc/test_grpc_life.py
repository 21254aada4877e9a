# SPDX-License-Identifier: Apache-2.0
"""gRPC connections from their beginning to their end: limits, signs of life, age, and a server that stops.

Scorecard rows 11, 12 and 50 over gRPC.
"""
import concurrent.futures
import os
import signal
import socket
import threading
import time

import grpc
import numpy as np
import pytest
import tritonclient.grpc as triton
from conftest import EVERYTHING, PATIENCE, make_identity, wait_for
from http2 import (
    ACK, END_STREAM, ENHANCE_YOUR_CALM, OK, PING, PREFACE, STREAM_INFER, UNAVAILABLE, Connection, connections, data, frame,
    headers, infer_request, message, pending, request_block, settings, streaming_request,
)
from oracle import MIB, cpu_seconds, rss, survives
from ports import free_port, is_refused
from streaming import make_streaming
from tritonclient.grpc import service_pb2

REQUEST = message(infer_request())
DATA = np.arange(4, dtype=np.float32).reshape(1, 4)


def infer(client, array=DATA, **options):
    tensor = triton.InferInput("INPUT0", array.shape, "FP32")
    tensor.set_data_from_numpy(array)
    return client.infer("t_fp32", [tensor], **options).as_numpy("OUTPUT0")


def address(server):
    return f"127.0.0.1:{server.grpc_port}"


# --- honest clients


@pytest.mark.parametrize("coding", ["gzip", "deflate"])
@pytest.mark.parametrize("level", ["none", "low", "medium", "high"])
def test_messages_are_packed_where_both_want_it(start_server, targets, level, coding):
    server = start_server(targets, flags=[*EVERYTHING, f"--grpc-infer-response-compression-level={level}"])
    large = np.zeros((1, 100_000), np.float32)
    with survives(server, singing=False):
        with triton.InferenceServerClient(address(server)) as client:
            assert (infer(client, large, compression_algorithm=coding) == large).all()
            assert (infer(client, DATA, compression_algorithm=coding) == DATA).all()
        with Connection(server) as connection:
            result = connection.ask(messages=[message(infer_request(shape=(1, 1000), raw=[bytes(4000)]))],
                                    more=[("grpc-accept-encoding", f"identity, {coding}")])
            assert result.fields.get("grpc-encoding") == (None if level == "none" else coding)
            assert (result.messages[0][0] == 1) == (level != "none")
            assert (len(result.body) < 1000) == (level != "none")


def test_a_unix_socket(start_server, targets, tmp_path):
    path = tmp_path / "grpc.socket"
    server = start_server(targets, flags=[*EVERYTHING, f"--grpc-address=unix:{path}"])
    wait_for("the socket", path.exists)
    with survives(server, singing=False), triton.InferenceServerClient(f"unix:{path}") as client:
        assert (infer(client) == DATA).all()
    server.stop()
    assert not path.exists()


def test_a_port_in_use_is_told(start_server, targets):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        server = start_server(targets, flags=[f"--grpc-port={port}"], wait=False)
        assert server.process.wait(PATIENCE) == 1
        assert f"127.0.0.1:{port}" in server.log and "in use" in server.log, server.log[-500:]


def test_servers_share_a_port_that_is_to_be_shared(start_server, targets):
    port = free_port()
    servers = [start_server(targets, flags=[*EVERYTHING, f"--grpc-port={port}", "--reuse-grpc-port=true"]) for _ in range(2)]
    assert [server.grpc_port for server in servers] == [port, port]
    with triton.InferenceServerClient(f"127.0.0.1:{port}") as client:
        assert (infer(client) == DATA).all()


def test_a_server_without_grpc_does_not_start_it(start_server, targets):
    without = start_server(targets, flags=[*EVERYTHING, "--allow-grpc=false"])
    assert "GRPCInferenceService" not in without.log


# --- limits of connections


def test_connections_beyond_the_limit_wait(start_server, targets):
    server = start_server(targets, flags=[*EVERYTHING, "--grpc-max-connections=3"])
    with survives(server):
        held = [Connection(server) for _ in range(3)]
        for connection in held:
            connection.ping()
        with Connection(server) as late:
            assert not late.socket_has_input(0.5)
            assert len(connections(server)) == 3
            held.pop().socket.close()
            assert late.ask(messages=[REQUEST]).status == OK
        held.append(Connection(server))
        for _ in range(5):  # one comes, one goes
            held.append(Connection(server))
            assert not held[-1].socket_has_input(0.1)
            held.pop(0).socket.close()
            held[-1].ping()
        assert server.log.count("new gRPC connections wait: the limit of open connections is reached") == 1
        for connection in held:
            connection.socket.close()


@pytest.mark.alone
def test_descriptors_that_run_out_cost_no_processor(start_server, targets):
    """Row 12 in small: 300 connections to a server that may have 256 descriptors."""
    server = start_server(targets, flags=EVERYTHING, wrapper=["prlimit", "--nofile=256:256"])
    assert "gRPC: at most 192 connections, not 10000: the process may open 256 descriptors" in server.log
    with survives(server, singing=False):
        held = [Connection(server) for _ in range(300)]
        before = cpu_seconds(server)
        with pytest.raises(AssertionError):
            held[-1].read_until(lambda: False, deadline=2)
        assert cpu_seconds(server) - before < 1
        assert server.ask("/v2/health/live").status == 200
        for connection in held:
            connection.socket.close()
        with Connection(server) as connection:
            assert connection.ask(messages=[REQUEST]).status == OK


def test_many_idle_connections_are_small(start_release, targets):
    server = start_release(targets, flags=EVERYTHING)
    with survives(server, grown_bytes=8 * MIB):
        memory = rss(server)
        held = [Connection(server) for _ in range(400)]
        for connection in held:
            assert connection.ask(messages=[REQUEST]).status == OK
        assert (rss(server) - memory) / len(held) < 32 << 10
        for connection in held:
            connection.socket.close()


BEGINNINGS = {
    "nothing": b"", "half of the preface": PREFACE[:10], "no settings": PREFACE,
    "half a frame": PREFACE + settings()[:5],
}


@pytest.mark.parametrize("bytes", BEGINNINGS.values(), ids=BEGINNINGS)
def test_who_does_not_begin_is_closed(start_server, targets, bytes):
    server = start_server(targets, flags=[*EVERYTHING, "--grpc-handshake-timeout-ms=500"])
    with survives(server), Connection(server, begin=False) as connection:
        connection.send(bytes)
        connection.await_close()


@pytest.mark.parametrize("bytes", [b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(500)],
                         ids=["HTTP/1", "TLS"])
def test_other_protocols_are_closed_at_once(target, bytes):
    with survives(target), Connection(target, begin=False) as connection:
        connection.send(bytes)
        connection.await_close()


# --- signs of life, age


@pytest.mark.slow
def test_a_client_that_gives_no_sign_is_closed(start_server, targets):
    flags = ["--grpc-keepalive-time=200", "--grpc-keepalive-timeout=2000", "--grpc-keepalive-permit-without-calls=true"]
    server = start_server(targets, flags=[*EVERYTHING, *flags])
    with survives(server), Connection(server, mute=True) as silent:
        assert silent.ask(messages=[REQUEST]).status == OK
        silent.await_close()
    with survives(server), Connection(server) as alive:
        alive.read_until(lambda: alive.questions >= 12)  # longer than the timeout
        assert alive.ask(messages=[REQUEST]).status == OK


def test_without_calls_nobody_is_asked(start_server, targets):
    server = start_server(targets, flags=[*EVERYTHING, "--grpc-keepalive-time=100", "--grpc-keepalive-timeout=100"])
    with survives(server), Connection(server, mute=True) as silent:
        with pytest.raises(AssertionError):
            silent.read_until(lambda: silent.questions > 0, deadline=1)
        assert not silent.closed
        silent.call(STREAM_INFER, end=False)
        silent.await_close()


def test_a_client_that_pings_too_often_is_sent_away(target):
    """As gRPC has it: two strikes. Pings beside data are none."""
    with survives(target), Connection(target) as connection:
        for _ in range(10):
            connection.ping()
            assert connection.ask(messages=[REQUEST]).status == OK
        connection.send(*[frame(PING, payload=bytes(8))] * 4)
        assert connection.await_close() == (ENHANCE_YOUR_CALM, "too_many_pings")


def test_a_connection_that_is_old_is_asked_to_go(start_server, targets):
    """Calls under way are finished, and what does not end is cut when the grace is over."""
    flags = ["--grpc-max-connection-age=4000", "--grpc-max-connection-age-grace=5000"]
    server = start_server(targets, flags=[*EVERYTHING, *flags])
    with survives(server), Connection(server) as endless:
        endless.call(STREAM_INFER, [REQUEST], end=False)
        with Connection(server) as idle, Connection(server) as busy:
            assert idle.ask(messages=[REQUEST]).status == OK
            stream = busy.call(STREAM_INFER, [REQUEST], end=False)
            assert idle.await_close() == (0, "")
            busy.read_until(lambda: busy.goaway is not None and busy.last_goaway == stream)
            busy.upload(stream, REQUEST, END_STREAM)
            assert busy.result(stream).status == OK
            assert len(busy.streams[stream].messages) == 2
            busy.await_close()
        endless.await_close()


# --- a server that stops


def hammer(connection, payload, stop, begun):
    """Keeps 20 calls open until it is told not to send more by a GOAWAY."""
    calls = []
    while connection.goaway is None and not connection.closed:
        calls.append(connection.call(messages=[payload]))
        window = calls[-20:]
        connection.read_until(lambda: connection.closed or connection.goaway or any(connection.is_over(s) for s in window))
        begun.set()
        if len(calls) > 200_000 or stop.is_set():
            break
    wait_for("the end", lambda: read_some(connection))
    return calls


def read_some(connection):
    if not connection.closed and connection.socket_has_input(0.1):
        connection._read()
    return connection.closed


@pytest.mark.parametrize("delay", [0.05, 0.2, 0.5])
def test_a_server_that_stops_under_load_loses_no_call(start_server, repository, delay):
    """Every call up to the last that the GOAWAY names is answered."""
    make_identity(repository, "canary")
    make_identity(repository, "t_fp32")
    make_streaming(repository, "slow", decoupled=False, more="instance_group { count: 4 kind: KIND_CPU }")
    server = start_server(repository, flags=EVERYTHING)
    payloads = [REQUEST, message(streaming_request("slow", delay_us=20_000))] * 3
    held = [Connection(server) for _ in range(len(payloads) + 20)]
    with concurrent.futures.ThreadPoolExecutor(len(payloads)) as pool:
        stop = threading.Event()
        begun = [threading.Event() for _ in payloads]
        done = [pool.submit(hammer, connection, payload, stop, event) for connection, payload, event in zip(held, payloads, begun)]
        assert all(event.wait(PATIENCE) for event in begun)
        stop.wait(delay)
        server.process.send_signal(signal.SIGTERM)
        for connection, future in zip(held, done):
            calls = future.result()
            assert connection.goaway == (0, ""), connection.goaway
            answered = [s for s in calls if s <= connection.last_goaway]
            assert answered
            results = [connection.streams.get(stream) for stream in answered]
            assert all(r is not None and r.ended and r.status == OK for r in results), [r for r in results if r is None or r.status != OK][:3]
    assert server.process.wait(PATIENCE) == 0
    for connection in held:
        connection.socket.close()


def test_a_young_connection_may_be_slow_when_the_server_stops(start_server, repository):
    """Its time to go is over long before its age is: the loop goes on all the same, and the call is answered."""
    make_identity(repository, "canary")
    make_streaming(repository, "slow", decoupled=False)
    server = start_server(repository, flags=[
        *EVERYTHING, "--grpc-max-connection-age=600000", "--grpc-max-connection-age-grace=100"])
    with Connection(server) as connection:
        stream = connection.call(messages=[message(streaming_request("slow", delay_us=3_000_000))])
        wait_for("the model to begin", lambda: "streaming: began" in server.log)
        server.process.send_signal(signal.SIGTERM)
        assert connection.result(stream).status == OK
    assert server.process.wait(PATIENCE) == 0


def stop_before_the_first_call(server):
    """Whether the client, who has connected, was told before its call; the call's status; the seconds that it all took."""
    began = time.monotonic()
    with Connection(server) as connection:
        connection.ping()
        server.process.send_signal(signal.SIGTERM)
        wait_for("the port to close", lambda: is_refused(server.grpc_port))
        connection.send(frame(PING, payload=b"question"))
        connection.read_until(lambda: connection.pings == 2 or connection.closed)
        was_told = connection.goaway is not None
        result = connection.ask(messages=[REQUEST])
        seconds = time.monotonic() - began
        assert connection.await_close() == (0, "")
    assert server.process.wait(PATIENCE) == 0
    return was_told, result.status, seconds


def test_who_has_just_connected_is_told_behind_its_first_call(start_server, targets):
    """gRPC 1.85 that is told before may try its call for ever. The server waits a second for it: an attempt that takes longer shows only that
    the call is answered."""
    seconds = 1
    while seconds >= 1:
        was_told, status, seconds = stop_before_the_first_call(start_server(targets, flags=[*EVERYTHING, "--grpc-infer-thread-count=1"]))
        assert status == OK
    assert not was_told


def test_who_never_calls_is_told_too(start_server, targets):
    server = start_server(targets, flags=EVERYTHING)
    with Connection(server) as connection:
        connection.ping()
        server.process.send_signal(signal.SIGTERM)
        assert connection.await_close() == (0, "")
    assert server.process.wait(PATIENCE) == 0


def test_requests_on_a_stream_are_refused_when_the_server_stops(start_server, targets):
    """As Triton refuses them: the stream lives on, and ends when its client says so."""
    server = start_server(targets, flags=[*EVERYTHING])
    with Connection(server) as connection:
        stream = connection.call(STREAM_INFER, [REQUEST], end=False)
        connection.read_until(lambda: stream in connection.streams and connection.streams[stream].body)
        server.process.send_signal(signal.SIGTERM)
        connection.read_until(lambda: connection.goaway is not None)
        connection.upload(stream, message(infer_request(id="late")), END_STREAM)
        result = connection.result(stream)
        first, second = [service_pb2.ModelStreamInferResponse.FromString(payload) for _, payload in result.messages]
        assert (result.status, first.error_message) == (OK, "")
        assert second.error_message == "GRPC server is shutting down and has stopped accepting new requests."
        assert second.infer_response.id == "late"
    assert server.process.wait(PATIENCE) == 0


def test_open_streams_end_at_the_deadline(start_server, targets):
    server = start_server(targets, flags=[*EVERYTHING, "--exit-timeout-secs=2"])
    with Connection(server) as connection:
        stream = connection.call(STREAM_INFER, [REQUEST], end=False)
        connection.read_until(lambda: stream in connection.streams and connection.streams[stream].body)
        server.process.send_signal(signal.SIGTERM)
        connection.read_until(lambda: connection.goaway is not None)
        connection.await_close()
        assert connection.last_goaway >= stream
    server.process.wait(PATIENCE)
