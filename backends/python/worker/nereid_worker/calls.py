# SPDX-License-Identifier: Apache-2.0
"""Calls to the server, and threads waiting for replies. One thread, started with the first call, receives all replies."""

import _thread
import itertools
import os
import struct
import sys
import threading
import weakref

import _nereid

from . import logger
from .errors import TritonModelException
from .texts import as_text

(
    RESPONSE,
    RELEASE,
    LOG,
    IS_CANCELLED,
    INFER,
    INFER_CANCEL,
    FAMILY_NEW,
    FAMILY_DELETE,
    METRIC_NEW,
    METRIC_DELETE,
    METRIC_ADD,
    METRIC_SET,
    METRIC_OBSERVE,
    METRIC_VALUE,
    MODEL_LOAD,
    MODEL_UNLOAD,
    MODEL_IS_READY,
    INFER_WAIT,
) = range(1, 19)

FINAL = 1
FAILED = 2
INPUTS_FREE = 4

FORGOTTEN = 2  # flags of RESPONSE: see codec/protocol.h
AGAIN = 4

_ids = itertools.count(1)
# The receivers of replies: functions of (flags, value, payload), called on the receiving thread. An entry is removed with
# the call's final reply.
_sinks = {}
# Inputs of calls that lie on a device, kept until the server no longer reads them.
_lent = {}
_start_lock = threading.Lock()
_is_started = False
_receiver = None  # the identifier of the receiving thread

execution = 0  # the number of the main thread's current execution; 0: none
own_threads = 0  # the worker's own threads besides the main thread
_thread_of_work = _thread.get_ident()
# Tasks that are executions, and their requests: a task awaits the calls that it makes before it answers.
coroutines = weakref.WeakKeyDictionary()


def waits():
    """The execution that cannot end while the calling thread waits; 0: none."""
    return execution if _thread.get_ident() == _thread_of_work else 0


def is_shared():
    """Whether another thread may answer the requests of that execution meanwhile."""
    return _thread._count() > own_threads and any(request._sender for request in logger.requests)


def is_shared_coroutine(requests):
    """The same for an execution that is a coroutine, where another task may answer too."""
    if not any(request._sender and request._sender._is_taken for request in requests):
        return False
    import asyncio  # the caller has imported it already

    return _thread._count() > own_threads or any(task not in coroutines for task in asyncio.all_tasks())


def text(value):
    """A text in wire format."""
    value = as_text(value, "a name")
    if "\0" in value:
        raise TritonModelException(f"a name cannot contain NUL: {value!r:.200}")
    data = value.encode("utf-8", "surrogateescape")
    return struct.pack("=I", len(data)) + data


def error_of(payload):
    """The (code, message) of a failed reply."""
    code, length = struct.unpack_from("=II", payload)
    return code, payload[8 : 8 + length].decode("utf-8", "replace")


def _receive_all():
    global _receiver
    _receiver = _thread.get_ident()
    try:
        while True:
            kind, flags, id, value, payload = _nereid.receive_reply()
            if flags & INPUTS_FREE:
                _lent.pop(id, None)
                continue
            sink = _sinks.get(id)
            if kind != INFER or flags & FINAL:
                _sinks.pop(id, None)
            if sink is not None:
                sink(flags, value, payload)
            del sink, payload
    except ConnectionError:
        pass  # the host is gone; the process ends
    except BaseException:
        # No reply would ever arrive again, so the process ends; the host starts a new worker and reports why.
        sys.excepthook(*sys.exc_info())
        sys.stderr.flush()
        os._exit(1)


def register(sink):
    """Returns a number for a call whose replies go to `sink`."""
    global _is_started, own_threads
    if not _is_started:
        with _start_lock:
            if not _is_started:
                own_threads += 1
                threading.Thread(target=_receive_all, name="replies", daemon=True).start()
                _is_started = True
    id = next(_ids)
    _sinks[id] = sink
    return id


def lend(id, kept):
    _lent[id] = kept


def forget(id):
    _sinks.pop(id, None)
    _lent.pop(id, None)


class Waiter:
    """Takes one reply, for a thread that waits for it."""

    __slots__ = ("_lock", "_reply", "id")

    def __init__(self):
        self._reply = None
        self._lock = _thread.allocate_lock()
        self._lock.acquire()

    def __call__(self, flags, value, payload):
        self._reply = (flags, value, payload)
        self._lock.release()

    def wait(self):
        self._lock.acquire()
        return self._reply


def check_may_wait():
    """Raises in a destructor that happens to run on the thread that would receive the reply."""
    if _thread.get_ident() == _receiver:
        raise TritonModelException("the server cannot be asked from here: the answer could not arrive")


def ask(kind, value=0, flags=0, control=None):
    """Calls and waits. Returns (value, payload); raises TritonModelException with the server's message on failure."""
    check_may_wait()
    waiter = Waiter()
    id = register(waiter)
    try:
        _nereid.call(kind, flags, id, value, control)
    except BaseException:
        forget(id)
        raise
    flags, value, payload = waiter.wait()
    if flags & FAILED:
        raise TritonModelException(error_of(payload)[1])
    return value, payload


def tell(kind, value=0):
    """Calls without waiting for a reply."""
    id = register(None)
    _nereid.call(kind, 0, id, value, None)
