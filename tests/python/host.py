# SPDX-License-Identifier: Apache-2.0
"""A host without a server: drives one worker process over a channel, with ctypes. The messages are protocol.h's."""

import ctypes
import json
import os
import pathlib
import socket
import struct
import subprocess
import sys
import threading

import numpy as np
from patience import PATIENCE

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = ROOT / os.environ.get("NEREID_BUILD", "build/release")
# NEREID_WORKER=checked: the extension with AddressSanitizer, whose library is loaded into the interpreter before all else.
IS_CHECKED = os.environ.get("NEREID_WORKER") == "checked"
WORKER = BUILD / ("checked/worker" if IS_CHECKED else "backends/python/worker")

WORK, REPLIES, ANSWERS, CALLS = range(4)
HELLO, LOAD, AUTO_COMPLETE, INITIALIZE, EXECUTE, IS_READY, FINALIZE = range(1, 8)
DEVICE_ROOM, DEVICE_REFUSED = 19, 3
RELEASED = 1
DECOUPLED = 16
LEVELS = 7

DTYPES = {
    1: np.bool_, 2: np.uint8, 3: np.uint16, 4: np.uint32, 5: np.uint64, 6: np.int8, 7: np.int16, 8: np.int32,
    9: np.int64, 10: np.float16, 11: np.float32, 12: np.float64,
}  # fmt: skip
CODES = {np.dtype(kind): code for code, kind in DTYPES.items()}
BYTES, BF16 = 13, 14


class Message(ctypes.Structure):
    _fields_ = [("kind", ctypes.c_uint32), ("flags", ctypes.c_uint32)] + [
        (name, ctypes.c_uint64) for name in ("id", "value", "offset", "size")
    ]


def _library():
    library = ctypes.CDLL(str(BUILD / "tests/python/libnereid_channel_for_tests.so"))
    u64, pointer = ctypes.c_uint64, ctypes.c_void_p
    for name, result, arguments in (
        ("channel_new", ctypes.c_int, [ctypes.c_size_t, ctypes.POINTER(pointer)]),
        ("channel_free", None, [pointer]),
        ("channel_descriptor", ctypes.c_int, [pointer]),
        ("channel_close", None, [pointer]),
        ("channel_send", ctypes.c_bool, [pointer, ctypes.c_int, ctypes.POINTER(Message)]),
        ("channel_receive", ctypes.c_int, [pointer, ctypes.c_int, ctypes.c_int64, ctypes.POINTER(Message)]),
        ("channel_done", None, [pointer, ctypes.c_int]),
        ("channel_allocate", ctypes.c_bool, [pointer, ctypes.c_size_t, ctypes.POINTER(u64)]),
        ("channel_release", ctypes.c_bool, [pointer, u64]),
        ("channel_own", pointer, [pointer, u64]),
        ("channel_place", ctypes.c_size_t, [ctypes.c_size_t, ctypes.c_size_t]),
        ("channel_other", pointer, [pointer, u64, u64]),
        ("channel_memory", None, [pointer, ctypes.POINTER(ctypes.c_size_t), ctypes.POINTER(ctypes.c_size_t)]),
    ):
        function = getattr(library, name)
        function.restype, function.argtypes = result, arguments
    return library


_channel = _library()


def worker_environment():
    if not IS_CHECKED:
        return None
    compiler = os.environ.get("CC", "cc")
    libraries = [
        subprocess.run([compiler, f"-print-file-name={name}"], capture_output=True, text=True, check=True).stdout.strip()
        for name in ("libasan.so", "libubsan.so")
    ]
    return {**os.environ, "LD_PRELOAD": " ".join(libraries), "PYTHONMALLOC": "malloc", "ASAN_OPTIONS": "detect_leaks=0:handle_sigill=1"}


def text(value):
    data = value if isinstance(value, bytes) else value.encode()
    return struct.pack("=I", len(data)) + data


