# SPDX-License-Identifier: Apache-2.0
"""HTTP/2 as frames: what a hostile gRPC client writes, and what came back."""
import re
import socket
import struct
import time
import urllib.parse

import hpack
import proc
from conftest import DEADLINE, PATIENCE
from wire import ready

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, PRIORITY, RST_STREAM, SETTINGS, PUSH_PROMISE, PING, GOAWAY, WINDOW_UPDATE, CONTINUATION = range(10)
END_STREAM = ACK = 0x1
END_HEADERS = 0x4
NO_ERROR, PROTOCOL_ERROR, INTERNAL_ERROR, FLOW_CONTROL_ERROR, FRAME_SIZE_ERROR = 0, 1, 2, 3, 6
REFUSED_STREAM, CANCEL, COMPRESSION_ERROR, ENHANCE_YOUR_CALM = 7, 8, 9, 11
HEADER_TABLE_SIZE, MAX_CONCURRENT_STREAMS, INITIAL_WINDOW_SIZE, MAX_FRAME_SIZE = 1, 3, 4, 5
OK, CANCELLED, INVALID_ARGUMENT, DEADLINE_EXCEEDED, NOT_FOUND, RESOURCE_EXHAUSTED = 0, 1, 3, 4, 5, 8
UNIMPLEMENTED, INTERNAL, UNAVAILABLE = 12, 13, 14
SERVICE = "/inference.GRPCInferenceService/"
INFER, STREAM_INFER = SERVICE + "ModelInfer", SERVICE + "ModelStreamInfer"


def frame(type, flags=0, stream=0, payload=b""):
    return struct.pack(">I", len(payload))[1:] + struct.pack(">BBI", type, flags, stream) + payload


def settings(values=()):
    return frame(SETTINGS, payload=b"".join(struct.pack(">HI", *pair) for pair in values))


def window_update(size, stream=0):
    return frame(WINDOW_UPDATE, 0, stream, struct.pack(">I", size))


def reset_stream(stream, code=CANCEL):
    return frame(RST_STREAM, 0, stream, struct.pack(">I", code))


def field(name, value):
    """One header field as a literal that nobody's table keeps."""
    def text(value):
        value = value if isinstance(value, bytes) else value.encode()
        return number(len(value), 7) + value
    return b"\0" + text(name) + text(value)


def number(value, bits, first=0):
    """HPACK's integer."""
    most = (1 << bits) - 1
    if value < most:
        return bytes([first | value])
    out, value = bytearray([first | most]), value - most
    while value >= 128:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes(out + bytes([value]))


def request_block(path=INFER, *more, method="POST", content_type="application/grpc"):
    fields = [(":method", method), (":scheme", "http"), (":path", path), (":authority", "x"),
              ("content-type", content_type), ("te", "trailers"), *more]
    return b"".join(field(*pair) for pair in fields)


def headers(stream, block, flags=END_HEADERS):
    return frame(HEADERS, flags, stream, block)


def message(payload=b"", flag=0, size=None):
    """A gRPC message; `size` is what its prefix says."""
    return struct.pack(">BI", flag, len(payload) if size is None else size) + payload


def data(stream, payload, flags=0, most=16384):
    """As many DATA frames as it takes; `flags` are the last one's."""
    pieces = [payload[i : i + most] for i in range(0, len(payload), most)] or [b""]
    return b"".join(frame(DATA, flags if i == len(pieces) - 1 else 0, stream, p) for i, p in enumerate(pieces))


class Result:
    """What became of a stream: fields, reply messages, the code of a reset."""

    def __init__(self):
        self.fields, self.body, self.reset, self.ended = {}, bytearray(), None, False

    @property
    def status(self):
        return int(self.fields["grpc-status"]) if "grpc-status" in self.fields else None

    @property
    def text(self):
        return urllib.parse.unquote(self.fields.get("grpc-message", ""))

    @property
    def messages(self):
        found, at = [], 0
        while at < len(self.body):
            flag, size = struct.unpack_from(">BI", self.body, at)
            found.append((flag, bytes(self.body[at + 5 : at + 5 + size])))
            at += 5 + size
        return found

    @property
    def over(self):
        return self.ended or self.reset is not None

    def __repr__(self):
        return f"<{self.fields} {len(self.body)} bytes, reset {self.reset}>"


