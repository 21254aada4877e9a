# SPDX-License-Identifier: Apache-2.0
"""Row 4: no bytes make two servers on one way see different requests.

Each vector is followed at once by an honest request. Either the vector is refused and the connection closed, so that what
follows is never looked at, or it is one request with one reply and the honest one is answered next. A request that stands in
a body is never answered.
"""
import ctypes
import json

import pytest
from conftest import wait_for
from oracle import Counters, survives
from safety import on_threads
from wire import CANARY_BODY, LIVE_AND_CLOSE, check_error, connect, receive_all, replies, send, take_reply

SMUGGLED = b"GET /v2/models/smuggled HTTP/1.1\r\nHost: x\r\n\r\n"
SIZE = len(CANARY_BODY)
WHOLE = b"%x\r\n%s\r\n0\r\n\r\n" % (SIZE, CANARY_BODY)  # the body in one chunk
HIDDEN = b"0\r\n\r\n" + SMUGGLED  # no body for who reads chunks, a body for who does not
LENGTH = b"Content-Length: %d" % SIZE
CHUNKED = b"Transfer-Encoding: chunked"
BLANKS = [b" ", b"\t", b"  ", b"\x0b", b"\x0c", b"\xa0", b"\r", b"\0"]


def post(*fields, body=CANARY_BODY, host=b"Host: x", version=b"HTTP/1.1", end=b"\r\n"):
    lines = [b"POST /v2/models/t_fp32/infer " + version, *([host] if host else []), *fields]
    return end.join(lines) + 2 * end + body


def two_framings():
    """Transfer-Encoding and Content-Length, in any order, of any spelling."""
    codings = [b"chunked", b"Chunked", b"identity", b"gzip", b"gzip, chunked", b"chunked, identity", b"chunked;q=1", b"xchunked",
               b"chunke", b"\"chunked\"", b"'chunked'", b"chunked chunked", b"chunked,", b",chunked", b"", b"\x0bchunked", b"chunk\0ed"]
    for coding in codings:
        yield post(b"Transfer-Encoding: " + coding, LENGTH, body=HIDDEN)
        yield post(LENGTH, b"Transfer-Encoding: " + coding, body=HIDDEN)
        if coding.lower() != b"chunked":
            yield post(b"Transfer-Encoding: " + coding, body=HIDDEN)
    yield post(CHUNKED, CHUNKED, body=HIDDEN)
    yield post(CHUNKED, b"Transfer-Encoding: identity", body=HIDDEN)
    yield post(b"Transfer-Encoding: identity", CHUNKED, body=HIDDEN)


def lengths():
    """Two of them, or one that is none."""
    for one, other in [(SIZE, SIZE), (SIZE, 0), (0, SIZE), (SIZE, SIZE + 1), (len(SMUGGLED), 0)]:
        yield post(b"Content-Length: %d" % one, b"Content-Length: %d" % other, body=SMUGGLED)
        yield post(b"Content-Length: %d, %d" % (one, other), body=SMUGGLED)
    for text in [b"", b"+5", b"-5", b"-0", b"0x5", b"5.0", b"5e0", b"5 5", b"5;5", b"five", b"1_0", b"\xb2", b"5\x005", b"5\x0b", b"'5'",
                 b"%d" % 2**63, b"%d" % 2**64, b"%d" % (2**64 + 5), b"9" * 400]:
        yield post(b"Content-Length: " + text, body=SMUGGLED)


def names():
    """Fields that one server takes for the framing and another does not."""
    yield post(LENGTH, b"Host: x\0", body=SMUGGLED, host=None)
    for blank in BLANKS:
        for name, value, body in [(b"Content-Length", b"%d" % len(SMUGGLED), SMUGGLED), (b"Transfer-Encoding", b"chunked", HIDDEN)]:
            yield post(name + blank + b": " + value, body=body)
            yield post(blank + name + b": " + value, body=body)
            yield post(b"X: y", name + blank + b": " + value, body=body)
            yield post(name + b": " + value + blank, b"X: y", body=body)
            yield post(b"X: y", name + b": " + value + blank, body=body)
    for name in [b"Content-Length\x80", b"Content Length", b"Content-Length;", b"Content-Length,x", b"\"Content-Length\"", b"(Content-Length)",
                 b"Content-Length@x", b"Content-Length=5", b"Content-Length\x7f", b"Content-Length\x01"]:
        yield post(name + b": %d" % len(SMUGGLED), body=SMUGGLED)
    for line in [b":", b": x", b" : x", b"Content-Length", b"Transfer-Encoding chunked", b"X", b"\x80", b"\0: x"]:
        yield post(line, LENGTH, body=SMUGGLED)


