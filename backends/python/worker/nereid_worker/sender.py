# SPDX-License-Identifier: Apache-2.0
"""InferenceResponseSender: sends responses from any thread, instead of returning them from `execute`."""

import _thread

import _nereid

from . import calls
from .errors import TritonError, TritonModelException
from .response import InferenceResponse

FINAL = 1

_state = _thread.allocate_lock()  # guards the counters of all senders: held for a few instructions


class InferenceResponseSender:
    __slots__ = ("_handle", "_requested", "_decoupled", "_closed", "_sent", "_is_taken", "_goes_again", "_elder", "__weakref__")

    def __init__(self, handle, requested, decoupled):
        self._handle = handle
        self._requested = requested
        self._decoupled = decoupled
        self._closed = False
        self._sent = 0
        self._is_taken = False  # the model has asked for it
        self._goes_again = False  # the request is rescheduled and has another sender then
        self._elder = None  # the request's earlier sender, if the model has kept it: that one sends the end

    def send(self, response=None, flags=0):
        """Sends a response, or none. The flag TRITONSERVER_RESPONSE_COMPLETE_FINAL says that no more follow."""
        if flags != 0 and flags != FINAL:
            raise TritonModelException("Unable to send response. Unsupported flag provided.")
        if flags == 0 and response is None:
            raise TritonModelException(
                "Inference Response object must be provided when the response flags is set to zero."
            )
        if response is not None and not isinstance(response, InferenceResponse):
            raise TypeError(f"send(): expected an InferenceResponse, found {type(response).__name__}")
        message = _nereid.make_response(self._requested, response) if response is not None else None
        self._count(response is not None, flags)
        _nereid.call(calls.RESPONSE, flags, self._handle, 0, message)

    def _count(self, has_response, flags):
        """Checks that this response is allowed now, and counts it."""
        with _state:
            if not self._decoupled:
                if has_response and self._sent > 0:
                    raise TritonModelException(
                        "Unable to send response. Non-decoupled model cannot send more than one response."
                    )
                if not has_response and flags == FINAL and self._sent == 0:
                    raise TritonModelException(
                        "Unable to send response. Non-decoupled model cannot send complete final before sending a "
                        "response."
                    )
            if self._closed:
                raise TritonModelException("Unable to send response. Response sender has been closed.")
            if flags == FINAL:
                self._closed = True
            self._sent += 1

    def is_cancelled(self):
        if self._closed:
            return False
        return calls.ask(calls.IS_CANCELLED, self._handle)[0] == 1

    def _close(self):
        """Forbids further responses. False when they were forbidden already."""
        with _state:
            was_open = not self._closed
            self._closed = True
        return was_open

    def _fail(self, message):
        """Ends a request that is still open, with an error."""
        if self._close():
            self._send_error(message)

    def _send_error(self, message):
        failed = InferenceResponse(error=TritonError(message))
        _nereid.call(calls.RESPONSE, FINAL, self._handle, 0, _nereid.make_response((), failed))

    def __del__(self):
        # The last chance to answer: no other reference is left. Takes no lock, since this may run within any code.
        if self._closed:
            return
        self._closed = True
        try:
            if self._goes_again or self._elder is not None:
                _nereid.call(calls.RESPONSE, calls.FORGOTTEN, self._handle, 0, None)
            elif self._decoupled or self._sent > 0:
                _nereid.call(calls.RESPONSE, FINAL, self._handle, 0, None)
            else:
                self._send_error("the model let go of the request without sending a response")
        except (AttributeError, ConnectionError):
            pass  # the process ends
