# SPDX-License-Identifier: Apache-2.0
"""What bodies can hide: nesting, odd JSON, and bytes that unpack to many more (rows 7 and 9)."""
import contextlib
import functools
import gzip
import json
import zlib

import pytest
from conftest import EVERYTHING, wait_for
from oracle import MIB, check_no_growth, cpu_seconds, peak, reset_peak, rss, survives
from safety import on_threads
from wire import CANARY_BODY, check_error, connect, ready, receive_reply, request, send

pytestmark = [pytest.mark.slow, pytest.mark.long]

INFER = "/v2/models/t_fp32/infer"
UNLOAD = "/v2/repository/models/t_fp32/unload"
JSON_ROUTES = [INFER, "/v2/repository/index", "/v2/repository/models/t_fp32/load", UNLOAD]
LIMIT = 64 * MIB


def post(server, path, body, *headers):
    with connect(server) as connection:
        send(connection, request("POST", path, body, headers))
        return receive_reply(connection)


# --- nesting

def nested(depth, kind):
    """A value that nests so deep."""
    if kind == "arrays":
        return b"[" * depth + b"]" * depth
    if kind == "objects":
        return b'{"a":' * (depth - 1) + b"{}" + b"}" * (depth - 1)
    return (b'[{"a":' * depth)[: depth * 6] + b"1" + b"}]" * depth  # twice as deep


def wrapped(path, value):
    """The value one deeper, in a member that the route does not know."""
    return (CANARY_BODY[:-1] + b"," if path == INFER else b"{") + b'"x":' + value + b"}"


@pytest.mark.parametrize("path", JSON_ROUTES)
def test_cve_2025_23325_nesting_of_100_is_handled_and_101_is_not(target, path):
    """Control routes count from the whole text, inference from the member, as Triton does."""
    most = 100 if path == INFER else 99
    with survives(target) as survival:
        for kind in ("arrays", "objects"):
            deep = post(target, path, wrapped(path, nested(most + 1, kind)))
            if path == UNLOAD:  # its body is passed over
                assert deep.status == 200 and "nesting depth" in target.log, (kind, deep)
            else:
                assert deep.status == 400 and "nesting depth" in check_error(deep), (kind, deep)
            reply = post(target, path, wrapped(path, nested(most, kind)))
            assert reply.status == 200, (kind, reply)
            if path == INFER:
                survival.count("t_fp32", 200)
        assert post(target, "/v2/repository/models/t_fp32/load", b"").status == 200


def test_nesting_of_tensor_data(target):
    with survives(target) as survival:
        for depth, status in ((1, 200), (97, 200), (101, 400), (5000, 400)):
            data = b"[" * depth + b"1" + b"]" * depth
            reply = post(target, INFER, b'{"inputs":[{"name":"INPUT0","shape":[1,1],"datatype":"FP32","data":' + data + b"}]}")
            assert reply.status == status, (depth, reply)
            survival.count("t_fp32", reply.status)


@pytest.mark.parametrize("path", JSON_ROUTES)
def test_cve_2026_47477_nesting_of_millions(target, path):
    """Every stack of the server is a thread's; ten million levels would end any."""
    with survives(target):
        for depth in (250_000, 10_000_000):
            for body in (nested(depth, "arrays"), wrapped(path, nested(depth, "arrays")), b"[" * depth, b'{"a":' * depth):
                reply = post(target, path, body)
                assert reply.status == (200 if path == UNLOAD else 400), (depth, body[:20], reply)
                if path != UNLOAD:
                    check_error(reply)
        assert post(target, "/v2/repository/models/t_fp32/load", b"").status == 200


def test_nesting_of_a_configuration(target):
    with survives(target):
        for depth in (101, 250_000):
            # lists in lists are one list; in objects the first name that is no field ends it
            for kind, words in (("arrays", "nesting depth"), ("objects", "Cannot find field")):
                config = '{"input":' + nested(depth, kind).decode() + "}"
                reply = post(target, "/v2/repository/models/t_fp32/load", json.dumps({"parameters": {"config": config}}).encode())
                assert reply.status == 400 and words in check_error(reply), (depth, reply)


# --- odd JSON

def data_of(value):
    return b'{"inputs":[{"name":"INPUT0","shape":[1,1],"datatype":"FP32","data":[' + value + b"]}]}"


def row_of(count, text):
    return b'{"inputs":[{"name":"INPUT0","shape":[1,%d],"datatype":"FP32","data":[%s0]}]}' % (count, text)


