# SPDX-License-Identifier: Apache-2.0
"""InferenceRequest: passed to `execute`, and made by models to call other models."""

import queue
import struct
import weakref

import _nereid

from . import calls
from .errors import TritonError, TritonModelException
from .response import InferenceResponse, parameters_text
from .sender import InferenceResponseSender
from .tensor import Tensor
from .texts import as_text

RELEASE_RESCHEDULE = 2

_DECOUPLED = 1  # flags of a call
_WAITS = 2
_AWAITS = 4
_SHARED = 8
_ON_CPU = 16
_ON_DEVICE = 32
_LENDS = 64

MEMORY_GPU = 0
MEMORY_CPU = 1

# Handles of requests to be rescheduled when `execute` has returned.
rescheduled = set()

# Senders of rescheduled requests, by correlation id, as long as the models keep them.
_kept = weakref.WeakValueDictionary()

# Whether calls to models are allowed: not before the model is initialized, nor while it is finalized.
may_call = False


class PreferredMemory:
    """The place of a call's outputs. Without it the called model decides."""

    __slots__ = ("_flags",)

    def __init__(self, preferred_memory_type, preferred_device_id=0):
        if preferred_memory_type not in (MEMORY_GPU, MEMORY_CPU):
            raise TypeError("PreferredMemory() needs TRITONSERVER_MEMORY_CPU or TRITONSERVER_MEMORY_GPU")
        device = int(preferred_device_id)
        if not 0 <= device < 64:
            raise TritonModelException(f"PreferredMemory(): there is no device {device}")
        self._flags = _ON_CPU if preferred_memory_type == MEMORY_CPU else _ON_DEVICE | device << 16


class InferenceTrace:
    __slots__ = ("_context", "_parent")

    def __init__(self, context="", parent=0):
        self._context = context
        self._parent = parent

    def get_context(self):
        return self._context or None


class InferenceRequest:
    # _handle: the server's number; 0 for a request that the model made. _sender: None, a sender, or False when the
    # request has been answered. Only requests that the model made have the last three.
    __slots__ = (
        "_handle",
        "_request_id",
        "_correlation_id",
        "_flags",
        "_timeout",
        "_parameters",
        "_trace",
        "_requested",
        "_inputs",
        "_sender",
        "_decoupled",
        "_model_name",
        "_model_version",
        "_preferred_memory",
        "__weakref__",
    )

    def __init__(
        self,
        request_id="",
        correlation_id=0,
        inputs=None,
        requested_output_names=None,
        model_name=None,
        model_version=-1,
        flags=0,
        timeout=0,
        preferred_memory=None,
        trace=None,
        parameters=None,
    ):
        if inputs is None or requested_output_names is None or model_name is None:
            raise TypeError("InferenceRequest() needs inputs, requested_output_names and model_name")
        request_id = as_text(request_id, "InferenceRequest(): request_id")
        model_name = as_text(model_name, "InferenceRequest(): model_name")
        if not isinstance(correlation_id, (int, str)):
            raise TritonModelException("Correlation ID must be integer or string")
        self._inputs = list(inputs)
        self._requested = tuple(
            as_text(name, "InferenceRequest(): an output's name") for name in requested_output_names
        )
        for tensor in self._inputs:
            if tensor is None:
                raise TritonModelException(
                    f"Input tensor for request with id '{request_id}' and model name '{model_name}' should not be "
                    "empty."
                )
            if not isinstance(tensor, Tensor):
                raise TypeError(f"InferenceRequest(): inputs must hold Tensor objects, found {type(tensor).__name__}")
        for name in self._requested:
            if name == "":
                raise TritonModelException(
                    f"Requested output name for request with id '{request_id}' and model name '{model_name}' should "
                    "not be empty."
                )
        self._handle = 0
        self._request_id = request_id
        self._correlation_id = correlation_id
        self._flags = flags
        self._timeout = timeout
        self._parameters = parameters_text(parameters)
        self._trace = trace if trace is not None else InferenceTrace()
        self._sender = None
        self._decoupled = False
        self._model_name = model_name
        self._model_version = model_version
        self._preferred_memory = preferred_memory

    def inputs(self):
        return self._inputs[:]

    def request_id(self):
        return self._request_id

    def correlation_id(self):
        return self._correlation_id

    def requested_output_names(self):
        return set(self._requested)

    def flags(self):
        return self._flags

    def set_flags(self, flags):
        self._flags = flags

    def timeout(self):
        return self._timeout

    def parameters(self):
        return self._parameters or "{}"

    def trace(self):
        trace = self._trace
        if isinstance(trace, str):
            trace = self._trace = InferenceTrace(trace, self._handle)
        return trace

    def set_release_flags(self, flags):
        if not isinstance(flags, int):
            raise TypeError(f"set_release_flags() needs an integer, found {type(flags).__name__}")
        if flags & RELEASE_RESCHEDULE and self._handle:
            rescheduled.add(self._handle)
        else:
            rescheduled.discard(self._handle)

    def _go_again(self):
        """Its sender stays only if the model may send any number of responses."""
        rescheduled.discard(self._handle)
        if self._decoupled:
            sender = self._own_sender()
            sender._goes_again = True
            _kept.setdefault(self._correlation_id, sender)
            return
        if self._sender:
            self._sender._close()
        self._sender = False

    def get_response_sender(self):
        sender = self._own_sender()
        sender._is_taken = True
        return sender

    def _own_sender(self):
        sender = self._sender
        if not sender:
            made = InferenceResponseSender(self._handle, self._requested, self._decoupled)
            if sender is False or self._handle == 0:
                made._close()
            elif self._decoupled and _kept:
                made._elder = _kept.get(self._correlation_id)
            sender = self._sender = made
        return sender

    def is_cancelled(self):
        return self._handle != 0 and calls.ask(calls.IS_CANCELLED, self._handle)[0] == 1

    # --- Calls to other models

    def exec(self, decoupled=False):
        """Returns the response of another model; with decoupled=True an iterator of its responses. Errors are responses."""
        if decoupled:
            return self._start(ResponseIterator(), _DECOUPLED)
        calls.check_may_wait()
        execution = calls.waits()
        return _response_of(*self._start(calls.Waiter(), _waits(execution), execution).wait())

    def async_exec(self, decoupled=False):
        """The same as an awaitable. Open calls run concurrently."""
        import asyncio  # the caller has imported it already

        loop = asyncio.get_running_loop()
        if decoupled:
            future = loop.create_future()
            future.set_result(self._start(ResponseIterator(), _DECOUPLED))
            return future
        execution, requests = calls.coroutines.get(asyncio.current_task(), (0, ()))
        flags = _AWAITS if execution else 0
        if calls.is_shared_coroutine(requests):
            flags |= _SHARED
        return self._start(_Awaited(loop), flags, execution).future

    def _start(self, sink, flags, execution=0):
        """Sends the inference. Replies go to `sink`; `execution` is the execution that waits for them, if any. After the
        return the caller may change the inputs."""
        if not may_call:
            raise TritonModelException("BLS is only supported during the 'execute' function.")
        message, kept = _nereid.make_infer(self._head(), self._inputs)
        sink.id = calls.register(sink)
        if kept is not None:
            calls.lend(sink.id, kept)
            flags |= _LENDS
        if self._preferred_memory is not None:
            flags |= self._preferred_memory._flags
        try:
            _nereid.call(calls.INFER, flags, sink.id, execution, message)
        except BaseException:
            calls.forget(sink.id)
            raise
        return sink

    def _head(self):
        """The call's control part before its inputs."""
        try:
            return self._packed_head()
        except struct.error as problem:
            raise TritonModelException(
                f"a request to model '{self._model_name}' has a number that does not fit: model_version "
                f"{self._model_version!r:.40}, correlation_id {self._correlation_id!r:.40}, flags {self._flags!r:.40}, "
                f"timeout {self._timeout!r:.40} ({problem})"
            ) from None

    def _packed_head(self):
        correlation = self._correlation_id
        parent = self._trace._parent if isinstance(self._trace, InferenceTrace) else self._handle
        parts = [
            calls.text(self._model_name),
            struct.pack("=q", self._model_version),
            calls.text(self._request_id),
            b"\x01" + calls.text(correlation)
            if isinstance(correlation, str)
            else struct.pack("=BQ", 0, correlation),
            struct.pack("=IQQ", self._flags, self._timeout, 0),
            calls.text(self._parameters),
            struct.pack("=QI", parent, len(self._requested)),
        ]
        parts.extend(map(calls.text, self._requested))
        return b"".join(parts)