def lines():
    """Ends and folds."""
    yield post(LENGTH, end=b"\n")
    yield post(b"X: y\nTransfer-Encoding: chunked", LENGTH, body=HIDDEN)
    yield post(b"X: y\rTransfer-Encoding: chunked", LENGTH, body=HIDDEN)
    yield post(b"X: y\r\rTransfer-Encoding: chunked", LENGTH, body=HIDDEN)
    yield post(b"X: y\n\rTransfer-Encoding: chunked", LENGTH, body=HIDDEN)
    yield post(b"X: y\0\nTransfer-Encoding: chunked", LENGTH, body=HIDDEN)
    yield post(b"X: y\r" + LENGTH, body=SMUGGLED)
    yield post(LENGTH, end=b"\r")
    for blank in (b" ", b"\t", b" \t "):
        yield post(b"Content-Length:", blank + b"%d" % len(SMUGGLED), body=SMUGGLED)
        yield post(b"Content-Length: 1", blank + b"%d" % len(SMUGGLED), b"X: y", body=SMUGGLED)
        yield post(b"Transfer-Encoding:", blank + b"chunked", body=HIDDEN)
        yield post(b"Transfer-Encoding: chun", blank + b"ked", LENGTH, body=HIDDEN)
        yield post(b"X: y", blank + b"Transfer-Encoding: chunked", LENGTH, body=HIDDEN)
        yield post(blank + b"X: y", LENGTH, body=HIDDEN, host=b"Host: x")
        yield post(b"X: y", blank, blank + b"z", LENGTH)
    yield post(b"Host: y", LENGTH)
    yield post(LENGTH, host=b" Host: x")
    for version in (b"HTTP/2.0", b"HTTP/0.9", b"HTTP/1.10", b"http/1.1", b"HTTP/1.1 ", b"HTTP/1,1", b"HTTP 1.1", b"HTTP/11", b"XTTP/1.1", b""):
        yield post(LENGTH, version=version)


def chunks():
    """Chunks whose sizes or ends are not what they should be."""
    for size in [b"", b"g", b"-1", b"+5", b"0x5", b"5g", b" 5", b"5 ", b"\t5", b"5\x005", b"'5'", b"5,5", b"5.", b"%x" % 2**64, b"%x" % (2**64 + 1),
                 b"f" * 17, b"f" * 400, b"1" + b"0" * 64, b"%x " % SIZE, b"%x\x0b" % SIZE, b"%x\xa0" % SIZE]:
        yield post(CHUNKED, body=size + b"\r\n" + CANARY_BODY + b"\r\n" + HIDDEN)
    for between in [b"", b"XX", b"\r", b"\rX", b"X\r\n", b"\0\0", b"\n\r", b"\n"]:
        yield post(CHUNKED, body=b"%x\r\n%s%s" % (SIZE, CANARY_BODY, between) + HIDDEN)
    yield post(CHUNKED, body=b"%x\r%s\r0\r\r" % (SIZE, CANARY_BODY))
    yield post(CHUNKED, body=b"%x\r\n%s\r\n" % (SIZE - 1, CANARY_BODY) + HIDDEN)
    yield post(CHUNKED, body=WHOLE.replace(b"\r\n", b"\n"))
    yield post(CHUNKED, body=b"%x\n%s\r\n0\r\n\r\n" % (SIZE, CANARY_BODY))
    yield post(CHUNKED, body=WHOLE[:-4] + b"\n\n")
    yield post(CHUNKED, body=WHOLE[:-2] + b"\n")
    # A body that hides in an extension, for who ends a chunk's line at LF.
    hidden = HIDDEN[:-2] + b"X-Pad: " + b"a" * 200 + b"\r\n\r\n"
    padded = CANARY_BODY + b" " * (len(hidden) - SIZE)
    yield post(CHUNKED, body=b"%x;\n%s\r\n%s\r\n0\r\n\r\n" % (len(padded), padded, hidden))
    for trailer in [b"GET /v2/models/smuggled HTTP/1.1", b"no colon", b" folded", b"\0"]:
        yield post(CHUNKED, body=b"%x\r\n%s\r\n0\r\n%s\r\n\r\n" % (SIZE, CANARY_BODY, trailer))


def request_lines():
    for line in [b"GET /v2/health/live smuggled HTTP/1.1", b"GET\t/v2\tHTTP/1.1", b" GET /v2 HTTP/1.1", b"GET /v2\x00 HTTP/1.1", b"GET",
                 b"GET /v2", b"GET  HTTP/1.1", b"\0", b"PRI * HTTP/2.0", b"GET /v2\x0b HTTP/1.1", b"GET /v2\x01 HTTP/1.1"]:
        yield line + b"\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % len(SMUGGLED) + SMUGGLED


REFUSED = {
    "two framings": two_framings, "lengths": lengths, "names": names, "lines": lines, "chunks": chunks, "request lines": request_lines,
}