def with_id(value):
    return b'{"id":"' + value + b'",' + CANARY_BODY[1:]


ODD = {
    "key twice": (CANARY_BODY[:-1] + b"," + CANARY_BODY[1:], 400),
    "unknown key twice": (CANARY_BODY[:-1] + b',"x":1,"x":2}', 200),
    "parameter twice": (CANARY_BODY[:-1] + b',"parameters":{"a":1,"a":2}}', 200),
    "protocol parameter twice": (CANARY_BODY[:-1] + b',"parameters":{"priority":1,"priority":2}}', 400),
    "lone high surrogate": (with_id(b"\\ud800"), 400),
    "lone low surrogate": (with_id(b"\\udc00"), 400),
    "surrogates in the wrong order": (with_id(b"\\udc00\\ud800"), 400),
    "a pair of surrogates": (with_id(b"\\ud83d\\ude00"), 200),
    "escaped NUL": (with_id(b"a\\u0000b"), 400),
    "raw NUL": (with_id(b"a\0b"), 400),
    "NUL behind": (CANARY_BODY + b"\0", 200),
    "text behind a NUL": (CANARY_BODY + b"\0x", 400),
    "NUL before": (b"\0" + CANARY_BODY, 400),
    "byte order mark": (b"\xef\xbb\xbf" + CANARY_BODY, 200),
    "UTF-16": (CANARY_BODY.decode().encode("utf-16"), 400),
    "overlong slash": (with_id(b"\xc0\xaf"), 400),
    "cut UTF-8": (with_id(b"\xe2\x82"), 400),
    "UTF-8 beyond Unicode": (with_id(b"\xf4\x90\x80\x80"), 400),
    "surrogate in UTF-8": (with_id(b"\xed\xa0\x80"), 400),
    "bad escape": (with_id(b"\\x41"), 400),
    "cut escape": (with_id(b"\\u12"), 400),
    "backslash at the end": (b'{"id":"\\', 400),
    "raw newline": (with_id(b"a\nb"), 400),
    "1e999": (data_of(b"1e999"), 400),
    "-1e999": (data_of(b"-1e999"), 400),
    "1e-999": (data_of(b"1e-999"), 200),
    "NaN": (data_of(b"NaN"), 200),
    "nan": (data_of(b"nan"), 400),
    "-Infinity": (data_of(b"-Infinity"), 200),
    "+1": (data_of(b"+1"), 400),
    "hexadecimal": (data_of(b"0x10"), 400),
    "01": (data_of(b"01"), 400),
    "1.": (data_of(b"1."), 400),
    ".5": (data_of(b".5"), 400),
    "1e": (data_of(b"1e"), 400),
    "--1": (data_of(b"--1"), 400),
    "a million digits": (data_of(b"1" * 1_000_000), 400),
    "a million digits behind the point": (data_of(b"0." + b"3" * 1_000_000), 200),
    "a million zeros": (data_of(b"0." + b"0" * 1_000_000 + b"1"), 200),
    "an exponent of a million digits": (data_of(b"1e" + b"1" * 1_000_000), 400),
    "a string of 16 MiB": (CANARY_BODY[:-1] + b',"x":"' + b"a" * 16 * MIB + b'"}', 200),
    "an id of 64 KiB": (with_id(b"a" * 65536), 200),
    "an id of 16 MiB": (with_id(b"a" * 16 * MIB), 400),
    "a key of 16 MiB": (CANARY_BODY[:-1] + b',"' + b"a" * 16 * MIB + b'":1}', 200),
    "16 MiB of escapes": (CANARY_BODY[:-1] + b',"x":"' + b"\\n" * 8 * MIB + b'"}', 200),
    "16 MiB of blanks": (CANARY_BODY[:-1] + b" " * 16 * MIB + b"}", 200),
    "comma at the end": (CANARY_BODY[:-1] + b",}", 400),
    "two documents": (CANARY_BODY * 2, 400),
    "single quotes": (CANARY_BODY.replace(b'"', b"'"), 400),
    "comment": (b"/**/" + CANARY_BODY, 400),
    "a number": (b"1", 400),
    "a string": (b'"x"', 400),
    "null": (b"null", 400),
    "nothing": (b" ", 400),
}


