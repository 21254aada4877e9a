# SPDX-License-Identifier: Apache-2.0
"""One request, one reply: also where libmicrohttpd would answer by itself, with a page of HTML or with two heads.

Each vector goes over a raw socket to the HTTP port, the metrics port, a Unix socket and TLS.
"""
import contextlib
import re
import socket
import ssl

import pytest
from certificates import make_certificates, tls_flags
from conftest import DEADLINE, EVERYTHING, Starter, wait_for
from safety import on_threads
from wire import check_error, request, take_reply

STATUS_LINE = re.compile(rb"HTTP/[0-9.]+ \d{3}")
PLACES = ("http", "metrics", "unix", "tls")


class Place:
    """Where to connect, and how."""

    def __init__(self, family, address, context=None):
        self.family, self.address, self.context = family, address, context

    @contextlib.contextmanager
    def connect(self):
        with socket.socket(self.family) as plain:
            plain.settimeout(DEADLINE)
            plain.connect(self.address)
            with self.context.wrap_socket(plain) if self.context else contextlib.nullcontext(plain) as connection:
                yield connection

    def ask(self, vector):
        """All that comes back until the server closes, which must not be a reset."""
        with self.connect() as connection:
            connection.sendall(vector)
            if not self.context:
                connection.shutdown(socket.SHUT_WR)
            data = b""
            while piece := connection.recv(1 << 16):
                data += piece
            return data


@pytest.fixture(scope="module")
def places(nereid, backends, targets, tmp_path_factory):
    directory = tmp_path_factory.mktemp("places")
    starter = Starter(nereid, backends, directory)
    certificates = make_certificates(directory)
    context = ssl.create_default_context(cafile=certificates / "ca.pem")
    context.check_hostname = False
    try:
        plain = starter(targets, flags=EVERYTHING)
        path = directory / "socket"
        local = starter(targets, flags=[*EVERYTHING, "--metrics-address=127.0.0.1", f"--http-address=unix:{path}"], wait=False)
        wait_for("the socket", lambda: "Started HTTPService" in local.log)
        secure = starter(targets, flags=[*EVERYTHING, *tls_flags(certificates)], ready=False)
        yield {
            "http": Place(socket.AF_INET, ("127.0.0.1", plain.http_port)), "unix": Place(socket.AF_UNIX, str(path)),
            "metrics": Place(socket.AF_INET, ("127.0.0.1", plain.metrics_port)),
            "tls": Place(socket.AF_INET, ("127.0.0.1", secure.http_port), context),
        }
    finally:
        starter.stop_all()


def the_reply(data, vector):
    """The only one; bytes in front, behind or between fail, and so does a head that is no head."""
    assert len(STATUS_LINE.findall(data)) == 1, (vector[:200], data)
    reply, rest = take_reply(data)
    assert reply is not None and rest == b"", (vector[:200], data)
    return reply


def with_length(*fields):
    lines = [b"GET /metrics HTTP/1.1", b"Host: x", b"Connection: close", *fields]
    return b"\r\n".join(lines) + b"\r\n\r\nhello"


BAD_LENGTHS = [
    b"-1", b"-5", b"-0", b"+5", b"0x5", b"5h", b"", b" ", b"\t", b"5 5", b"5\t5", b"5;5", b"5.0", b"5e0", b"five", b"NaN", b"1_0", b"\xb2", b"'5'",
    b'"5"', b"5\x0b", b"5 ", b"5\t", b" 5 ", b"5, 5", b"5,5", b"5, 6", b"5,", b",5", b"%d", b"--5", b"5-", b"0b101", b"\xd9\xa5", b"9" * 400, b"%d" % 2**64, b"%d" % (2**64 + 5),
]
GOOD_LENGTHS = [b"5", b"0005", b"0" * 400 + b"5", b"\t5", b"  5"]


