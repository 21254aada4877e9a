# SPDX-License-Identifier: Apache-2.0
"""Streams at their limits: clients that do not read or leave at any moment, and servers and models that stop meanwhile."""
import contextlib
import json
import random
import shutil
import signal
import socket
import threading

import pytest

from conftest import DEADLINE, EVERYTHING, ROOT, wait_for
from oracle import rss
from streaming import Reader, ask, events, make_streaming

pytestmark = pytest.mark.long

UNREAD = 64 << 20  # bytes of responses that may wait for a client
# What a client does not read fills up before the time of who reads nothing is over, however slow the model is here.
PATIENT = (*EVERYTHING, "--http-write-timeout-ms=600000")


def metric(server, name, model="streaming"):
    for line in server.ask("/metrics", port=server.metrics_port).text.splitlines():
        if line.startswith(f'{name}{{model="{model}"'):
            return float(line.rsplit(" ", 1)[1])
    raise AssertionError(f"{name} is not there")


@pytest.fixture
def server(start_server, repository):
    make_streaming(repository)
    return start_server(repository, flags=PATIENT)


def test_a_client_that_does_not_read_is_cut_off_and_the_backend_does_not_wait(server):
    with Reader(server, "streaming", INPUT="hi", count=400, bytes=1 << 20) as reader:
        wait_for("cancellation", lambda: "of 400, cancelled 1" in server.log)
        assert "[request id: <id_unknown>, model 'streaming'] the stream is cut: the client left too many bytes" in server.log
        sent = int(server.log.rsplit("streaming: sent ", 1)[1].split()[0])
        # What waits, what is being written and what the kernel took.
        assert UNREAD >> 20 <= sent <= (UNREAD >> 20) + 32
        assert ask(server, "streaming", "generate", INPUT="hi").status == 200
        assert reader.head()[0] == 200
        got = reader.rest()
    assert [event["index"] for event in got[:-1]] == list(range(len(got) - 1)), "what waited arrives in order"
    assert "unread" in got[-1]["error"]


@pytest.mark.slow
def test_small_responses_count_too(server):
    with Reader(server, "streaming", INPUT="hi", count=10**7, early=True) as reader:
        wait_for("cancellation", lambda: "of 10000000, cancelled 1" in server.log)
        reader.head()
        assert "unread" in reader.rest()[-1]["error"]


@pytest.mark.slow
def test_small_responses_that_waited_leave_no_memory(start_release, repository):
    shutil.copytree(ROOT / "tests/python_models/endless", repository / "endless")
    server = start_release(repository, flags=PATIENT)
    before = rss(server)
    with Reader(server, "endless", receive_buffer=4096, INPUT0=[0]):
        wait_for("cancellation", lambda: "the stream is cut: the client left too many bytes" in server.log)
        assert rss(server) < before + (32 << 20), "they are text, which is less than what they count"
    wait_for("the memory", lambda: rss(server) < before + (8 << 20))


def test_the_byte_budget_holds_for_what_waits(start_server, repository):
    make_streaming(repository)
    server = start_server(repository, flags=["--http-max-inflight-bytes=4194304"])
    with Reader(server, "streaming", receive_buffer=4096, INPUT="hi", count=10**6, early=True) as reader:
        wait_for("cancellation", lambda: "of 1000000, cancelled 1" in server.log)
        reader.head()
        assert "as many bytes of answers as it may" in reader.rest()[-1]["error"]
    assert ask(server, "streaming", "generate", INPUT="hi").status == 200


def test_a_signal_lets_streams_end(server):
    """Row 50: ten clients in the middle of a stream lose nothing."""
    readers = [Reader(server, "streaming", INPUT="hi", count=200, delay_us=3000, early=True) for _ in range(10)]
    for reader in readers:
        assert reader.head()[0] == 200
        assert reader.event()["index"] == 0
    server.process.send_signal(signal.SIGTERM)
    for reader in readers:
        assert [event["index"] for event in reader.rest()] == list(range(1, 200))
        reader.close()
    assert server.process.wait(DEADLINE) == 0


