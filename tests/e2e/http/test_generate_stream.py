# SPDX-License-Identifier: Apache-2.0
"""generate_stream: events as they come, errors, clients of all kinds, and models that answer in all ways."""
import json
import shutil
import subprocess

import pytest

from conftest import DEADLINE, Starter, wait_for
from streaming import Reader, ask, events, make_streaming


@pytest.fixture(scope="module")
def streaming(nereid, backends, tmp_path_factory):
    repository = tmp_path_factory.mktemp("models")
    make_streaming(repository)
    make_streaming(repository, "numbers", type="TYPE_INT32", max_batch_size=4)
    make_streaming(repository, "single", decoupled=False)
    make_streaming(repository, "ordered", max_batch_size=4, more="dynamic_batching { preserve_ordering: true }")
    starter = Starter(nereid, backends, tmp_path_factory.mktemp("streaming"))
    yield starter(repository)
    starter.stop_all()


def stream(server, model="streaming", **members):
    reply = ask(server, model, "generate_stream", **members)
    return reply.status, events(reply.text)


def test_each_response_is_an_event(streaming):
    reply = ask(streaming, "streaming", "generate_stream", INPUT="hi", count=3)
    assert reply.status == 200
    assert reply.headers["Content-Type"] == "text/event-stream; charset=utf-8"
    assert reply.headers["Transfer-Encoding"] == "chunked"
    assert reply.text == "".join(
        f'data: {{"OUTPUT":"hi","index":{i},"model_name":"streaming","model_version":"1"}}\n\n' for i in range(3))


@pytest.mark.parametrize("early", [False, True])
@pytest.mark.parametrize("final", ["flag", "with"])
def test_a_backend_may_end_in_either_way_before_or_after_it_releases_the_request(streaming, early, final):
    status, got = stream(streaming, INPUT=["a", "b"], count=50, early=early, final=final)
    assert status == 200
    assert [event["index"] for event in got] == list(range(50))
    assert all(event["OUTPUT"] == ["a", "b"] for event in got)


def test_a_stream_without_a_response_is_empty(streaming):
    assert stream(streaming, INPUT="hi", count=0) == (200, [])


def test_a_stream_that_its_backend_forgets_ends_with_an_error(streaming):
    for early in (False, True):
        status, got = stream(streaming, INPUT="hi", count=2, final="never", early=early)
        assert status == 200
        assert "without an answer" in got[2]["error"], got


def test_the_first_response_decides_the_status(streaming):
    assert stream(streaming, INPUT="hi", count=3, fail_at=0)[0] == 503
    status, got = stream(streaming, INPUT="hi", count=3, fail_at=1)
    assert status == 200
    assert got[1] == {"error": "as was asked for"}
    assert [event.get("index") for event in got] == [0, None, 2]


def test_a_model_that_answers_once_may_be_streamed(streaming):
    status, got = stream(streaming, "single", INPUT="hi", final="with", id="a")
    assert status == 200
    assert got == [{"id": "a", "OUTPUT": "hi", "index": 0, "model_name": "single", "model_version": "1"}]


def test_what_fails_before_the_model_is_a_plain_error(streaming):
    reply = ask(streaming, "streaming", "generate_stream")
    assert (reply.status, reply.headers["Content-Type"]) == (400, "application/json")
    assert "expected 1 inputs but got 0" in json.loads(reply.text)["error"]
    reply = ask(streaming, "none", "generate_stream")
    assert (reply.status, reply.headers["Content-Type"]) == (404, "application/json")


def test_events_come_as_they_are_made(streaming):
    """The second one is asked for, by cancelling, only when the first one is here: nothing is held back."""
    with Reader(streaming, "streaming", INPUT="hi", count=1000000, delay_us=1000) as reader:
        assert reader.head()[0] == 200
        for index in range(5):
            assert reader.event()["index"] == index


def test_the_connection_lives_on_behind_a_stream(streaming):
    with Reader(streaming, "streaming", INPUT="hi", count=3) as reader:
        for _ in range(3):
            assert reader.head()[0] == 200
            assert len(reader.rest()) == 3
            reader.send("streaming", INPUT="hi", count=3)


