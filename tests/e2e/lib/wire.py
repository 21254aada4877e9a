# SPDX-License-Identifier: Apache-2.0
"""HTTP as bytes: what a hostile client writes, and what came back, read strictly."""
import json
import re
import select
import socket
import struct
import time

from conftest import DEADLINE

CANARY_BODY = b'{"inputs":[{"name":"INPUT0","shape":[1,4],"datatype":"FP32","data":[0.1,-0.0,3e38,1e-45]}]}'
LOCATION = re.compile(
    r"0x[0-9a-f]{8,}"  # a pointer
    r"|(?<![\w.])/(?:home|root|usr|etc|tmp|var|proc|opt|build|work|srv)/"  # a path of the machine
    r"|\b(?:PATH|HOME|LD_LIBRARY_PATH|NEREID_BUILD|ASAN_OPTIONS)="  # the environment
    r"|\.(?:c|h|so):\d+"  # a place in the sources
)


class Reply:
    def __init__(self, status, headers, body):
        self.status, self.headers, self.body = status, headers, body

    @property
    def error(self):
        return json.loads(self.body)["error"]

    def __repr__(self):
        return f"<{self.status} {self.body[:120]!r}>"


def ready(socket, reads, writes, seconds):
    """Whether it has input, or is closed, and whether it takes output. As select, which knows no descriptor above 1023: a process of tests has more."""
    poll = select.poll()
    poll.register(socket, reads * select.POLLIN | writes * select.POLLOUT)
    events = dict(poll.poll(seconds * 1000)).get(socket.fileno(), 0)
    ended = events & (select.POLLHUP | select.POLLERR)
    return reads and bool(events & select.POLLIN or ended), writes and bool(events & select.POLLOUT or ended)


def connect(server, port=None, receive_buffer=None):
    connection = socket.socket()
    if receive_buffer:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
    connection.settimeout(DEADLINE)
    connection.connect(("127.0.0.1", port or server.http_port))
    return connection


def reset(connection):
    """Closes with a RST instead of a FIN."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    connection.close()


def send(connection, *parts):
    """True when all of it went out; a server may close before."""
    try:
        for part in parts:
            connection.sendall(part)
        return True
    except (BrokenPipeError, ConnectionResetError):
        return False


def receive_all(connection):
    """What comes until the server closes. A server that does neither in time fails the test."""
    data, end = bytearray(), time.monotonic() + DEADLINE
    try:
        while piece := connection.recv(1 << 16):
            data += piece
            assert time.monotonic() < end, "the server goes on and on"
    except ConnectionResetError:
        pass
    return bytes(data)


def talk(server, *parts, port=None):
    """Sends the parts, reads until the server closes, and gives its replies."""
    with connect(server, port) as connection:
        send(connection, *parts)
        return replies(receive_all(connection))


def receive_reply(connection, method="GET"):
    """Exactly one reply of a connection that lives on."""
    data = bytearray()
    while True:
        found, rest = take_reply(bytes(data), method)
        if found and found.status != 100:
            assert rest == b"", rest
            return found
        if found:
            data = bytearray(rest)
            continue
        piece = connection.recv(1 << 16)
        assert piece, f"the server closed after {bytes(data)!r}"
        data += piece


def take_reply(data, method="GET"):
    """(the first reply, what follows); (None, data) while it is incomplete. Bytes that are no reply fail."""
    head, found, rest = data.partition(b"\r\n\r\n")
    if not found:
        assert b"HTTP/1.".startswith(data[:7]) or data.startswith(b"HTTP/1."), f"not a reply: {data[:200]!r}"
        return None, data
    lines = head.decode("latin-1").split("\r\n")
    status = re.fullmatch(r"HTTP/1\.[01] (\d{3}) [\x20-\x7e]*", lines[0])
    assert status, f"not a status line: {lines[0]!r}"
    headers = {}
    for line in lines[1:]:
        field = re.fullmatch(r"([!#$%&'*+.^_`|~0-9A-Za-z-]+): ?([\x20-\x7e]*)", line)
        assert field, f"not a header field: {line!r}"
        assert field[1].lower() not in headers, f"twice: {line!r}"
        headers[field[1].lower()] = field[2]
    code = int(status[1])
    if code == 100:
        return Reply(code, headers, b""), rest
    assert "content-length" in headers, head
    size = 0 if method == "HEAD" else int(headers["content-length"])
    if len(rest) < size:
        return None, data
    return Reply(code, headers, rest[:size]), rest[size:]


def replies(data):
    """All of them; the last may be cut off by a server that closes on a client that still sends."""
    found = []
    while data:
        reply, data = take_reply(data)
        if reply is None:
            break
        if reply.status != 100:
            found.append(reply)
    return found


def request(method, path, body=None, headers=(), version="1.1"):
    """A request as bytes; `headers` are whole lines without their end."""
    lines = [f"{method} {path} HTTP/{version}", "Host: x", *headers]
    if body is not None:
        lines.append(f"Content-Length: {len(body)}")
    return "\r\n".join(lines).encode("latin-1") + b"\r\n\r\n" + (body or b"")


def chunked(method, path, chunks, headers=(), trailer=b""):
    head = request(method, path, headers=[*headers, "Transfer-Encoding: chunked"])
    return head + b"".join(b"%x\r\n%s\r\n" % (len(c), c) for c in chunks) + b"0\r\n" + trailer + b"\r\n"


CANARY = request("POST", "/v2/models/canary/infer", CANARY_BODY)
LIVE = request("GET", "/v2/health/live")
LIVE_AND_CLOSE = request("GET", "/v2/health/live", headers=["Connection: close"])


def check_error(reply):
    """An error tells nothing about the machine, does not repeat much, and is one JSON object of printable text."""
    body = reply.body.decode("utf-8")
    message = json.loads(body)
    assert list(message) == ["error"] and message["error"], body
    assert not LOCATION.search(body), body
    assert len(reply.body) < 4096, f"{len(reply.body)} bytes: {body[:500]}"
    assert not re.search(r"[\x00-\x1f\x7f]", body), body
    return message["error"]
