"""Executions that wait for a call in a circle. The host lends the worker then: the waiting thread takes further work until
the reply is there. protocol.h: REPLY_LEND, ANSWER_LENT, WORK_RESUME."""

import _thread
import os
import sys

import _nereid

LEND = 4  # of the flags of a reply
LATE = 32  # of the flags of work

# Before 3.11 each frame takes of the thread's stack, which has 8 MiB.
_FRAMES_MOST = 7000 if sys.version_info < (3, 11) else sys.maxsize

_thread_of_work = _thread.get_ident()
_resumed = set()  # calls whose replies are there, while executions above theirs run
serve_one = None  # takes a piece of work and does it


class Execution:
    """One that is under way. `late`: its answer goes by the ring of calls."""

    __slots__ = ("id", "late", "is_lent")

    def __init__(self, id, flags):
        self.id = id
        self.late = bool(flags & LATE)
        self.is_lent = False


_frames_below = 0  # of executions that wait below the current one
current = None  # the execution that runs on the thread of work, not those that wait below it


def waits():
    """Whether a wait of the calling thread keeps the worker from other work."""
    return current is not None and _thread.get_ident() == _thread_of_work


def is_full():
    """Whether the stack has no room for another execution."""
    return _frames_below > _FRAMES_MOST


def resume(id):
    _resumed.add(id)


def lend(id):
    """Takes further work until call `id` is resumed."""
    global current, _frames_below
    execution = current
    if not execution.is_lent:
        _nereid.lend(execution.id, execution.late)
        execution.is_lent = execution.late = True
    current = None
    limit = sys.getrecursionlimit()
    frames = _frames_of_level()
    sys.setrecursionlimit(limit + frames)
    _frames_below += frames
    try:
        while id not in _resumed:
            serve_one()
    except ConnectionError:
        os._exit(0)  # the host is gone
    except BaseException:
        sys.excepthook(*sys.exc_info())
        os._exit(1)
    sys.setrecursionlimit(limit)
    _frames_below -= frames
    _resumed.discard(id)
    current = execution


def _frames_of_level():
    """Frames of the stack down to the level below: what runs above has as much room as if it ran alone."""
    count, frame = 0, sys._getframe(2)
    while frame is not None and frame.f_code is not lend.__code__:
        count, frame = count + 1, frame.f_back
    return count + 2
