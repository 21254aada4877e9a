# SPDX-License-Identifier: Apache-2.0
"""Errors of a request (TritonError, sent as an answer) and of using this interface (TritonModelException)."""

from .texts import Named, as_text, shown


class TritonModelException(Exception):
    """A wrong use of this interface, or a failed call to the server."""


class ErrorCode(Named):
    """TRITONSERVER_Error_Code."""

    UNKNOWN = 0
    INTERNAL = 1
    NOT_FOUND = 2
    INVALID_ARG = 3
    UNAVAILABLE = 4
    UNSUPPORTED = 5
    ALREADY_EXISTS = 6
    CANCELLED = 7


class TritonError:
    """An error that answers a request. Not an exception: put it into an InferenceResponse."""

    __slots__ = ("_message", "_code")

    def __init__(self, message, code=ErrorCode.INTERNAL):
        self._message = shown(as_text(message, "TritonError(): the message"))
        self._code = ErrorCode(code)

    def code(self):
        return ErrorCode(self._code)

    def message(self):
        return self._message

    def __repr__(self):
        return f"TritonError({self._message!r}, TritonError.{self.code().name})"


for _code in ErrorCode:
    setattr(TritonError, _code.name, _code)