@pytest.mark.parametrize("place", PLACES)
def test_a_length_that_is_none_gets_one_reply(places, place):
    vectors = [with_length(b"Content-Length: " + text) for text in BAD_LENGTHS]
    vectors += [with_length(b"Content-Length:" + text) for text in BAD_LENGTHS if text.strip()]

    def check(worker):
        for vector in vectors[worker::4]:
            reply = the_reply(places[place].ask(vector), vector)
            assert reply.status in (400, 413), (vector, reply)
            assert reply.headers["connection"] == "close" and reply.headers["content-type"] == "application/json"
            check_error(reply)

    on_threads(4, check)


@pytest.mark.parametrize("place", PLACES)
def test_a_length_that_is_one_is_taken(places, place):
    for text in GOOD_LENGTHS:
        vector = with_length(b"Content-Length: " + text)
        reply = the_reply(places[place].ask(vector), vector)
        assert reply.status == (200 if place == "metrics" else 404), (text, reply)


@pytest.mark.parametrize("place", PLACES)
def test_more_than_one_length_gets_one_reply(places, place):
    chunked = b"Transfer-Encoding: chunked"
    for fields in [
        (b"Content-Length: 5", b"Content-Length: 5"), (b"Content-Length: 5", b"Content-Length: 6"), (b"Content-Length: x", b"Content-Length: 5"),
        (b"Content-Length: 5", chunked), (chunked, b"Content-Length: 5"), (chunked, b"Content-Length: -5"), (b"Content-Length: 5,5", chunked),
        (b"Transfer-Encoding: gzip", b"Content-Length: 5"), (chunked, chunked), (b"Content-Length: %d" % 2**63,),
    ]:
        vector = with_length(*fields)
        reply = the_reply(places[place].ask(vector), vector)
        assert reply.status in (400, 413), (vector, reply)
        check_error(reply)


def chunked(body):
    return request("POST", "/v2/models/t_fp32/infer", headers=["Transfer-Encoding: chunked"]) + body


