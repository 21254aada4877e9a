# SPDX-License-Identifier: Apache-2.0
"""A port for a server that does not tell which one it took for port 0: Triton, and what is measured beside it."""
import collections
import os
import random
import socket

FIRST, LAST, WORKERS = 18000, 32000, 16
given = collections.deque(maxlen=99)


def free_port():
    """One below those that the kernel gives to clients: a client that waits for its server could be given the server's.

    The last ones are not given again, nor are those that two of pytest's workers get.
    """
    mine = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw")) % WORKERS
    while True:
        port = random.randrange(FIRST + mine, LAST, WORKERS)
        with socket.socket() as attempt:
            if port not in given and attempt.connect_ex(("127.0.0.1", port)) != 0:
                given.append(port)
                return port