class Reader:
    def __init__(self, data):
        self.data, self.at = data, 0

    def get(self, form):
        values = struct.unpack_from("=" + form, self.data, self.at)
        self.at += struct.calcsize("=" + form)
        return values[0] if len(values) == 1 else values

    def text(self):
        length = self.get("I")
        self.at += length
        return self.data[self.at - length : self.at].decode()


def bytes_form(elements):
    return b"".join(struct.pack("<I", len(element)) + element for element in elements)


class Raw:
    """A tensor that NumPy cannot hold: datatype, shape, data."""

    def __init__(self, datatype, shape, data):
        self.datatype, self.shape, self.data = datatype, shape, data


def as_raw(array):
    if isinstance(array, Raw):
        return array
    if array.dtype == np.object_:
        return Raw(BYTES, array.shape, bytes_form(array.reshape(-1)))
    return Raw(CODES[array.dtype], array.shape, array.tobytes())


class Tensors(dict):
    """Arrays by name, and where in the worker's region each lay."""

    def __init__(self):
        self.places = {}


class Response:
    """One response as the host reads it."""

    def __init__(self, kind, outputs=None, parameters="", code=0, message=""):
        self.kind, self.outputs, self.parameters = kind, outputs, parameters
        self.code, self.message = code, message


class Call:
    def __init__(self, message, control):
        self.kind, self.flags, self.id, self.value = message.kind, message.flags, message.id, message.value
        self.control = control


