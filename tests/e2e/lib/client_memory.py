# SPDX-License-Identifier: Apache-2.0
"""Memory that a test shares with a server as a client does: objects below /dev/shm, and requests that name them."""
import contextlib
import itertools
import json
import mmap
import os

import proc

NUMBERS = itertools.count()
BASE = "/v2/systemsharedmemory"


class Region:
    """An object of our own. `key` is what a server is told; the memory stays mapped here, whatever becomes of the object."""

    def __init__(self, size):
        self.key = f"/nereid_test_{os.getpid()}_{next(NUMBERS)}"
        self.path = f"/dev/shm{self.key}"
        self.size = size
        self.descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
        os.ftruncate(self.descriptor, size)
        self.memory = mmap.mmap(self.descriptor, size)

    def resize(self, size):
        os.ftruncate(self.descriptor, size)

    def close(self):
        self.memory.close()
        os.close(self.descriptor)
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self.path)


@contextlib.contextmanager
def region(size=4096):
    made = Region(size)
    try:
        yield made
    finally:
        made.close()


def register(server, name, key, byte_size, offset=0):
    body = json.dumps({"key": key, "offset": offset, "byte_size": byte_size}).encode()
    return server.ask(f"{BASE}/region/{name}/register", body)


def unregister(server, name=None):
    return server.ask(f"{BASE}{f'/region/{name}' if name else ''}/unregister", b"")


def status(server, name=None):
    return server.ask(f"{BASE}{f'/region/{name}' if name else ''}/status")


def registered(server):
    return [row["name"] for row in json.loads(status(server).body)]


def mapped(server, made):
    """How often the server has the object mapped."""
    return sum(made.path in line for line in proc.read(server.process.pid, "maps").splitlines())


def place(name, size, offset=0):
    """The parameters of a tensor in a region."""
    return {"shared_memory_region": name, "shared_memory_byte_size": size, "shared_memory_offset": offset}


def inference(datatype, shape, source=None, target=None, **more):
    """The body of a request for an identity model: `source` and `target` are parameters of its input and output."""
    tensor = {"name": "INPUT0", "datatype": datatype, "shape": list(shape)}
    if source is not None:
        tensor["parameters"] = source
    body = {"inputs": [tensor | more]}
    if target is not None:
        body["outputs"] = [{"name": "OUTPUT0", "parameters": target}]
    return json.dumps(body).encode()