@pytest.mark.once
@pytest.mark.parametrize("case", ODD)
def test_odd_json_is_read_exactly_or_refused(target, case):
    body, status = ODD[case]
    with survives(target, singing=False) as survival:
        reply = post(target, INFER, body)
        assert reply.status == status, reply
        if status == 400:
            check_error(reply)
        else:
            json.loads(reply.body)
        survival.count("t_fp32", reply.status)


@pytest.mark.once
@pytest.mark.parametrize("path", JSON_ROUTES[1:])
def test_odd_json_on_control_routes(target, path):
    """The odd ones without the request around them; whatever the answer, it is one."""
    with survives(target):
        for case, (body, _) in ODD.items():
            reply = post(target, path, body)
            assert reply.status in (200, 400), (case, reply)
            if reply.status == 400:
                check_error(reply)
        assert post(target, "/v2/repository/models/t_fp32/load", b"").status == 200


@pytest.mark.alone
def test_json_takes_time_in_proportion_to_its_size(start_release, targets):
    """Ten times the text costs at most 12 times the CPU and a little; sizes are such that noise is small against them."""
    server = start_release(targets, flags=EVERYTHING)
    shapes = {
        "numbers": lambda n: row_of(n // 4 + 1, b"1.5," * (n // 4)),
        "lines": lambda n: row_of(n // 3 + 1, b"1,\n" * (n // 3)),
        "runs": lambda n: row_of(n // 400 * 200 + 1, (b"1," * 199 + b"1\n,") * (n // 400)),
        "nothing known": lambda n: CANARY_BODY[:-1] + b',"x":[' + b"{}," * (n // 3) + b"1]}",
        "a string": lambda n: with_id(b"\\u00e4" * (n // 6)),
        "digits": lambda n: data_of(b"0." + b"3" * n),
        "tensors": lambda n: b'{"inputs":[' + b",".join(b'{"name":"%x","shape":[0],"datatype":"FP32"}' % i for i in range(n // 800)) + b"]}",
    }
    for name, shape in shapes.items():
        def cost(size):
            before = cpu_seconds(server)
            post(server, INFER, shape(size))
            return cpu_seconds(server) - before

        small = sum(cost(3 * MIB // 10) for _ in range(10)) / 10
        assert cost(3 * MIB) <= 12 * small + 0.25, (name, small)


# --- bombs

def bomb(size, coding="gzip"):
    """`size` zeroes, packed."""
    packer = zlib.compressobj(9, zlib.DEFLATED, {"gzip": 31, "deflate": 15, "raw": -15}[coding])
    zeros = bytes(MIB)
    return b"".join(packer.compress(zeros) for _ in range(size // MIB)) + packer.flush()


@functools.cache
def bombs():
    gib = bomb(1024 * MIB)  # a MiB; several of them are one body of several members
    return {
        "gzip": (gib, "gzip", 413),
        "ten members of a GiB": (gib * 10, "gzip", 413),
        "deflate": (bomb(1024 * MIB, "deflate"), "deflate", 413),
        "raw deflate": (bomb(128 * MIB, "raw"), "deflate", 400),
        "the other name": (bomb(128 * MIB, "deflate"), "gzip", 413),
        "members of a byte": (gzip.compress(b" ", 9) * 100_000, "gzip", 400),
        "empty members": (gzip.compress(b"", 9) * 100_000, "gzip", 200),  # no body: no elements, all models
        "gzip in gzip": (gzip.compress(gib), "gzip", 400),
        "two codings": (gzip.compress(gib), "gzip, gzip", 501),
        "a coding twice": (gib, "gzip\r\nContent-Encoding: gzip", 501),
        "one byte over": (gzip.compress(b" " * (LIMIT + 1)), "gzip", 413),
        "exactly the limit": (gzip.compress(b" " * LIMIT), "gzip", 400),
        "cut off": (gib[: len(gib) // 512], "gzip", 400),
        "junk behind": (gzip.compress(CANARY_BODY) + b"junk", "gzip", 400),
        "flipped": (gib[:20] + b"\xff" * 10 + gib[30:], "gzip", 400),
        "wrong checksum": (gzip.compress(CANARY_BODY)[:-8] + bytes(8), "gzip", 400),
        "nothing": (b"\x1f\x8b", "gzip", 400),
        "a preset dictionary": (b"\x78\xbb\0\0\0\0" + bytes(100), "deflate", 400),
        "a name that does not end": (b"\x1f\x8b\x08\x08" + bytes(6) + b"a" * MIB, "gzip", 400),
        "no coding of ours": (CANARY_BODY, "br", 501),
    }


@pytest.mark.parametrize("path", [INFER, "/v2/repository/index"])
def test_cve_2026_24158_bombs_stop_at_the_limit(start_release, targets, path):
    server = start_release(targets, flags=EVERYTHING)
    with survives(server):
        for name, (body, coding, status) in bombs().items():
            before, cpu = rss(server), cpu_seconds(server)
            reset_peak(server)
            reply = post(server, path, body, f"Content-Encoding: {coding}")
            assert reply.status == status, (name, reply)
            if status != 200:
                check_error(reply)
            # The body as sent, what it unpacks to up to the limit, and a first guess beside it.
            assert peak(server) - before <= len(body) + LIMIT + 8 * MIB, (name, (peak(server) - before) / MIB)
            assert cpu_seconds(server) - cpu <= 5, name  # 0.1 s where nothing else runs


BUDGET = 32 * MIB
BOUNDED = [*EVERYTHING, f"--http-max-inflight-bytes={BUDGET}", f"--http-max-input-size={16 * MIB}"]
OWN = 16 * MIB  # what connections, threads and malloc have of their own; 11 MiB were measured


def test_a_hundred_bombs_at_once_stay_under_the_budget(start_release, targets):
    """Those beyond it are told to come again, in any order; the process keeps within it, what it keeps for the next included."""
    server = start_release(targets, flags=BOUNDED)
    packed = bomb(64 * MIB)
    with survives(server):
        before = rss(server)
        reset_peak(server)
        statuses = set()
        on_threads(100, lambda _: statuses.add(post(server, INFER, packed, "Content-Encoding: gzip").status))
        assert statuses <= {413, 503} and 413 in statuses, statuses
        assert peak(server) - before <= BUDGET + OWN, (peak(server) - before) / MIB  # as sent and unpacked: 1.6 GiB


def test_a_hundred_announced_bodies_count_by_the_pages_that_they_touch(start_release, targets):
    """The first piece of a large body touches a large page, whose 2 MiB are memory like any."""
    server = start_release(targets, flags=BOUNDED)
    head = request("POST", INFER, headers=[f"Content-Length: {8 * MIB}"])
    with survives(server, singing=False), contextlib.ExitStack() as stack:
        before = rss(server)
        connections = [stack.enter_context(connect(server)) for _ in range(100)]
        for connection in connections:
            send(connection, head, bytes(64 << 10))
        wait_for("a refusal", lambda: any(ready(connection, True, False, 0)[0] for connection in connections))
        assert server.ask("/v2/health/live").status == 200
        assert rss(server) - before <= BUDGET + OWN, (rss(server) - before) / MIB


def test_cve_2026_24264_json_counts_by_what_it_describes(start_server, targets):
    """FP64 of two bytes of text each has eight: the limit is on the larger of the two."""
    server = start_server(targets, flags=[*EVERYTHING, "--http-max-input-size=1000000"])
    with survives(server) as survival:
        for count, status in ((100_000, 200), (125_000, 200), (125_001, 400), (400_000, 400)):
            body = b'{"inputs":[{"name":"INPUT0","shape":[1,%d],"datatype":"FP64","data":[%s0]}]}' % (count, b"0," * (count - 1))
            assert len(body) < 1_000_000
            reply = post(server, "/v2/models/t_fp64/infer", body)
            assert reply.status == status, (count, reply)
            if status == 400:
                assert "--http-max-input-size" in check_error(reply)
            survival.count("t_fp64", reply.status)


def test_cve_2026_47482_failing_packed_requests_leave_no_memory(start_release, targets):
    """10,000 of six kinds."""
    server = start_release(targets, flags=EVERYTHING)
    good = gzip.compress(data_of(b"1") + b" " * 200_000)
    kinds = [
        good[:-100], good[:50] + b"\xff" * 50 + good[100:], good + b"x", gzip.compress(b"[" * 100_000), gzip.compress(b'{"inputs":[]}'),
        gzip.compress(data_of(b"1,2")),
    ]

    def fail(count):
        with connect(server) as connection:
            for i in range(count):
                send(connection, request("POST", INFER, kinds[i % len(kinds)], ["Content-Encoding: gzip"]))
                assert receive_reply(connection).status == 400

    with survives(server, singing=False):
        check_no_growth(server, lambda: fail(10_000), 8 * MIB)
