# SPDX-License-Identifier: Apache-2.0
"""Row 1: mutated requests, bodies included, on every route and on the metrics port; row 57: what their errors tell.

NEREID_MUTATIONS says how many (10,000; the long tier has 10,000,000), NEREID_SEED which. Request `i` of a seed is always the
same: a failure names both.
"""
import collections
import gzip
import os
import random
import re

import pytest
from conftest import EVERYTHING, PATIENCE
from oracle import survives
from safety import on_threads
from wire import CANARY_BODY, LIVE_AND_CLOSE, check_error, chunked, connect, request, send

pytestmark = pytest.mark.slow

MUTATIONS = int(os.environ.get("NEREID_MUTATIONS", 10_000))
SEED = int(os.environ.get("NEREID_SEED", 1))
WORKERS = 8
WAIT = 0.05  # for a reply, where a mutated request may never be complete

METHODS = ["GET", "POST", "HEAD", "PUT", "DELETE", "OPTIONS", "TRACE", "CONNECT", "PATCH", "get", "", "G" * 300]
MODELS = ["t_fp32", "t_fp32", "t_bytes", "none", "", "..", "%2e", "a" * 300]
PATHS = [
    "/v2", "/v2/health/live", "/v2/health/ready", "/v2/models/stats", "/v2/models/{m}", "/v2/models/{m}/versions/1", "/v2/models/{m}/ready",
    "/v2/models/{m}/versions/1/ready", "/v2/models/{m}/config", "/v2/models/{m}/versions/1/config", "/v2/models/{m}/stats",
    "/v2/models/{m}/versions/1/stats", "/v2/models/{m}/infer", "/v2/models/{m}/versions/1/infer", "/v2/models/{m}/generate",
    "/v2/models/{m}/generate_stream", "/v2/repository/index", "/v2/repository/{m}/index", "/v2/repository/models/t_uint8/load",
    "/v2/repository/models/t_uint8/unload", "/v2/repository/r/models/{m}/load", "/v2/logging", "/v2/trace/setting", "/v2/models/{m}/trace/setting",
    "/v2/systemsharedmemory/status", "/v2/systemsharedmemory/region/{m}/register", "/v2/systemsharedmemory/unregister",
    "/v2/cudasharedmemory/region/{m}/unregister", "/metrics", "/", "*", "//v2", "/v2/", "http://x/v2", "/v2/../v2", "/v2/models/{m}/infer/",
]
POSTED = ("infer", "generate", "generate_stream", "index", "load", "register")
TENSOR = b'{"name":"INPUT0","shape":[1,2],"datatype":"FP32","parameters":{"binary_data_size":8}}'
BODIES = [
    b"", b"{}", CANARY_BODY, CANARY_BODY * 2, b'{"inputs":[' + TENSOR + b"]}" + bytes(8), b'{"inputs":[' + TENSOR + b"," + TENSOR + b"]}" + bytes(16),
    b'{"inputs":[{"name":"INPUT0","shape":[1,2],"datatype":"BYTES","data":["a","\\u00e4\\ud83d\\ude00"]}]}', bytes(64), b'{"ready":true}',
    b'{"parameters":{"config":"{\\"max_batch_size\\":8,\\"backend\\":\\"identity\\"}"}}', b'{"parameters":{"unload_dependents":true}}',
    CANARY_BODY[:-1] + b',"id":"x","outputs":[{"name":"OUTPUT0","parameters":{"binary_data":true}}],"parameters":{"priority":1,"timeout":1000}}',
    gzip.compress(CANARY_BODY),
]
FIELDS = [
    "Content-Encoding: gzip", "Content-Encoding: deflate", "Content-Encoding: identity", "Accept-Encoding: gzip;q=1, deflate;q=0.5",
    "Inference-Header-Content-Length: 91", "Inference-Header-Content-Length: 0", "Inference-Header-Content-Length: 99", "Expect: 100-continue",
    "Connection: close", "Connection: keep-alive", "Connection: upgrade", "Upgrade: h2c", "Content-Type: application/json", "Origin: null",
    "Cookie: a=b", "Content-Length: 5", "Transfer-Encoding: chunked", "Host: localhost", "X: y", "Range: bytes=0-1", "TE: trailers",
]
WORDS = [
    b"\r\n", b"\n", b"\r", b"\0", b" ", b":", b",", b";", b"{", b"}", b"[", b"]", b'"', b"\\", b"%", b"-", b"0", b"9" * 30, b"1e999", b"NaN",
    b"\xff", b"\xc0\xaf", b"\\ud800", b"HTTP/1.1", b"chunked", b"Content-Length", b"\r\n\r\n", b"FP64", b"BYTES", b"shape", b"data", b"18446744073709551616",
    b"[" * 200, b'"name"', b"\r\nX: y", b"0\r\n\r\n",
]