def test_a_client_of_http_1_0_gets_a_stream_that_ends_with_the_connection(streaming):
    with Reader(streaming, "streaming", version="1.0", INPUT="hi", count=3, delay_us=2000) as reader:
        status, headers = reader.head()
        assert status == 200
        assert "transfer-encoding" not in headers and "content-length" not in headers
        assert len(events(reader.file.read().decode())) == 3


def test_curl_reads_a_stream(streaming):
    assert shutil.which("curl")
    done = subprocess.run(
        ["curl", "-sSN", "-X", "POST", f"{streaming.url}/v2/models/streaming/versions/1/generate_stream", "-d",
         '{"INPUT": "hi", "parameters": {"count": 20, "delay_us": 1000, "early": true}}'],
        capture_output=True, text=True, timeout=DEADLINE)
    assert done.returncode == 0, done.stderr
    assert [event["index"] for event in events(done.stdout)] == list(range(20))


@pytest.mark.parametrize("bytes", [1000, 100000, 3000000])
def test_large_responses_arrive_whole(streaming, bytes):
    status, got = stream(streaming, INPUT="hi", count=4, bytes=bytes, early=True)
    assert status == 200
    assert [event["OUTPUT"] for event in got] == ["x" * bytes] * 4


def test_a_chunk_ends_with_its_event(streaming):
    """Where only half of an event's end fits into a chunk, and the next event is there, too."""
    def chunks(count, bytes):
        with Reader(streaming, "streaming", receive_buffer=4096, INPUT="hi", count=count, bytes=bytes) as reader:
            reader.head()
            wait_for("all responses", lambda: f"sent {count} of {count}" in streaming.log)
            return list(iter(reader.chunk, b""))
    parts = chunks(9, 100000)
    longest, more = max(map(len, parts)), len(b"".join(parts)) // 9 - 100000
    assert longest < 100000
    parts = chunks(400, longest - more - 1)  # from the hundredth event on
    assert parts.count(b"\n") > 250
    assert not [part[:20] for part in parts if part.find(b"data: ") > 0]


def test_numbers_are_batched_and_come_back_as_they_went(streaming):
    status, got = stream(streaming, "numbers", INPUT=[1, -2, 3], count=2)
    assert status == 200
    assert [event["OUTPUT"] for event in got] == [[1, -2, 3]] * 2


def test_order_is_kept_where_it_is_asked_for(streaming):
    """The responses of the stream that began first pass, those of the next one wait for its end."""
    with Reader(streaming, "ordered", INPUT="a", count=23, delay_us=100_000, early=True) as first:
        first.head()
        assert first.event()["index"] == 0
        assert "sent 23 of 23" not in streaming.log
        with Reader(streaming, "ordered", INPUT="b", count=1, early=True) as second:
            assert second.head()[0] == 200
            assert "sent 23 of 23" in streaming.log
            assert [event["index"] for event in second.rest()] == [0]
        assert len(first.rest()) == 22


def test_infer_refuses_a_decoupled_model(streaming):
    reply = streaming.ask("/v2/models/streaming/infer", b"{}")
    assert reply.status == 501
    assert json.loads(reply.text)["error"] == (
        "HTTP end point doesn't support models with decoupled transaction policy")


def test_many_streams_at_once(streaming):
    readers = [Reader(streaming, "streaming", INPUT=f"{i}", count=30, delay_us=500, early=True) for i in range(40)]
    for i, reader in enumerate(readers):
        assert reader.head()[0] == 200
        got = reader.rest()
        assert [event["OUTPUT"] for event in got] == [f"{i}"] * 30
        reader.close()


def test_a_client_that_leaves_cancels(streaming):
    for early in (False, True):
        before = streaming.log.count("cancelled 1")
        with Reader(streaming, "streaming", INPUT="hi", count=1000000, delay_us=1000, early=early) as reader:
            reader.head()
            reader.event()
        wait_for("cancellation", lambda: streaming.log.count("cancelled 1") > before)