def _waits(execution):
    """Flags of a call that execute's thread waits for."""
    return (_WAITS | _SHARED if calls.is_shared() else _WAITS) if execution else 0


class _Awaited:
    """Takes the reply for a coroutine."""

    __slots__ = ("id", "future", "_loop")

    def __init__(self, loop):
        self._loop = loop
        self.future = loop.create_future()

    def __call__(self, flags, value, payload):
        try:
            self._loop.call_soon_threadsafe(_settle, self.future, _response_of(flags, value, payload))
        except RuntimeError:
            pass  # the loop is closed, so nothing waits


def _settle(future, response):
    if not future.done():
        future.set_result(response)


def _response_of(flags, value, payload):
    if flags & calls.FAILED:
        code, message = calls.error_of(payload)
        return InferenceResponse(error=TritonError(message, code))
    if isinstance(payload, InferenceResponse):
        return payload
    return InferenceResponse()


class ResponseIterator:
    """The responses of a decoupled call, as they arrive; a second pass gives them again."""

    def __init__(self):
        self._queue = queue.SimpleQueue()
        self._seen = []
        self._next = 0
        self._is_finished = False
        self.id = 0

    def __call__(self, flags, value, payload):
        self._queue.put((_response_of(flags, value, payload), bool(flags & calls.FINAL)))

    def __iter__(self):
        if self._is_finished and self._next >= len(self._seen):
            self._next = 0
        return self

    def __next__(self):
        if self._is_finished:
            if self._next >= len(self._seen):
                raise StopIteration
            response = self._seen[self._next]
            self._next += 1
            return response
        calls.check_may_wait()
        execution = calls.waits()
        if execution and self._queue.empty():
            _nereid.call(calls.INFER_WAIT, _waits(execution), self.id, execution, struct.pack("=Q", len(self._seen)))
        response, self._is_finished = self._queue.get()
        self._seen.append(response)
        self._next = len(self._seen)
        return response

    def cancel(self):
        """Asks the model to stop; responses that it still sends arrive as usual."""
        if not self._is_finished and self.id:
            _nereid.call(calls.INFER_CANCEL, 0, self.id, 0, None)