def test_a_stream_without_end_is_cut_at_the_exit_timeout(start_server, repository):
    make_streaming(repository)
    server = start_server(repository, flags=["--exit-timeout-secs=1"])
    with Reader(server, "streaming", INPUT="hi", count=10**9, delay_us=1000) as reader:
        reader.head()
        server.process.send_signal(signal.SIGTERM)
        with contextlib.suppress(ConnectionError):
            while reader.socket.recv(1 << 16):
                pass
        assert server.process.wait(DEADLINE) == 1
    assert "model 'streaming' (version 1) has 1 in-flight inferences that are cut off" in server.log


def test_unloading_a_model_lets_its_streams_end(server):
    with Reader(server, "streaming", INPUT="hi", count=100, delay_us=3000, early=True) as reader:
        reader.head()
        reader.event()
        unloading = threading.Thread(
            target=server.ask, args=("/v2/repository/models/streaming/unload", b"{}"))
        unloading.start()
        assert len(reader.rest()) == 99
        unloading.join()
    wait_for("the end of the model", lambda: "successfully unloaded 'streaming'" in server.log)
    assert ask(server, "streaming", "generate", INPUT="hi").status in (400, 404)


def test_streams_that_are_cancelled_at_any_moment(server):
    """Row 18 and CVE-2025-23322: each request is over exactly once, nothing is left in flight."""
    chosen = random.Random(18)
    rounds = 1200

    def leave_somewhere(seed):
        r = random.Random(seed)
        for _ in range(rounds // 4):
            with Reader(server, "streaming", INPUT="hi", count=r.choice((0, 1, 5, 1000)), early=r.random() < 0.5,
                        delay_us=r.choice((0, 0, 200)), final=r.choice(("flag", "with", "never"))) as reader:
                if r.random() < 0.2:  # these have begun, however slow the server is
                    reader.head()
                reader.socket.settimeout(r.choice((0.0001, 0.001, 0.01)))
                try:
                    for _ in range(r.choice((0, 1, 20))):
                        reader.file.readline()
                except OSError:
                    pass
                if r.random() < 0.3:
                    reader.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")

    threads = [threading.Thread(target=leave_somewhere, args=(chosen.random(),)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert server.log.count("streaming: began") >= rounds // 10
    wait_for("the end of all", lambda: server.log.count("streaming: began") == server.log.count("streaming: sent"))
    assert events(ask(server, "streaming", "generate_stream", INPUT="hi", count=3).text)
    wait_for("nothing in flight", lambda: metric(server, "nv_inference_pending_request_count") == 0)
    server.stop()


def test_statistics_tell_the_responses_apart(server):
    ask(server, "streaming", "generate_stream", INPUT="hi", count=2)
    ask(server, "streaming", "generate_stream", INPUT="hi", count=3, fail_at=1)
    with Reader(server, "streaming", INPUT="hi", count=10**6, delay_us=1000) as reader:
        reader.head()
    wait_for("cancellation", lambda: "cancelled 1" in server.log)
    rows = json.loads(server.ask("/v2/models/streaming/stats").text)["model_stats"][0]["response_stats"]

    def counts(row):
        return {name: duration["count"] for name, duration in rows[row].items() if duration["count"]}

    assert list(rows) == [str(i) for i in range(len(rows))]
    assert counts("0")["success"] == 3 and counts("0")["compute_output"] == 3
    assert counts("1")["fail"] == 1
    assert sum(counts(row).get("empty_response", 0) for row in rows) == 2
    assert sum(counts(row).get("cancel", 0) for row in rows) == 1
    assert all(duration["ns"] > 0 for duration in (rows["0"]["compute_infer"], rows["0"]["success"]))


def test_a_full_queue_refuses_streams(start_server, repository):
    make_streaming(repository, max_batch_size=1,
                   more="dynamic_batching { default_queue_policy { max_queue_size: 1 } }")
    server = start_server(repository)
    with Reader(server, "streaming", INPUT="hi", count=10**6, delay_us=1000) as running:
        running.head()
        with Reader(server, "streaming", INPUT="waits"):
            wait_for("the second in the queue", lambda: metric(server, "nv_inference_pending_request_count") == 1)
            reply = ask(server, "streaming", "generate_stream", INPUT="too many")
            assert reply.status == 503
            assert "Exceeds maximum queue size" in json.loads(reply.text)["error"]