def honest(chance):
    """A request as the grammar has it, of any route."""
    path = chance.choice(PATHS).replace("{m}", chance.choice(MODELS[:3] if chance.random() < 0.8 else MODELS))
    fitting = "POST" if path.endswith(POSTED) else "GET"
    method = fitting if chance.random() < 0.8 else chance.choice(METHODS)
    fields = chance.sample(FIELDS, chance.choice([0, 0, 0, 0, 0, 1, 1, 2, 3]))
    version = "1.1" if chance.random() < 0.95 else chance.choice(["1.0", "0.9", "2.0", "1.2"])
    body = chance.choice(BODIES) if method != "GET" or chance.random() < 0.1 else None
    if body is None:
        return request(method, path, None, fields, version)
    if chance.random() < 0.3:
        cuts = sorted(chance.randint(0, len(body)) for _ in range(3))
        pieces = [body[a:b] for a, b in zip([0, *cuts], [*cuts, len(body)])]
        return chunked(method, path, [piece for piece in pieces if piece], fields)
    return request(method, path, body, fields, version)


def flip(chance, data):
    i = chance.randrange(len(data))
    return data[:i] + bytes([data[i] ^ 1 << chance.randrange(8)]) + data[i + 1 :]


def replace(chance, data):
    i = chance.randrange(len(data))
    return data[:i] + chance.randbytes(1) + data[i + 1 :]


def insert(chance, data):
    i = chance.randint(0, len(data))
    return data[:i] + chance.choice(WORDS) + data[i:]


def delete(chance, data):
    i = chance.randrange(len(data))
    return data[:i] + data[i + chance.randint(1, 20) :]


def repeat(chance, data):
    i, size = chance.randrange(len(data)), chance.randint(1, 60)
    return data[: i + size] + data[i : i + size] * chance.choice([1, 1, 2, 50]) + data[i + size :]


def cross(chance, data):
    other = honest(chance)
    return data[: chance.randint(0, len(data))] + other[chance.randint(0, len(other)) :]


def mutated(i):
    chance = random.Random(SEED << 40 | i)
    data = honest(chance)
    for _ in range(chance.choice([0, 0, 1, 1, 1, 2, 3, 5, 9])):
        if data:
            data = chance.choice((flip, replace, insert, delete, repeat, cross))(chance, data)
    return data


def read_some(connection):
    """What comes, until the server closes or waits for more."""
    data = b""
    try:
        while piece := connection.recv(1 << 16):
            data += piece
    except (TimeoutError, ConnectionResetError):
        pass
    return data


ERROR = re.compile(rb'\{"error":"(?:[^"\\]|\\.)*"\}')


class Errors:
    """A check of each error in what the server sent."""

    def __init__(self, body):
        self.body = body


def check(i, data):
    """Replies, and nothing else; errors tell nothing."""
    if data:
        assert re.match(rb"HTTP/1\.[01] \d{3} ", data), (SEED, i, mutated(i), data)
        assert not re.match(rb"HTTP/1\.[01] 500 ", data) or b"failed to poll from model repository" in data, (SEED, i, mutated(i), data)
    for error in ERROR.findall(data):
        try:
            check_error(Errors(error))
        except (AssertionError, ValueError) as failure:
            raise AssertionError(f"seed {SEED}, request {i}: {failure}") from failure


def attack(server, port, first, count):
    statuses = {}
    for i in range(first, count, WORKERS):
        vector = mutated(i)
        if not vector:
            continue
        with connect(server, port) as connection:
            connection.settimeout(WAIT)
            send(connection, vector, b"\r\n\r\n" if i % 4 == 0 else b"", LIVE_AND_CLOSE if i % 8 else b"")
            data = read_some(connection)
        check(i, data)
        status = data[9:12]
        statuses[status] = statuses.get(status, 0) + 1
    return statuses


def attack_on_threads(server, port, count):
    statuses = [None] * WORKERS

    def work(worker):
        statuses[worker] = attack(server, port, worker, count)

    on_threads(WORKERS, work, deadline=max(PATIENCE, count // 20))
    return {status: sum(s.get(status, 0) for s in statuses) for status in set().union(*statuses)}


def statuses_of_honest(server, count):
    """Of whole requests: the server closes behind each, so no reply is late."""
    statuses = collections.Counter()
    for i in range(count):
        with connect(server) as connection:
            send(connection, honest(random.Random(i)), LIVE_AND_CLOSE)
            statuses[read_some(connection)[9:12]] += 1
    return statuses


def test_cve_2025_23317_mutated_requests(start_server, targets):
    server = start_server(targets, flags=EVERYTHING)
    with survives(server):
        statuses = attack_on_threads(server, server.http_port, MUTATIONS)
        assert server.ask("/v2/repository/models/t_uint8/load", b"").status == 200
        found = statuses_of_honest(server, 200)
    assert found[b"200"] > 10 and found[b"400"] > 10, found  # what is mutated comes through to the handlers
    assert {b"200", b"400"} <= statuses.keys(), statuses


def test_mutated_requests_to_the_metrics_port(start_server, targets):
    server = start_server(targets, flags=EVERYTHING)
    with survives(server):
        attack_on_threads(server, server.metrics_port, MUTATIONS // 10)


def test_a_seed_gives_the_same_requests_and_all_routes():
    assert [mutated(i) for i in range(500)] == [mutated(i) for i in range(500)]
    text = b"".join(honest(random.Random(i)) for i in range(2000))
    assert all(path.replace("{m}", "t_fp32").encode() in text for path in PATHS)
