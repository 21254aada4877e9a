# SPDX-License-Identifier: Apache-2.0
"""A port for a server that does not tell which one it took for port 0: Triton, and what is measured beside it.

Each process has a block of ports to itself for as long as it lives: the lock of a file says whose it is, so that neither pytest's workers nor runs beside
this one are given the same port.
"""
import atexit
import errno
import fcntl
import functools
import itertools
import os
import pathlib
import random
import socket
import tempfile

# Below the ports that the kernel gives to clients (32768 on): a client that waits for its server could be given the server's.
FIRST, LAST, BLOCK = 18000, 32000, 200
LOCKS = pathlib.Path(tempfile.gettempdir()) / f"nereid-test-ports-{os.getuid()}"


@functools.cache
def block():
    """The ports of this process, again and again; from any one on, since a port that was just used may not be had at once."""
    LOCKS.mkdir(exist_ok=True)
    for first in range(FIRST, LAST, BLOCK):
        lock = os.open(LOCKS / str(first), os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(lock)
            continue
        atexit.register(os.close, lock)
        begin = random.randrange(BLOCK)
        return itertools.cycle([*range(first + begin, first + BLOCK), *range(first, first + begin)])
    raise AssertionError(f"all blocks of {BLOCK} ports from {FIRST} to {LAST} are taken ({LOCKS})")


def is_refused(port):
    with socket.socket() as attempt:
        return attempt.connect_ex(("127.0.0.1", port)) == errno.ECONNREFUSED


def free_port():
    """The one that was given longest ago and at which nobody listens."""
    for port in itertools.islice(block(), BLOCK):
        if is_refused(port):
            return port
    raise AssertionError("somebody listens at each port of this process's block")