class Host:
    """Starts a worker under `interpreter` and says HELLO. `on_call` answers calls: it is run on the host's thread for
    calls with each call but releases, and may use reply()."""

    def __init__(self, interpreter=sys.executable, on_call=None, region=1 << 30, arguments=()):
        self._self = ctypes.c_void_p()
        assert _channel.channel_new(region, ctypes.byref(self._self)) == 0
        ours, theirs = socket.socketpair()
        self.socket = ours
        self._output = os.memfd_create("output")
        self.process = subprocess.Popen(
            [interpreter, *arguments, str(WORKER)], stdout=self._output, stderr=self._output, env=worker_environment(),
            close_fds=False, preexec_fn=lambda: os.dup2(theirs.fileno(), 3), start_new_session=True,
        )  # fmt: skip
        theirs.close()
        rights = struct.pack("i", _channel.channel_descriptor(self._self))
        ours.sendmsg([b"m"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, rights)])
        self.calls, self.releases = [], []
        self.has_calls = threading.Condition()
        self._on_call, self._is_ending = on_call, False
        self._listener = threading.Thread(target=self._listen, daemon=True)
        self._listener.start()
        self._watcher = threading.Thread(target=self._watch, daemon=True)
        self._watcher.start()
        self.hello = self.answer()[1]

    def _watch(self):
        self.process.wait()
        _channel.channel_close(self._self)

    # --- Memory

    def used(self):
        used, kept = ctypes.c_size_t(), ctypes.c_size_t()
        _channel.channel_memory(self._self, ctypes.byref(used), ctypes.byref(kept))
        return used.value

    def await_unused(self, deadline=PATIENCE):
        """Until the worker has given back all that it was sent. It does so when the last array goes, which a thread or a
        coroutine of the model lets happen after its answer."""
        with self.has_calls:
            assert self.has_calls.wait_for(lambda: self.used() == 0, deadline), f"{self.used()} bytes are still used"

    def region_pages(self):
        """What the channel holds of the machine's memory, both regions, in units of 512 bytes."""
        return os.fstat(_channel.channel_descriptor(self._self)).st_blocks

    def _block(self, control, data=()):
        """A block with the control part, which is a function of where each of `data` will lie."""
        end, places = len(control([0] * len(data))) + 63 & ~63, []
        for piece in data:
            places.append(_channel.channel_place(end, len(piece)))
            end = places[-1] + (len(piece) + 63 & ~63)
        offset = ctypes.c_uint64()
        assert _channel.channel_allocate(self._self, end + 64, ctypes.byref(offset))
        places = [offset.value + place for place in places]
        for place, piece in zip(places, data):
            ctypes.memmove(_channel.channel_own(self._self, place), piece, len(piece))
        written = control(places)
        ctypes.memmove(_channel.channel_own(self._self, offset.value), written, len(written))
        return offset.value, len(written)

    def _read(self, offset, size):
        if size == 0:
            return b""
        address = _channel.channel_other(self._self, offset, size)
        assert address, "outside of the worker's region"
        return ctypes.string_at(address, size)

    # --- Work

    def send(self, ring, kind, id=0, flags=0, value=0, block=(0, 0)):
        message = Message(kind, flags, id, value, *block)
        if not _channel.channel_send(self._self, ring, ctypes.byref(message)):
            raise ConnectionError(self.output())

    def answer(self):
        """The next answer: (flags, Reader of its control part)."""
        message = Message()
        if _channel.channel_receive(self._self, ANSWERS, PATIENCE * 1_000_000, ctypes.byref(message)) != 0:
            raise ConnectionError(f"no answer; the worker (status {self.process.poll()}) wrote:\n{self.output()}")
        control = Reader(self._read(message.offset, message.size))
        self.data_place = message.offset + (message.size + 63 & ~63)
        control.responses = self._responses(message, control) if message.kind == EXECUTE else None
        _channel.channel_done(self._self, ANSWERS)
        return message.flags, control

    def ask(self, kind, control=b"", flags=0):
        """Work with a plain control part. Gives the answer's Reader behind its ok; RuntimeError with (reason, full)."""
        block = self._block(lambda places: control) if control else (0, 0)
        self.send(WORK, kind, 1, flags, 0, block)
        flags, answer = self.answer()
        if control:
            _channel.channel_release(self._self, block[0])
        if answer.get("B") == 0:
            raise RuntimeError(answer.text(), answer.text())
        return answer

    def load(self, directory, version="1", instance="m_0_0", search=None, module=None):
        """`directory`: the model's, with <version>/model.py."""
        directory, self.instance = pathlib.Path(directory), instance
        search = [str(directory / version), str(directory)] if search is None else search
        description = {
            "model_name": directory.name, "model_version": version, "instance_name": instance, "model_path": str(directory),
            "model_file": str(directory / version / "model.py"), "module": module or f"{version}.model", "search": search,
        }  # fmt: skip
        answer = self.ask(LOAD, text(json.dumps(description)))
        return answer.get("BBB")

    def initialize(self, **arguments):
        arguments.setdefault("model_config", "{}")
        self.ask(INITIALIZE, text(json.dumps(arguments)) + text(self.instance))

    def start(self, directory, **arguments):
        self.load(directory)
        self.initialize(**arguments)

    def _put_tensors(self, tensors, places):
        parts = [struct.pack("=I", len(tensors))]
        for (name, raw), place in zip(tensors, places):
            parts.append(text(name))
            parts.append(struct.pack(f"=II{len(raw.shape)}qQQ", raw.datatype, len(raw.shape), *raw.shape, place,
                                     len(raw.data)))  # fmt: skip
        return b"".join(parts)

    def execute(self, requests, flags=LEVELS):
        """`requests`: dicts with inputs {name: array or Raw} and what else a request has. Gives the answer's flags, its
        responses, and the block."""
        return self.end(self.begin(requests, flags))

    def end(self, block):
        """The same of the first that was begun and has not ended. Afterwards `data_place` is where the first tensor lies that
        was copied into the answer."""
        flags, answer = self.answer()
        if flags & RELEASED:
            assert _channel.channel_release(self._self, block)
        return flags, answer.responses, block

    def begin(self, requests, flags=LEVELS):
        """Sends them only, and gives the block."""
        prepared, data = [], []
        for request in requests:
            tensors = [(name, as_raw(array)) for name, array in request.get("inputs", {}).items()]
            prepared.append((request, tensors))
            data += [raw.data for _, raw in tensors]

        def control(places):
            places = iter(places)
            parts = [struct.pack("=I", len(prepared))]
            for number, (request, tensors) in enumerate(prepared):
                correlation = request.get("correlation_id", 0)
                names = request.get("outputs", [])
                parts += [
                    struct.pack("=Q", request.get("handle", 100 + number)),
                    text(request.get("id", "")),
                    b"\1" + text(correlation) if isinstance(correlation, str) else struct.pack("=BQ", 0, correlation),
                    struct.pack("=IQ", request.get("flags", 0), request.get("timeout", 0)),
                    text(request.get("parameters", "")),
                    text(request.get("trace", "")),
                    struct.pack("=I", len(names)),
                    *map(text, names),
                    self._put_tensors(tensors, [next(places) for _ in tensors]),
                ]
            return b"".join(parts)

        block = self._block(control, data)
        self.send(WORK, EXECUTE, 7, flags, len(requests), block)
        return block[0]

    # --- Responses and calls

    def read_tensors(self, control):
        outputs = Tensors()
        for _ in range(control.get("I")):
            name = control.text()
            datatype, rank = control.get("II")
            shape = struct.unpack_from(f"={rank}q", control.data, control.at)
            control.at += 8 * rank
            place, size = control.get("QQ")
            data, outputs.places[name] = self._read(place, size), place
            if datatype in DTYPES:
                outputs[name] = np.frombuffer(data, DTYPES[datatype]).reshape(shape)
            else:
                outputs[name] = Raw(datatype, shape, data)
        return outputs

    def read_response(self, control):
        kind = control.get("B")
        if kind == 2:
            return Response(kind, code=control.get("I"), message=control.text())
        if kind == 1:
            parameters = control.text()
            return Response(kind, self.read_tensors(control), parameters)
        return Response(kind)

    def _responses(self, message, control):
        assert control.get("B") == 1
        count, self.begun_ns, self.ended_ns = control.get("IQQ")
        return [self.read_response(control) for _ in range(count)]

    def _listen(self):
        while True:
            message = Message()
            if _channel.channel_receive(self._self, CALLS, -1, ctypes.byref(message)) != 0:
                return
            call = Call(message, Reader(self._read(message.offset, message.size)))
            if call.kind == 1:
                call.response = self.read_response(call.control) if message.size else Response(0)
            if call.kind == DEVICE_ROOM:  # there is none here
                self.socket.sendall(struct.pack("=IiQQ232s", DEVICE_REFUSED, call.flags, 0, 0, b"this host has no GPU"))
            if call.kind == 2:
                assert _channel.channel_release(self._self, call.value)
                self.releases.append(call.value)
            elif self._on_call is not None:
                self._on_call(self, call)
            with self.has_calls:
                self.calls.append(call)
                self.has_calls.notify_all()
            _channel.channel_done(self._self, CALLS)

    def await_call(self, condition, deadline=PATIENCE):
        """The first call that meets the condition."""
        def found():
            return next((call for call in self.calls if condition(call)), None)

        with self.has_calls:
            assert self.has_calls.wait_for(found, deadline), f"no such call; output:\n{self.output()}"
            return found()

    def reply(self, call, control=b"", flags=1, value=0, outputs=None):
        """Answers a call; with outputs {name: array}, as an inference. Each tensor has a block of its own."""
        if outputs is not None:
            tensors = [(name, as_raw(array)) for name, array in outputs.items()]
            places = [self._block(lambda _, raw=raw: raw.data)[0] if raw.data else 0 for _, raw in tensors]
            control = b"\1" + text("") + self._put_tensors(tensors, places)
        block = self._block(lambda _: control) if control else (0, 0)
        try:
            self.send(REPLIES, call.kind, call.id, flags, value, block)
        except ConnectionError:  # a worker that ends does not wait for replies
            if not self._is_ending:
                raise

    def output(self):
        size = os.fstat(self._output).st_size
        return os.pread(self._output, size, 0).decode(errors="replace")

    def finalize(self):
        """The status that the worker ends with."""
        self._is_ending = True
        self.ask(FINALIZE)
        return self.process.wait(PATIENCE)

    def close(self):
        if self.process.poll() is None:
            os.killpg(self.process.pid, 9)
        self._watcher.join()
        self._listener.join()
        self.socket.close()
        _channel.channel_free(self._self)
        os.close(self._output)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()