class Connection:
    """A client that sends what it is told, and keeps what comes. It acknowledges settings and pings unless `mute`."""

    def __init__(self, server=None, values=(), mute=False, receive_buffer=None, begin=True, wrap=None, window=1 << 30, port=None):
        self.socket = socket.socket()
        if receive_buffer:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.socket.settimeout(DEADLINE)
        self.socket.connect(("127.0.0.1", port or server.grpc_port))
        if wrap:
            self.socket = wrap(self.socket)
        self.mute, self.closed, self.goaway, self.last_goaway = mute, False, None, None
        self.input, self.streams, self.settings = bytearray(), {}, {}
        self.pings = self.questions = 0  # answered; asked
        self.decoder = hpack.Decoder(max_header_list_size=1 << 20)
        self.block, self.block_stream, self.block_flags = b"", 0, 0
        self.writing, self.owed = False, bytearray()
        self.next_stream = 1
        self.sendable = {0: 65_535}  # by stream, over the initial window; 0: the connection
        if begin:
            self.send(PREFACE, settings([(INITIAL_WINDOW_SIZE, (1 << 31) - 1), *values]),
                      *([window_update(window)] if window else []))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.socket.close()

    def new_stream(self):
        self.next_stream += 2
        return self.next_stream - 2

    def send(self, *parts):
        """False when the server closed before all of it went out. Reads what comes meanwhile, so that nobody waits for ever."""
        view, end = memoryview(b"".join(parts)), time.monotonic() + PATIENCE
        self.writing = True  # what the server asks for meanwhile is answered between frames
        while len(view) > 0:
            readable, writable = ready(self.socket, not self.closed, True, 1)
            assert time.monotonic() < end, f"{len(view)} bytes were not taken"
            if readable:
                self._read()
            if self.closed:
                break
            try:
                if writable:
                    view = view[self.socket.send(view[: 1 << 16]):]
            except (BrokenPipeError, ConnectionResetError):
                self.closed = True
        self.writing = False
        self._answer(b"")
        return not self.closed

    def send_blindly(self, *parts):
        """Without reading anything. False when it did not all go out within the socket's timeout."""
        try:
            self.socket.sendall(b"".join(parts))
            return True
        except OSError:
            return False

    def call(self, path=INFER, messages=(), more=(), end=True, stream=None):
        """Sends a call; gives its stream."""
        stream = stream or self.new_stream()
        self.send(headers(stream, request_block(path, *more), END_HEADERS | (END_STREAM if end and not messages else 0)))
        if messages:
            self.upload(stream, b"".join(messages), END_STREAM if end else 0)
        return stream

    def upload(self, stream, payload, flags=0):
        """DATA frames as the server's windows allow. Ends early when the stream does."""
        at = 0
        while at < len(payload) or (at == 0 and payload == b""):
            room = min(self.sendable[0], self.window_of(stream))
            if room <= 0 and payload:
                self.read_until(lambda: self.is_over(stream) or min(self.sendable[0], self.window_of(stream)) > 0)
                if self.is_over(stream):
                    return
                continue
            step = payload[at : at + room]
            at += len(step)
            self.sendable[0] -= len(step)
            self.sendable[stream] = self.sendable.get(stream, 0) - len(step)
            self.send(data(stream, step, flags if at == len(payload) else 0))
            if payload == b"":
                return

    def window_of(self, stream):
        return self.settings.get(INITIAL_WINDOW_SIZE, 65_535) + self.sendable.get(stream, 0)

    def is_over(self, stream):
        return self.closed or (stream in self.streams and self.streams[stream].over)

    def result(self, stream):
        """Waits until the stream, or the connection, is over."""
        self.read_until(lambda: self.streams.setdefault(stream, Result()).over or self.closed)
        return self.streams[stream]

    def ask(self, path=INFER, messages=(), more=()):
        return self.result(self.call(path, messages, more))

    def read_until(self, condition, deadline=PATIENCE):
        end = time.monotonic() + deadline
        while not condition():
            left = end - time.monotonic()
            some = dict(list(self.streams.items())[-3:])
            assert left > 0 and not self.closed, f"closed: {self.closed}, GOAWAY {self.goaway}, {some}"
            if self.socket_has_input(min(left, 1)):
                self._read()

    def socket_has_input(self, seconds):
        pending = getattr(self.socket, "pending", lambda: 0)
        return pending() > 0 or ready(self.socket, True, False, seconds)[0]

    def await_close(self, deadline=PATIENCE):
        """What the server said last: (code, text) of its GOAWAY, or None."""
        self.read_until(lambda: self.closed, deadline)
        return self.goaway

    def ping(self):
        """Waits for the answer: everything before it has been seen to."""
        count = self.pings + 1
        self.send(frame(PING, payload=b"question"))
        self.read_until(lambda: self.pings >= count)

    def _read(self):
        try:
            piece = self.socket.recv(1 << 18)
        except (ConnectionResetError, BrokenPipeError):
            piece = b""
        self.closed = self.closed or piece == b""
        self.input += piece
        at = 0
        while len(self.input) - at >= 9:
            size = int.from_bytes(self.input[at : at + 3], "big")
            if len(self.input) - at - 9 < size:
                break
            type, flags, stream = struct.unpack_from(">BBI", self.input, at + 3)
            self._take(type, flags, stream & 0x7FFFFFFF, bytes(self.input[at + 9 : at + 9 + size]))
            at += 9 + size
        del self.input[:at]

    def _take(self, type, flags, stream, payload):
        if type in (HEADERS, CONTINUATION):
            if type == HEADERS:
                self.block, self.block_stream, self.block_flags = b"", stream, flags
            self.block += payload
            if flags & END_HEADERS:
                fields = self.decoder.decode(self.block)
                result = self.streams.setdefault(self.block_stream, Result())
                assert not result.over, f"stream {self.block_stream} goes on after its end: {result}"
                result.fields.update((str(name), str(value)) for name, value in fields)
                result.ended = result.ended or bool(self.block_flags & END_STREAM)
        elif type == DATA:
            result = self.streams.setdefault(stream, Result())
            assert not result.over, f"stream {stream} goes on after its end: {result}"
            result.body += payload
            result.ended = result.ended or bool(flags & END_STREAM)
        elif type == RST_STREAM:
            self.streams.setdefault(stream, Result()).reset = struct.unpack(">I", payload)[0]
        elif type == SETTINGS and not flags & ACK:
            self.settings.update(struct.unpack_from(">HI", payload, i) for i in range(0, len(payload), 6))
            self._answer(frame(SETTINGS, ACK))
        elif type == WINDOW_UPDATE:
            self.sendable[stream] = self.sendable.get(stream, 0) + struct.unpack(">I", payload)[0]
        elif type == PING and flags & ACK:
            self.pings += 1
        elif type == PING:
            self.questions += 1
            self._answer(frame(PING, ACK, 0, payload))
        elif type == GOAWAY:
            self.last_goaway, code = struct.unpack_from(">II", payload)
            self.goaway = (code, payload[8:].decode())

    def _answer(self, reply):
        self.owed += b"" if self.mute else reply
        if self.owed and not self.writing and not self.closed:
            reply, self.owed = bytes(self.owed), bytearray()
            self.send_blindly(reply)


