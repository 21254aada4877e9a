# SPDX-License-Identifier: Apache-2.0
"""Memory of a GPU that a test shares with a server as a client does: another process has it (gpus.Client), tritonclient names it."""
import base64
import contextlib
import itertools

import tritonclient.grpc as over_grpc
import tritonclient.http as over_http
from conftest import DEADLINE
from grpc_sides import client_of

NUMBERS = itertools.count()


class Protocol:
    """tritonclient over one of the protocols, with answers alike."""

    def __init__(self, name, server):
        self.name, self.server = name, server
        self.module = over_http if name == "http" else over_grpc

    @contextlib.contextmanager
    def open(self):
        if self.name == "http":
            with over_http.InferenceServerClient(self.server.url, network_timeout=DEADLINE, concurrency=8) as self.client:
                yield self
        else:
            with client_of(self.server) as self.client:
                yield self

    def register(self, name, handle, size, device=0):
        self.client.register_cuda_shared_memory(name, base64.b64encode(handle), device, size)

    def regions(self, name=""):
        """{name: (device, size)}"""
        status = self.client.get_cuda_shared_memory_status(name)
        if self.name == "http":
            return {row.pop("name"): (row.pop("device_id"), row.pop("byte_size")) for row in status if not row.keys() - {
                "name", "device_id", "byte_size"}}
        return {key: (row.device_id, row.byte_size) for key, row in status.regions.items() if row.name == key}

    def unregister(self, name=""):
        self.client.unregister_cuda_shared_memory(name)

    def input(self, shape, datatype, place=None, data=None, name="INPUT0"):
        """`place`: region, size and offset."""
        made = self.module.InferInput(name, list(shape), datatype)
        if place is not None:
            made.set_shared_memory(*place)
        else:
            made.set_data_from_numpy(data)
        return made

    def output(self, place=None, name="OUTPUT0", **more):
        made = self.module.InferRequestedOutput(name, **more)
        if place is not None:
            made.set_shared_memory(*place)
        return made

    def infer(self, model, inputs, outputs=None, **more):
        return self.client.infer(model, inputs, outputs=outputs, **more)


class Memory:
    """Memory of a process with a GPU."""

    def __init__(self, process, size, device=0):
        self.process, self.size, self.device = process, size, device
        self.base = process.allocate(size, device=device)
        self.handle = process.handle(self.base)
        self.name = f"r{next(NUMBERS)}"

    def write(self, data, offset=0):
        self.process.write(self.base + offset, bytes(data))

    def read(self, size=None, offset=0):
        return self.process.read(self.base + offset, self.size - offset if size is None else size)
