# SPDX-License-Identifier: Apache-2.0
"""What a request may have of everything: header fields, chunks, bytes, digits (rows 3, 5, 6 and 8)."""
import gzip
import json
import re
import zlib

import pytest
from conftest import EVERYTHING
from oracle import MIB, check_no_growth, peak, reset_peak, rss, survives
from wire import (
    CANARY, CANARY_BODY, LIVE_AND_CLOSE, check_error, chunked, connect, receive_all, receive_reply, replies, request, send,
    take_reply, talk,
)

INFER = "/v2/models/t_fp32/infer"
RAW = ["Inference-Header-Content-Length: 0"]
MAX_CHUNKS = 65536
BODY_ROUTES = [
    INFER, "/v2/models/t_fp32/versions/1/infer", "/v2/models/t_fp32/generate", "/v2/models/t_fp32/generate_stream",
    "/v2/repository/index", "/v2/repository/r/index", "/v2/repository/models/t_fp32/load", "/v2/repository/models/t_fp32/unload",
    "/v2/repository/r/models/t_fp32/load", "/v2/logging", "/v2/trace/setting", "/v2/models/t_fp32/trace/setting",
    "/v2/systemsharedmemory/region/r/register", "/v2/systemsharedmemory/unregister", "/v2/cudasharedmemory/region/r/register",
    "/v2/cudasharedmemory/region/r/unregister",
]


def first_reply(server, *parts):
    """The reply to a request of which the server may not want all."""
    with connect(server) as connection:
        send(connection, *parts)
        data = receive_all(connection)
    return take_reply(data)[0] if data else None


# --- chunks

def one_byte_chunks(path, count, headers=()):
    return request("POST", path, headers=["Transfer-Encoding: chunked", *headers]) + b"1\r\n{\r\n" * count + b"0\r\n\r\n"


def test_65536_chunks_are_taken_and_one_more_is_not(target):
    body = bytes(range(256)) * 256
    with survives(target) as survival, connect(target) as connection:
        send(connection, chunked("POST", "/v2/models/t_uint8/infer", [bytes([b]) for b in body], RAW))
        reply = receive_reply(connection)
        assert reply.status == 200 and reply.body.endswith(body)
        send(connection, chunked("POST", "/v2/models/t_uint8/infer", [b"x"] * (MAX_CHUNKS + 1), RAW))
        reply = receive_reply(connection)
        assert reply.status == 400 and "maximum of 65536 non-empty chunks" in check_error(reply)
        survival.count("t_uint8", 200)


@pytest.mark.parametrize("coding", ["gzip", "deflate"])
def test_cve_2025_33202_chunks_of_packed_bodies(target, coding):
    pack = gzip.compress if coding == "gzip" else zlib.compress
    packed = pack(CANARY_BODY)
    with survives(target) as survival:
        head = [f"Content-Encoding: {coding}"]
        with connect(target) as connection:
            send(connection, chunked("POST", INFER, [packed[i : i + 1] for i in range(len(packed))], head))
            reply = receive_reply(connection)
        survival.count("t_fp32", reply.status)
        assert reply.status == 200, reply
        reply = first_reply(target, one_byte_chunks(INFER, 1_000_000, head))
        assert reply is None or "non-empty chunks" in check_error(reply)


def test_cve_2025_23310_23311_a_million_chunks_to_every_route(target):
    with survives(target):
        for path in BODY_ROUTES:
            reply = first_reply(target, one_byte_chunks(path, 1_000_000), LIVE_AND_CLOSE)
            assert reply is None or reply.status in (400, 501), (path, reply)
            if reply is not None:
                check_error(reply)


@pytest.mark.slow
def test_cve_2026_47476_a_hundred_million_chunks_leave_no_memory(start_release, targets):
    server = start_release(targets, flags=EVERYTHING)
    flood = one_byte_chunks(INFER, 1_000_000)
    with survives(server, singing=False):
        check_no_growth(server, lambda: [first_reply(server, flood) for _ in range(100)], MIB, peak)


# --- heads

def fields(count):
    return [f"X{i}: y" for i in range(count - 1)]  # one is Host


HEADS = {
    "300 fields": (request("GET", "/v2/health/live", headers=fields(300)), 200),
    "1000 fields": (request("GET", "/v2/health/live", headers=fields(1000)), 431),
    "10000 fields": (request("GET", "/v2/health/live", headers=fields(10_000)), 431),
    "a field of 64 KiB and a byte": (request("GET", "/v2/health/live", headers=["X: " + "y" * 65534]), 431),
    "a name of 64 KiB": (request("GET", "/v2/health/live", headers=["y" * 65536 + ": x"]), 431),
    "a URL of 8 KiB": (request("GET", "/v2/health/live?" + "a" * (8192 - 16)), 200),
    "a URL of 8 KiB and a byte": (request("GET", "/v2/health/live?" + "a" * (8193 - 16)), 414),
    "a path of 8 KiB and a byte": (request("GET", "/v2/models/" + "a" * (8193 - 11)), 414),
    "a URL of a MiB": (request("GET", "/" + "a" * MIB), 414),
    "100 arguments": (request("GET", "/v2/health/live?" + "a&" * 100), 200),
    "a model of 255 bytes": (request("GET", "/v2/models/" + "a" * 255 + "/ready"), 400),
    "a model of 256 bytes": (request("GET", "/v2/models/" + "a" * 256 + "/ready"), 400),
    "a method of a MiB": (b"G" * MIB + b" / HTTP/1.1\r\n\r\n", 414),
    "cookies": (request("GET", "/v2/health/live", headers=["Cookie: " + "a=b; " * 4000]), (200, 431)),
}