PAGES = {
    "no version": (b"GET /v2\r\n\r\n", 400),
    "a tab": (b"GET\t/v2 HTTP/1.1\r\nHost: x\r\n\r\n", 400),
    "a blank behind the version": (b"GET /v2 HTTP/1.1 \r\nHost: x\r\n\r\n", 400),
    "a line without a colon": (b"GET /v2 HTTP/1.1\r\nHost: x\r\nfield\r\n\r\n", 400),
    "a chunk's size is no number": (chunked(b"zz\r\nhello\r\n0\r\n\r\n"), 400),
    "a chunk's size beyond 64 bits": (chunked(b"%x\r\nhello\r\n0\r\n\r\n" % 2**64), (400, 413)),
    "a chunk longer than its size": (chunked(b"2\r\nhello\r\n0\r\n\r\n"), 400),
    "a trailer without a colon": (chunked(b"5\r\nhello\r\n0\r\nfield\r\n\r\n"), 400),
    "a long URL": (b"GET /" + b"a" * 100_000 + b" HTTP/1.1\r\nHost: x\r\n\r\n", 414),
    "a long method": (b"G" * 100_000 + b" / HTTP/1.1\r\nHost: x\r\n\r\n", 414),
    "a long field": (request("GET", "/v2", headers=["X: " + "y" * 100_000]), 431),
    "many fields": (request("GET", "/v2", headers=["X: y"] * 10_000), 431),
    "HTTP/2.0": (b"GET /v2 HTTP/2.0\r\nHost: x\r\n\r\n", 505),
    "HTTP/0.9": (b"GET /v2 HTTP/0.9\r\nHost: x\r\n\r\n", 505),
    "HTTP/2's preface": (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0\0", 505),
}


@pytest.mark.parametrize("case", PAGES)
@pytest.mark.parametrize("place", PLACES)
def test_what_cannot_be_read_is_refused_in_json(places, place, case):
    vector, expected = PAGES[case]
    if place == "metrics":  # which refuses a POST for its method
        vector = vector.replace(b"POST /v2/models/t_fp32/infer", b"GET /metrics")
    reply = the_reply(places[place].ask(vector), vector)
    assert reply.status in (expected if isinstance(expected, tuple) else (expected,)), reply
    assert reply.headers["content-type"] == "application/json" and reply.headers["connection"] == "close"
    check_error(reply)


@pytest.mark.parametrize("place", ["http", "unix", "metrics"])
def test_bytes_that_are_no_request_get_a_reply_at_once(places, place):
    """TLS on a plain port, and what has no line: nobody waits for more of it."""
    for vector in [
        b" GET /v2 HTTP/1.1\r\nHost: x\r\n\r\n", b"GET\t/v2\tHTTP/1.1\r\n\r\n", b"\0" * 100,
        b"\x16\x03\x01\x02\0\x01\0\x01\xfc\x03\x03" + bytes(100),
    ]:
        reply = the_reply(places[place].ask(vector), vector)
        assert reply.status == 400 and "first line" in reply.error, (vector, reply)
    assert places[place].ask(b"x" * 100) == b""  # that may still become one


@pytest.mark.parametrize("place", PLACES)
def test_hundreds_of_arguments_do_no_harm(places, place):
    """libmicrohttpd 1.0.1 ends with a signal when some 475 of them, and no field, fill the memory of a connection."""
    def check(worker):
        for count in range(300 + worker, 700, 20):
            for version in (b"1.0", b"1.1"):
                vector = b"GET /v2?" + b"&".join([b"a"] * count) + b" HTTP/" + version + b"\r\n\r\n"
                with places[place].connect() as connection:
                    connection.sendall(vector)
                    assert connection.recv(1 << 16).startswith(b"HTTP/1."), (count, version)

    on_threads(4, lambda i: [check(worker) for worker in range(i, 20, 4)])


def test_a_malformed_head_is_in_the_access_log(start_server, targets, tmp_path):
    log = tmp_path / "access"
    server = start_server(targets, flags=[*EVERYTHING, f"--access-log={log}"])
    place = Place(socket.AF_INET, ("127.0.0.1", server.http_port))
    for vector, status in ((b"G@T / HTTP/1.1\r\n\r\n", 400), PAGES["many fields"]):
        assert the_reply(place.ask(vector), b"").status == status
        lines = wait_for("the line", lambda: [line for line in log.read_text().splitlines() if f'route="" status={status} ' in line])
        assert len(lines) == 1 and 'peer="127.0.0.1:' in lines[0], lines


def test_a_malformed_body_is_in_the_access_log(start_server, targets, tmp_path):
    log = tmp_path / "access"
    server = start_server(targets, flags=[*EVERYTHING, f"--access-log={log}"])
    place = Place(socket.AF_INET, ("127.0.0.1", server.http_port))
    assert the_reply(place.ask(PAGES["a chunk's size is no number"][0]), b"").status == 400
    server.stop()
    (line,) = [line for line in log.read_text().splitlines() if "t_fp32/infer" in line or 'model="t_fp32"' in line]
    assert "400" in line, line


def test_a_client_at_the_wrong_port_is_told_of_once(start_server, targets):
    """gRPC's preface on the HTTP port is answered, HTTP/1.1 on the gRPC port closed, and the log has a line for each port."""
    server = start_server(targets, flags=EVERYTHING)
    http, grpc = (Place(socket.AF_INET, ("127.0.0.1", port)) for port in (server.http_port, server.grpc_port))
    for _ in range(4):
        assert the_reply(http.ask(PAGES["HTTP/2's preface"][0]), b"").status == 505
        assert b"HTTP/1." not in grpc.ask(request("GET", "/v2/health/live"))
    wait_for("the lines", lambda: server.log.count("port was refused") == 2)
    assert server.log.count("a client of the HTTP port was refused") == 1
    assert server.log.count("a client of the gRPC port was refused") == 1