def ask(server, vector):
    with connect(server) as connection:
        send(connection, vector, LIVE_AND_CLOSE)
        return receive_all(connection)


def check_refused(server, vector):
    """At most one reply, an error, and then the end."""
    data = ask(server, vector)
    assert b"smuggled" not in data and b" 200 " not in data, (vector, data)
    if data:
        reply, rest = take_reply(data)
        assert reply is not None and rest == b"", (vector, data)
        assert 400 <= reply.status < 500 or reply.status in (501, 505), (vector, data)
        assert reply.headers["connection"] == "close", (vector, data)
        check_error(reply)


@pytest.mark.parametrize("kind", REFUSED)
def test_ambiguous_requests_are_refused_and_the_connection_closed(target, kind):
    vectors = list(REFUSED[kind]())
    with survives(target):
        workers = 8
        on_threads(workers, lambda i: [check_refused(target, vector) for vector in vectors[i::workers]])


def test_there_are_enough_vectors():
    assert sum(len(list(kind())) for kind in REFUSED.values()) >= 200


# What libmicrohttpd takes where HTTP lets it, or where nothing hangs on it.
LENIENT = {
    "empty lines before": b"\r\n\r\n" + post(LENGTH),
    "spaces in the request line": post(LENGTH).replace(b"POST /", b"POST   /"),
    "leading zeros": post(b"Content-Length: 000%d" % SIZE),
    "blanks around the value": post(b"Content-Length: \t %d" % SIZE),
    "a tab before chunked": post(b"Transfer-Encoding:\tchunked", body=WHOLE),
    "upper case": post(b"TRANSFER-ENCODING: CHUNKED", body=WHOLE),
    "chunk size with zeros": post(CHUNKED, body=b"0" * 30 + WHOLE),
    "chunk size in upper case": post(CHUNKED, body=b"%X" % SIZE + WHOLE[2:]),
    "last chunk of many zeros": post(CHUNKED, body=WHOLE.replace(b"\r\n0\r\n", b"\r\n0000\r\n")),
    "no Host": post(LENGTH, host=None),
    "a whole URL": post(LENGTH).replace(b"POST /", b"POST http://elsewhere:80/"),
    "a whole URL, https": post(LENGTH).replace(b"POST /", b"POST HTTPS://[::1]/"),
    "HTTP/1.2": post(LENGTH, version=b"HTTP/1.2"),
    **{
        f"trailer {name}": post(CHUNKED, body=WHOLE[:-2] + name.encode() + b"\r\n\r\n")
        for name in ("Content-Length: 500", "Transfer-Encoding: chunked", "Host: y", "Content-Encoding: gzip", "X: y",
                     "Inference-Header-Content-Length: 1", "Connection: keep-alive")
    },
}


@pytest.mark.parametrize("kind", LENIENT)
def test_what_is_taken_is_one_request_with_one_reply(target, kind):
    with survives(target, singing=False) as survival:
        found = replies(ask(target, LENIENT[kind]))
        assert [reply.status for reply in found] == [200, 200], found
        assert json.loads(found[0].body)["outputs"][0]["data"] == json.loads(CANARY_BODY)["inputs"][0]["data"]
        assert found[1].body == b"" and found[1].headers["connection"] == "close"
        survival.count("t_fp32", 200)


def test_extensions_of_chunks_are_taken_where_libmicrohttpd_can_read_them(target):
    library = ctypes.CDLL("libmicrohttpd.so.12")
    library.MHD_get_version.restype = ctypes.c_char_p
    version = tuple(map(int, library.MHD_get_version().decode().split(".")))
    found = replies(ask(target, post(CHUNKED, body=WHOLE.replace(b"\r\n", b";a=b;c=\"d\"\r\n", 1))))
    refused = len(found) == 1 and found[0].status == 400 and "extension" in found[0].error
    assert refused or [reply.status for reply in found] == [200, 200], found
    if version[0] == 0 or version >= (1, 0, 10):
        assert not refused
    if (1, 0, 0) <= version < (1, 0, 2):
        assert refused


def test_a_chunk_that_never_ends_is_a_body_that_stalls(start_server, targets):
    """Sizes that fit in 64 bits are waited for; what follows is body, and no request."""
    server = start_server(targets, flags=["--model-control-mode=explicit", "--load-model=canary", "--http-body-timeout-ms=500"])
    with survives(server, singing=False):
        for size in (2**32 + SIZE, 2**40, 2**63, 2**64 - 1):
            vector = post(CHUNKED, body=b"%x\r\n" % size + CANARY_BODY + b"\r\n" + HIDDEN).replace(b"t_fp32", b"canary")
            assert ask(server, vector) == b"", size
        counters = Counters.of(server)
        wait_for("no request", lambda: counters["canary"]["pending"] == 0)