@pytest.mark.parametrize("case", HEADS)
def test_heads_have_limits(target, case):
    head, expected = HEADS[case]
    with survives(target, singing=False):
        reply = first_reply(target, head, LIVE_AND_CLOSE)
        assert reply.status in (expected if isinstance(expected, tuple) else (expected,)), reply


def test_endless_heads_leave_no_memory(start_release, targets):
    server = start_release(targets, flags=EVERYTHING)
    endless = {"value": b"GET /v2 HTTP/1.1\r\nHost: x\r\nX: ", "fields": b"GET /v2 HTTP/1.1\r\nHost: x\r\n", "line": b"GET /"}

    def send_all():
        for kind, start in endless.items():
            more = (b"X: y\r\n" if kind == "fields" else b"yyyyyy") * (MIB // 6)
            reply = first_reply(server, start, *[more] * 100)
            assert reply is None or reply.status in (414, 431), (kind, reply)

    with survives(server, singing=False):
        check_no_growth(server, send_all, MIB, peak)


# --- numbers in heads

NUMBERS = [
    "", "0", "00", "1", "01", "+1", "-1", "--1", "+-1", "0x10", "0b1", "1e1", "1.0", "1.", ".1", "1,1", "1 1", "1;1", "one", "NaN", "Infinity",
    "١", "1_0", "'1'", "\"1\"", "1a", "a1", "-0", "2147483647", "2147483648", "-2147483648", "4294967295", "4294967296",
    "9223372036854775807", "9223372036854775808", "-9223372036854775808", "-9223372036854775809", "18446744073709551615",
    "18446744073709551616", "9" * 400, "-" + "9" * 400, "0" * 400 + "1", str(len(CANARY_BODY)), str(len(CANARY_BODY) - 1),
    str(len(CANARY_BODY) + 1), "%d", "%s%n",
]


def utf8_lines(*lines):
    return [line.encode().decode("latin-1") for line in lines]


def test_cve_2025_33211_numbers_of_every_header(target):
    """Inference-Header-Content-Length, with a table of 47 numbers and what looks like them."""
    whole = len(CANARY_BODY)
    with survives(target) as survival:
        for text in NUMBERS:
            good = re.fullmatch("[0-9]+", text) and int(text) == whole
            lines = utf8_lines(f"Inference-Header-Content-Length: {text}")
            (reply,) = talk(target, request("POST", INFER, CANARY_BODY, [*lines, "Connection: close"]))
            assert reply.status == (200 if good else 400), (text, reply)
            survival.count("t_fp32", reply.status)
            if not good:
                error = check_error(reply)
                beyond = re.fullmatch("-?[0-9]+", text) and not -(2**63) <= int(text) < 2**63
                assert not beyond or text[:60] in error, (text, error)  # else it may have been taken for another number
        both = ["Inference-Header-Content-Length: %d" % whole] * 2
        (reply,) = talk(target, request("POST", INFER, CANARY_BODY, [*both, "Connection: close"]))
        assert reply.status == 400 and "more than one" in check_error(reply)


def test_numbers_of_content_length(target):
    with survives(target):
        for text in NUMBERS:
            vector = request("POST", INFER, headers=utf8_lines(f"Content-Length: {text}")) + CANARY_BODY
            with connect(target) as connection:
                send(connection, vector)
                if not (re.fullmatch("[0-9]+", text) and len(CANARY_BODY) < int(text) <= 64 * MIB):
                    status = int(connection.recv(65536)[9:12])  # else it waits for the rest of the body
                    good = re.fullmatch("[0-9]+", text) and int(text) in (0, len(CANARY_BODY))  # no body asks too
                    assert status == 200 if good else status in (400, 413), (text, status)


WEIGHTS = {"0": False, "0.0": False, "0.001": True, "0.5": True, "1": True, "1.0": True, "1.001": False, "2": False, "-1": False, "-0.5": False,
           "": False, "1e400": False, "NaN": False, "Infinity": False, "0x1": False, "1e-1": True, "9" * 400: False, "1;q=0": False, "a": False}


@pytest.mark.parametrize("coding", ["gzip", "deflate"])
def test_cve_2026_24175_weights_of_accept_encoding(target, coding):
    unpack = gzip.decompress if coding == "gzip" else zlib.decompress
    with survives(target) as survival:
        for text in [*WEIGHTS, *NUMBERS]:
            line = utf8_lines(f"Accept-Encoding: {coding};q={text}")
            (reply,) = talk(target, request("POST", INFER, CANARY_BODY, [*line, "Connection: close"]))
            assert reply.status == 200, (text, reply)
            packed = reply.headers.get("content-encoding") == coding
            body = unpack(reply.body) if packed else reply.body
            assert json.loads(body)["outputs"][0]["data"] == json.loads(CANARY_BODY)["inputs"][0]["data"]
            assert text not in WEIGHTS or packed == WEIGHTS[text], (text, reply.headers)
            survival.count("t_fp32", 200)


# --- bodies

@pytest.mark.parametrize("path", BODY_ROUTES)
def test_cve_2025_33201_47628_a_declared_body_over_the_limit_is_refused_from_the_head(target, path):
    """Nothing of the body is sent, and none of it is asked for."""
    with survives(target, singing=False):
        for size in (64 * MIB + 1, 2**31, 2**32 + 1, 2**63 - 1):
            for more in ([], ["Expect: 100-continue"]):
                with connect(target) as connection:
                    send(connection, request("POST", path, headers=[f"Content-Length: {size}", *more]))
                    data = receive_all(connection)
                (reply,) = replies(data)
                assert not data.startswith(b"HTTP/1.1 100")
                assert reply.status == 413 and "--http-max-input-size" in check_error(reply), (path, size, reply)


def test_cve_2025_23331_declared_sizes_cost_nothing(start_release, targets):
    """Sizes that a body claims to have, or its tensors: memory comes after the limit, and with the bytes."""
    server = start_release(targets, flags=EVERYTHING)
    sizes = [2**n + d for n in range(20, 64) for d in (-1, 0, 1)]

    def send_all():
        for size in sizes:
            tensor = {"name": "INPUT0", "shape": [1, size], "datatype": "FP32", "data": [1]}
            binary = {**tensor, "parameters": {"binary_data_size": size}}
            del binary["data"]
            for body in (tensor, binary):
                reply = first_reply(server, request("POST", INFER, json.dumps({"inputs": [body]}).encode(), ["Connection: close"]))
                assert reply.status == 400, (size, reply)
            if size > 64 * MIB and size < 2**63:
                reply = first_reply(server, request("POST", INFER, headers=[f"Content-Length: {size}"]))
                assert reply.status == 413, (size, reply)

    with survives(server, singing=False):
        check_no_growth(server, send_all, MIB, peak)


def test_a_stream_without_end_stops_at_the_limit(start_release, targets):
    """A TiB in chunks: no more is kept than the limit, and 64 KiB are taken from the socket beyond it."""
    server = start_release(targets, flags=EVERYTHING)
    chunk = b"10000\r\n" + b"x" * 65536 + b"\r\n"
    with survives(server, singing=False):
        for path in (INFER, "/v2/repository/index", "/v2/health/live"):
            before = rss(server)
            reset_peak(server)
            sent = 0
            with connect(server) as connection:
                method = "GET" if path.endswith("live") else "POST"
                connection.sendall(request(method, path, headers=["Transfer-Encoding: chunked"]))
                while sent < 2**40 and send(connection, chunk):
                    sent += 65536
                data = receive_all(connection)
            assert sent < 256 * MIB, sent
            assert not data or take_reply(data)[0].status == 413
            assert peak(server) - before <= 64 * MIB + 16 * MIB


def test_a_body_over_the_limit_is_not_read_beyond_it(start_server, targets, tmp_path):
    """strace counts what is taken into memory; what a refused client still sends is dropped in the kernel."""
    record = tmp_path / "reads"
    wrapper = ["strace", "-D", "-f", "--seccomp-bpf", "-qq", "-e", "trace=recvfrom", "-e", "signal=none", "-o", str(record)]
    limit = 4 * MIB
    server = start_server(
        targets, flags=[*EVERYTHING, f"--http-max-input-size={limit}"], wrapper=wrapper,
        variables={"ASAN_OPTIONS": "detect_leaks=0:exitcode=99"},
    )
    record.write_text("")
    with connect(server) as connection:
        send(connection, request("POST", INFER, headers=["Transfer-Encoding: chunked"]), *[b"1000\r\n" + b"x" * 4096 + b"\r\n"] * 4096)
        data = receive_all(connection)
    assert not data or take_reply(data)[0].status == 413
    server.stop()
    reads = re.findall(r"recvfrom\(\d+, .*, \d+, (\S+), .*\) = (\d+)$", record.read_text(errors="replace"), re.M)
    taken = sum(int(size) for flags, size in reads if "MSG_TRUNC" not in flags)
    assert limit <= taken <= limit + limit // 256 + 65536, taken


def test_the_canary_of_these_tests_works(target):
    (reply, _) = talk(target, CANARY, LIVE_AND_CLOSE)
    assert reply.status == 200
