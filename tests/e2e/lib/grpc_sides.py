# SPDX-License-Identifier: Apache-2.0
"""One contract over gRPC, two servers: nereid, and NVIDIA's of 2.51 with nereid's backends.

A test module takes `grpc_server` and `client`; each of its tests then runs once for each server.
"""
import os
import queue

import pytest
import tritonclient.grpc as triton
from conftest import BUILD, DEADLINE, ROOT, make_identity, make_targets
from ports import free_port
from python_models import make_python
from python_sides import Nereid, NereidInTriton, SideStarter, put_model
from test_classification import labeled

PORTS = ("--http-port", "--metrics-port", "--grpc-port")
# What clients need that Triton 2.51 does not know: there, memory of clients is always allowed.
ONLY_NEREID = ("--allow-client-shm=true",)

# Waits for the request of value 1 when its own value is 0: two instances, which answer in the wrong order.
CROSSED = """
def execute(self, requests):
    mark = os.path.join(os.path.dirname(__file__), "crossed")
    for request in requests:
        while value(request)[0] == 0 and not os.path.exists(mark):
            time.sleep(0.001)
        if value(request)[0] == 1:
            open(mark, "w").close()
    return [answer(value(request)) for request in requests]
"""


class NereidOverGrpc(Nereid):
    name = "nereid"

    def flags(self, mark):
        return ONLY_NEREID


class TritonOverGrpc(NereidInTriton):
    name = "triton"

    def command(self, command):
        rest = [part for part in command[1:] if not part.startswith(PORTS)]
        return [str(self.server), *(f"{port}={free_port()}" for port in PORTS), *rest]


NEREID, TRITON = NereidOverGrpc(), TritonOverGrpc()
# Triton is the same whatever NEREID_BUILD says: ThreadSanitizer's run has no use for it.
SIDES = [NEREID] if BUILD.name == "tsan" else [NEREID, TRITON]
in_nereid = pytest.mark.parametrize("grpc_side", [NEREID], ids=["nereid"], indirect=True)


def make_pair(directory):
    """An identity of two inputs."""
    tensors = [f'{kind}put {{ name: "{kind.upper()}PUT{i}" data_type: TYPE_INT32 dims: [ -1 ] }}' for i in range(2) for kind in ("in", "out")]
    (directory / "pair/1").mkdir(parents=True)
    (directory / "pair/config.pbtxt").write_text("\n".join(['backend: "identity"', "max_batch_size: 8", *tensors]))


def make_models(directory):
    """An identity of each type (t_fp32 and so on), one with labels, a slow one, one without batches, one of two inputs, one that crosses, and those of tests/python_models."""
    make_targets(directory)
    labeled(directory, "rows", max_batch_size=8)
    make_identity(directory, "slow", "TYPE_INT32", more='parameters { key: "execute_delay_ms" value { string_value: "1500" } }')
    make_identity(directory, "two_versions", versions=(1, 3), more="version_policy { all {} }")
    make_identity(directory, "flat", "TYPE_INT32", max_batch_size=0)
    make_pair(directory)
    make_python(directory, "crossed", CROSSED, count=2)
    for name in ("repeat", "tell", "patient", "endless"):
        put_model(directory, name)
    return directory


def place(directory, made):
    """In one step, so that no poll sees half of it: a model, or the configuration of one that is there."""
    if directory.exists():
        os.replace(made / "config.pbtxt", directory / "config.pbtxt")
    else:
        made.rename(directory)


def stop(starter):
    """Ends the servers. Triton 2.51 may keep a model that answered streams, and then does not end: that is not what is tested here."""
    if starter.side is TRITON:
        for server in starter.servers:
            server.process.kill()
            server.process.wait()
    starter.stop_all()


@pytest.fixture(scope="module", params=SIDES, ids=[side.name for side in SIDES])
def grpc_side(request):
    return request.param


@pytest.fixture(scope="module")
def grpc_server(grpc_side, tmp_path_factory):
    starter = SideStarter(grpc_side, grpc_side.backends(tmp_path_factory.mktemp("backends")), tmp_path_factory.mktemp("grpc"))
    try:
        yield starter(make_models(tmp_path_factory.mktemp("models")), flags=["--load-model=*"])
    finally:
        stop(starter)


@pytest.fixture
def client(grpc_server):
    with client_of(grpc_server) as client:
        yield client


def client_of(server, **options):
    return triton.InferenceServerClient(f"127.0.0.1:{server.grpc_port}", **options)


def tensor(data, datatype="INT32", name="INPUT0"):
    return triton.InferInput(name, data.shape, datatype).set_data_from_numpy(data)


class Answers:
    """A callback, and what it was called with."""

    def __init__(self):
        self.queue = queue.Queue()

    def __call__(self, result, error):
        self.queue.put((result, error))

    def next(self):
        return self.queue.get(timeout=DEADLINE)

    def result(self):
        result, error = self.next()
        assert error is None, error
        return result

    def error(self):
        result, error = self.next()
        assert result is None
        return error


__all__ = ["ROOT", "client", "grpc_server", "grpc_side"]
