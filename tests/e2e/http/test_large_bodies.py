# SPDX-License-Identifier: Apache-2.0
"""Bodies of a hundred MB: which ones are taken, and that a client that is refused in the middle of one gets to read why."""
import contextlib
import gzip
import http.client
import json
import subprocess

import numpy as np
import pytest
import tritonclient.http as triton
from conftest import DEADLINE, EVERYTHING, release_starter
from oracle import MIB, peak, reset_peak, rss
from safety import on_threads
from wire import check_error, connect, receive_all, replies, request, send

pytestmark = pytest.mark.slow

INFER = "/v2/models/t_fp32/infer"
LIMIT = 64 * MIB
BUDGET = 256 * MIB
OWN = 16 * MIB  # what connections, threads and malloc have of their own
LARGE = 100_000_000
WORDS = "Use --http-max-input-size to increase the limit."
SMALL_JSON = b'{"inputs":[{"name":"INPUT0","shape":[1,2],"datatype":"FP32","data":[1,2]}]}'


@pytest.fixture(scope="module")
def server(tmp_path_factory, targets):
    """With the default limit of a body."""
    starter = release_starter(tmp_path_factory)
    yield starter(targets, flags=[*EVERYTHING, f"--http-max-inflight-bytes={BUDGET}"])
    starter.stop_all()


def json_of(size):
    return SMALL_JSON[:-1] + b" " * (size - len(SMALL_JSON)) + b"}"


