# SPDX-License-Identifier: Apache-2.0
"""The process's loop: takes one piece of work after another, and answers each."""

import atexit
import os
import struct
import sys

import _nereid

from .model import Loaded, reason_and_traceback
from .texts import shown

_SOCKET = 3
_MAX_ANSWER = 64 << 20
_HELLO, _LOAD, _AUTO_COMPLETE, _INITIALIZE, _EXECUTE, _IS_READY, _FINALIZE = range(1, 8)


def _text(value):
    data = shown(value).encode("utf-8", "backslashreplace")
    return struct.pack("=I", len(data)) + data


def _read_text(payload):
    (length,) = struct.unpack_from("=I", payload)
    return payload[4 : 4 + length].decode("utf-8", "surrogateescape")


class Worker:
    def __init__(self):
        self._loaded = None
        self._executor = None

    def load(self, payload):
        self._loaded = loaded = Loaded(_read_text(payload))
        import inspect  # NumPy has imported it already

        is_coroutine = inspect.iscoroutinefunction(getattr(loaded.kind, "execute", None))
        return struct.pack("=BBB", loaded.has("auto_complete_config"), is_coroutine, loaded.has("is_ready"))

    def auto_complete(self, payload):
        return _text(self._loaded.complete(_read_text(payload)))

    def initialize(self, payload):
        from . import request
        from .execute import Executor
        from .tensor import place_arrays

        arguments = _read_text(payload)
        (length,) = struct.unpack_from("=I", payload)
        self._loaded.instance_name = _read_text(payload[4 + length :])
        self._loaded.initialize(arguments)
        self._executor = Executor(self._loaded)
        request.may_call = True
        place_arrays()  # initialize's arrays, mainly weights, are not sent to the server
        return b""

    def is_ready(self, payload):
        ready = self._loaded.is_ready()
        if hasattr(ready, "__await__"):
            import asyncio

            ready = asyncio.run(ready)
        if not isinstance(ready, bool):
            raise TypeError("is_ready() must return a boolean value")
        return struct.pack("=B", ready)

    def finalize(self, payload):
        from . import request

        request.may_call = False
        if self._executor is not None:
            self._executor.stop()
        self._executor = None
        if self._loaded is not None and self._loaded.instance is not None:
            self._loaded.finalize()
        return b""

    _TASKS = {
        _LOAD: load,
        _AUTO_COMPLETE: auto_complete,
        _INITIALIZE: initialize,
        _IS_READY: is_ready,
        _FINALIZE: finalize,
    }

    def serve(self):
        kind = 0
        while kind != _FINALIZE:
            work = _nereid.receive_work()
            kind = work[0]
            if kind == _EXECUTE:
                self._executor.run(work)
            else:
                _nereid.answer(kind, work[2], self._answer_of(kind, work[4]))

    def _answer_of(self, kind, payload):
        try:
            answer = b"\x01" + self._TASKS[kind](self, payload)
            if len(answer) > _MAX_ANSWER:
                raise ValueError(f"the answer has {len(answer)} bytes, at most {_MAX_ANSWER} can be sent")
            return answer
        except BaseException as problem:
            reason, full = reason_and_traceback(problem)
            return b"\x00" + _text(reason) + _text(full)


def _leave():
    """Ends the process. Exit handlers run, but not the interpreter's own end, which may wait for threads."""
    try:
        atexit._run_exitfuncs()
    except BaseException:
        sys.excepthook(*sys.exc_info())
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError, AttributeError):
            pass
    os._exit(0)


def main():
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(line_buffering=True)
    _nereid.attach(_SOCKET)
    hello = struct.pack("=BI", 1, _nereid.PROTOCOL_VERSION) + _text(sys.version.split()[0]) + _text(sys.executable)
    _nereid.answer(_HELLO, 0, hello)
    try:
        Worker().serve()
    except ConnectionError:
        pass  # the server is gone
    _leave()
