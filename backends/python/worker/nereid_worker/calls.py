# SPDX-License-Identifier: Apache-2.0
"""Calls to the server: who waits for which reply. One thread, started with the first call, receives all replies."""

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
# What gets the replies of a call: a function of (flags, value, payload), called on the receiving thread. An entry goes
# with its final reply.
_sinks = {}
# Inputs of calls that lie on a device, until the server does not read them any more.
_lent = {}
_start_lock = threading.Lock()
_is_started = False
_receiver = None  # the number of the receiving thread

execution = 0  # the number of the one that runs on the thread of work; 0: none
own_threads = 0  # beside the main thread, as far as they are not the model's
_thread_of_work = _thread.get_ident()
# The execution that a task is, and its requests: what such a task calls it awaits, before it answers.
coroutines = weakref.WeakKeyDictionary()


def waits():
    """The execution that a wait of the calling thread keeps from its end; 0: none."""
    return execution if _thread.get_ident() == _thread_of_work else 0


def is_shared():
    """Whether another thread may answer the requests of that execution meanwhile."""
    return _thread._count() > own_threads and any(request._sender for request in logger.requests)


def is_shared_coroutine(requests):
    """The same of an execution that is a coroutine, where another task may answer too."""
    if not any(request._sender and request._sender._is_taken for request in requests):
        return False
    import asyncio  # its caller has done so

    return _thread._count() > own_threads or any(task not in coroutines for task in asyncio.all_tasks())


def text(value):
    """A text as it is on the wire."""
    value = as_text(value, "a name")
    if "\0" in value:
        raise TritonModelException(f"a name cannot contain NUL: {value!r:.200}")
    data = value.encode("utf-8", "surrogateescape")
    return struct.pack("=I", len(data)) + data


def error_of(payload):
    """(code, message) of a failed reply."""
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
        # Nobody would ever hear of a reply again: the host starts a new worker, and says why.
        sys.excepthook(*sys.exc_info())
        sys.stderr.flush()
        os._exit(1)


def register(sink):
    """A number for a call whose replies go to `sink`."""
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
    """Raises in a destructor that runs, by chance, on the thread that would receive the reply."""
    if _thread.get_ident() == _receiver:
        raise TritonModelException("the server cannot be asked from here: the answer could not arrive")


def ask(kind, value=0, flags=0, control=None):
    """Calls and waits. Gives (value, payload); TritonModelException with the server's message when it failed."""
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
    """Calls, and does not care for the reply."""
    id = register(None)
    _nereid.call(kind, 0, id, value, None)