def infer_request(model="t_fp32", shape=(1, 4), raw=(bytes(16),), datatype="FP32", name="INPUT0", **more):
    """A serialized ModelInferRequest; several raw contents go to inputs of the same name."""
    from tritonclient.grpc import service_pb2
    request = service_pb2.ModelInferRequest(model_name=model, **more)
    request.inputs.add(name=name, datatype=datatype, shape=shape)
    request.raw_input_contents.extend(raw)
    return request.SerializeToString()


def streaming_request(model, **parameters):
    """The same for a model of tests/fakes/streaming_backend.c of TYPE_STRING."""
    from tritonclient.grpc import service_pb2
    request = service_pb2.ModelInferRequest(model_name=model)
    request.inputs.add(name="INPUT", datatype="BYTES", shape=(1,))
    request.raw_input_contents.append(struct.pack("<I", 2) + b"ab")
    for name, value in parameters.items():
        kind = "bool_param" if isinstance(value, bool) else "int64_param" if isinstance(value, int) else "string_param"
        setattr(request.parameters[name], kind, value)
    return request.SerializeToString()


def connections(server):
    """Sockets that are connected to the gRPC port, as the server has them."""
    port = server.grpc_port
    return [socket for socket in proc.sockets_of(server.process.pid) if socket.port == port and socket.state == proc.ESTABLISHED]


def pending(server):
    """Requests in flight, of all models."""
    metrics = server.ask("/metrics", port=server.metrics_port).text
    return sum(int(float(value)) for value in re.findall(r"^nv_inference_pending_request_count\{.*\} (\S+)$", metrics, re.M))


