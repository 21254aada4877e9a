# SPDX-License-Identifier: Apache-2.0
"""Models of the streaming backend (tests/fakes/streaming_backend.c), and clients that read their streams."""
import json
import socket

from conftest import DEADLINE

CONFIG = """
backend: "streaming"
max_batch_size: %(max_batch_size)d
model_transaction_policy { decoupled: %(decoupled)s }
input { name: "INPUT" data_type: %(type)s dims: [ -1 ] }
output { name: "OUTPUT" data_type: %(type)s dims: [ -1 ] }
%(more)s
"""


def make_streaming(repository, name="streaming", decoupled=True, type="TYPE_STRING", max_batch_size=0, more=""):
    directory = repository / name
    (directory / "1").mkdir(parents=True)
    (directory / "config.pbtxt").write_text(
        CONFIG % dict(max_batch_size=max_batch_size, decoupled=str(decoupled).lower(), type=type, more=more))
    return directory


def ask(server, model, route, **members):
    return server.ask(f"/v2/models/{model}/{route}", json.dumps(members).encode())


def events(text):
    """The data of each event of a complete stream."""
    assert text == "" or text.endswith("\n\n"), text[-100:]
    lines = text.split("\n\n")[:-1]
    assert all(line.startswith("data: ") for line in lines), text[:300]
    return [json.loads(line[len("data: "):]) for line in lines]


class Reader:
    """One request on a connection of its own, read event by event."""

    def __init__(self, server, model, version="1.1", headers="", receive_buffer=None, **members):
        self.socket = socket.socket()
        if receive_buffer:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        self.socket.settimeout(DEADLINE)
        self.socket.connect(("127.0.0.1", server.http_port))
        self.send(model, version, headers, **members)

    def send(self, model, version="1.1", headers="", **members):
        body = json.dumps(members)
        self.socket.sendall(
            f"POST /v2/models/{model}/generate_stream HTTP/{version}\r\nHost: localhost\r\n{headers}"
            f"Content-Length: {len(body)}\r\n\r\n{body}".encode())
        self.file = self.socket.makefile("rb")

    def head(self):
        """Status and headers."""
        status = int(self.file.readline().split()[1])
        fields = {}
        while (line := self.file.readline()) not in (b"\r\n", b""):
            name, value = line.decode().split(":", 1)
            fields[name.lower()] = value.strip()
        return status, fields

    def chunk(self):
        """The next chunk's bytes; b"" at the end of the reply, None when the connection ended before."""
        line = self.file.readline()
        if not line:
            return None
        data = self.file.read(int(line, 16))
        self.file.readline()
        return data

    def event(self):
        return json.loads(self.chunk()[len(b"data: "):])

    def rest(self):
        """All events that are left."""
        chunks = []
        while chunk := self.chunk():
            chunks.append(chunk)
        assert chunk == b"", "the stream was cut off"
        return events(b"".join(chunks).decode())

    def close(self):
        self.file.close()
        self.socket.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()
