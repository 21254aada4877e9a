# SPDX-License-Identifier: Apache-2.0
"""Logger: writes a model's lines to the server's log. A level that is off costs one test."""

import os
import struct
import sys
import threading

import _nereid

from .texts import Named, as_text, shown

_CALL_LOG = 3
_MAX_MESSAGE = 1 << 20  # bytes of a message
_MOST_IDS = 255  # bytes of request ids


class LogLevel(Named):
    """With Triton's numbers."""

    INFO = 0
    WARNING = 1
    ERROR = 2
    VERBOSE = 3


# The levels that are on, one bit (1 << level) for each; every batch of requests updates it.
levels = 0b0111

# The requests that the main thread executes.
requests = ()

_OF_WORKER = 16  # flag of lines from the worker itself
_MAIN = threading.main_thread().ident


def _write(level_bit, message, frame, about=None):
    if about is None:
        about = requests if threading.get_ident() == _MAIN else ()
    ids = ", ".join(request.request_id() for request in about[:16])
    ids = ids.encode("utf-8", "backslashreplace")[:_MOST_IDS]
    text = shown(as_text(message, "a log message")).encode("utf-8", "backslashreplace")
    if len(text) > _MAX_MESSAGE:
        text = text[:_MAX_MESSAGE].decode("utf-8", "ignore").encode() + b" [cut]"
    file = os.path.basename(frame.f_code.co_filename).encode("utf-8", "backslashreplace")
    control = b"".join(
        (struct.pack("=I", len(text)), text, struct.pack("=I", len(file)), file, struct.pack("=I", frame.f_lineno),
         struct.pack("=BI", bool(about), len(ids)), ids)
    )
    _nereid.call(_CALL_LOG, level_bit, 0, 0, control)


def failed(about, message):
    """Logs the outcome of requests."""
    if levels & 4:
        _write(4 | _OF_WORKER, message, sys._getframe(1), about)


class Logger:
    LogLevel = LogLevel
    INFO = LogLevel.INFO
    WARNING = LogLevel.WARNING
    ERROR = LogLevel.ERROR
    VERBOSE = LogLevel.VERBOSE

    @staticmethod
    def log(message, level=LogLevel.INFO):
        if levels >> level & 1:
            _write(1 << level, message, sys._getframe(1))

    @staticmethod
    def log_info(message):
        if levels & 1:
            _write(1, message, sys._getframe(1))

    @staticmethod
    def log_warn(message):
        if levels & 2:
            _write(2, message, sys._getframe(1))

    @staticmethod
    def log_error(message):
        if levels & 4:
            _write(4, message, sys._getframe(1))

    @staticmethod
    def log_verbose(message):
        if levels & 8:
            _write(8, message, sys._getframe(1))