def binary_of(size, json_size=None):
    """(body, headers) with `size` bytes of FP32 behind the JSON part."""
    head = json.dumps({"inputs": [{"name": "INPUT0", "shape": [1, size // 4], "datatype": "FP32", "parameters": {"binary_data_size": size}}],
                       "outputs": [{"name": "OUTPUT0", "parameters": {"binary_data": True}}]}).encode()
    head += b" " * ((json_size or len(head)) - len(head))
    return head + bytes(size), {"Inference-Header-Content-Length": str(len(head))}


def pieces(body):
    return (body[i : i + MIB] for i in range(0, len(body), MIB))


def ask(server, body, headers=(), chunked=False):
    """As http.client does it: all of the request is written before the reply is looked at."""
    with contextlib.closing(http.client.HTTPConnection("127.0.0.1", server.http_port, timeout=DEADLINE)) as client:
        client.request("POST", INFER, pieces(body) if chunked else body, dict(headers), encode_chunked=chunked)
        reply = client.getresponse()
        reply.body = reply.read()
        return reply


def infer(server, data, **more):
    with triton.InferenceServerClient(server.url, network_timeout=DEADLINE, connection_timeout=DEADLINE) as client:
        tensor = triton.InferInput("INPUT0", data.shape, "FP32").set_data_from_numpy(data)
        return client.infer("t_fp32", [tensor], **more).as_numpy("OUTPUT0")


def test_binary_tensors_are_not_bounded_by_the_limit(server):
    """Their memory is that of the request and of its answer, and no more."""
    data = np.arange(LARGE // 4, dtype=np.float32).reshape(1, -1)
    before = rss(server)
    reset_peak(server)
    assert (infer(server, data) == data).all()
    assert peak(server) - before <= 2 * LARGE + OWN, (peak(server) - before) / MIB
    for chunked in (False, True):
        body, headers = binary_of(LARGE)
        reply = ask(server, body, headers, chunked)
        assert reply.status == 200 and len(reply.body) > LARGE, reply.body[:300]


def test_what_the_limit_bounds_is_bounded_to_the_byte(server):
    """The JSON part, a raw input, what is unpacked."""
    raw = {"Inference-Header-Content-Length": "0"}
    packed = {"Content-Encoding": "gzip"}
    for size, status in ((LIMIT, 200), (LIMIT + 1, 413)):
        assert ask(server, json_of(size)).status == status
        assert ask(server, *binary_of(8, json_size=size)).status == status
        assert ask(server, bytes(size // 4 * 4 if status == 200 else size + 3), raw).status == status
        assert ask(server, gzip.compress(json_of(size), 1), packed).status == status


REFUSED = {  # body, headers, words
    "JSON": (lambda: json_of(LARGE), {}, f"request JSON size of {LARGE} bytes exceeds the maximum allowed input size of {LIMIT} bytes."),
    "JSON before tensors": (lambda: binary_of(8, LARGE)[0], {"Inference-Header-Content-Length": str(LARGE)},
                            f"request JSON size of {LARGE} bytes exceeds the maximum allowed input size of {LIMIT} bytes."),
    "raw": (lambda: bytes(LARGE), {"Inference-Header-Content-Length": "0"},
            f"Raw input has a byte_size ({LARGE} bytes) that exceeds the maximum allowed value of {LIMIT} bytes."),
    "packed": (lambda: gzip.compress(json_of(LARGE), 1), {"Content-Encoding": "gzip"},
               f"Decompressed data size exceeds the maximum allowed value of {LIMIT} bytes."),
}


@pytest.mark.parametrize("chunked", [False, True])
@pytest.mark.parametrize("kind", REFUSED)
def test_a_client_that_writes_first_reads_the_refusal(server, kind, chunked):
    body, headers, words = REFUSED[kind]
    before = rss(server)
    reset_peak(server)
    reply = ask(server, body(), headers, chunked)
    assert reply.status == 413 and reply.headers["Content-Type"] == "application/json"
    error = check_error(reply)
    if chunked and kind in ("JSON", "raw"):  # nobody knows how much it would have been
        words = words.replace(str(LARGE), f"more than {LIMIT}")
    assert error == f"{words} {WORDS}"
    assert peak(server) - before <= 2 * LIMIT + OWN, (peak(server) - before) / MIB


def test_other_clients_read_it_too(server, tmp_path):
    body = tmp_path / "body"
    body.write_bytes(json_of(LARGE))
    url = f"http://127.0.0.1:{server.http_port}{INFER}"
    for more in ([], ["-H", "Expect:"], ["-H", "Transfer-Encoding: chunked"], ["--http1.0"]):
        done = subprocess.run(["curl", "-sS", "-w", "%{http_code}", "-H", "Content-Type: application/json", *more, "--data-binary", f"@{body}", url],
                              capture_output=True, text=True)
        assert done.returncode == 0 and done.stdout.endswith("413") and WORDS in done.stdout, (more, done)
    with pytest.raises(triton.InferenceServerException, match="Decompressed data size exceeds the maximum allowed value") as refusal:
        infer(server, np.zeros((1, LARGE // 4), dtype=np.float32), request_compression_algorithm="gzip")
    assert refusal.value.status() == "413"


def test_many_large_tensors_stay_within_the_budget(server):
    """Those beyond it are told to come again."""
    body, headers = binary_of(LARGE)
    before = rss(server)
    reset_peak(server)
    statuses = []
    on_threads(8, lambda _: statuses.append(ask(server, body, headers).status))
    assert set(statuses) <= {200, 503} and 200 in statuses, statuses
    assert peak(server) - before <= 2 * BUDGET + OWN, (peak(server) - before) / MIB  # as much again for answers


def test_more_than_the_server_may_hold_is_refused_for_good(server):
    for size in (BUDGET + 1, 2**40, 2**63 - 1):
        with connect(server) as connection:
            send(connection, request("POST", INFER, headers=["Inference-Header-Content-Length: 200", f"Content-Length: {size}"]))
            (reply,) = replies(receive_all(connection))
        assert reply.status == 413 and "--http-max-inflight-bytes" in check_error(reply), reply


@pytest.mark.parametrize("flags", [["--http-max-input-size=total:100000"], ["--http-max-input-size=100000", "--secure", "--allow-root"]], ids=" ".join)
def test_the_whole_body_can_be_meant(start_server, targets, flags):
    server = start_server(targets, flags=[*EVERYTHING, *flags])
    for size, status in ((99_000, 200), (100_000, 413)):
        body, headers = binary_of(size)
        reply = ask(server, body, headers)
        assert reply.status == status, reply.body
    assert check_error(reply) == f"request body size of {len(body)} bytes exceeds the maximum allowed input size of 100000 bytes. {WORDS}"


@pytest.mark.parametrize("value", ["0", "-1", "x", "total:", "total:0", "total:x", "all:5", ""])
def test_a_limit_that_is_none_is_refused(start_server, targets, value):
    server = start_server(targets, flags=[f"--http-max-input-size={value}"], wait=False)
    assert server.process.wait(DEADLINE) == 1
    assert f"--http-max-input-size: invalid value '{value}', expected an integer from 1, or one behind total:" in server.log
