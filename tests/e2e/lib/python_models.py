# SPDX-License-Identifier: Apache-2.0
"""Models of the python backend, written by the tests: a class body and the tensors that it has."""
import json
import textwrap

import numpy as np
import proc
import tritonclient.http as triton
from conftest import wait_for
from safety import on_threads

HEAD = """
import json, os, sys, threading, time
import numpy as np
import triton_python_backend_utils as pb_utils

def value(request, name="IN"):
    return pb_utils.get_input_tensor_by_name(request, name).as_numpy()

def answer(array, name="OUT", **more):
    return pb_utils.InferenceResponse([pb_utils.Tensor(name, array)], **more)

class TritonPythonModel:
"""

CONFIG = """
backend: "python"
max_batch_size: %(max_batch_size)d
input { name: "IN" data_type: %(kind)s dims: [ -1 ] }
output { name: "OUT" data_type: %(kind)s dims: [ -1 ] }
instance_group { count: %(count)d kind: KIND_CPU }
%(more)s
"""

# Gives its input back.
ECHO = """
def execute(self, requests):
    return [answer(value(request)) for request in requests]
"""


def make_python(repository, name, body=ECHO, kind="TYPE_INT32", count=1, max_batch_size=0, more="", config=None):
    """A model whose class has `body`; its tensors are IN and OUT."""
    directory = repository / name
    (directory / "1").mkdir(parents=True, exist_ok=True)
    text = CONFIG % dict(kind=kind, count=count, max_batch_size=max_batch_size, more=more) if config is None else config
    (directory / "config.pbtxt").write_text(text)
    (directory / "1/model.py").write_text(HEAD + textwrap.indent(textwrap.dedent(body), "    "))
    return directory


def tensor(data, datatype="INT32", name="IN"):
    return triton.InferInput(name, data.shape, datatype).set_data_from_numpy(data)


def infer(server, model, data=(1,), datatype="INT32", **options):
    """One request with a real client; gives the array OUT, or raises what the server answered."""
    data = data if isinstance(data, np.ndarray) else np.array(data, np.int32)
    with triton.InferenceServerClient(server.url) as client:
        return client.infer(model, [tensor(data, datatype)], **options).as_numpy("OUT")


def ask(server, model, data=(1,)):
    """The same as plain HTTP: (status, the answer's JSON)."""
    body = {"inputs": [{"name": "IN", "datatype": "INT32", "shape": [len(data)], "data": list(data)}]}
    reply = server.ask(f"/v2/models/{model}/infer", json.dumps(body).encode())
    return reply.status, json.loads(reply.body)


def reason(server, name):
    """Why the model is not there."""
    models = json.loads(server.ask("/v2/repository/index", b"{}").body)
    return next(model.get("reason", "") for model in models if model["name"] == name)


GUARD = "nereid-worker-l"  # the first 15 letters


def children(pid):
    """Processes that have `pid` as their parent: {pid: state}. A guard is passed over for its worker, its first child."""
    every = proc.processes()
    found = {}
    for child, (name, state, parent) in every.items():
        if parent == pid:
            guarded = min((p for p, (_, _, parent) in every.items() if parent == child), default=child)
            child = guarded if name == GUARD else child
            found[child] = every[child][1]
    return found


def is_lone_guard(process, server):
    """Is it, of `children`, a guard that has no worker any more or none yet?"""
    name, _, parent = proc.processes().get(process, ("", "", 0))
    return name == GUARD and parent == server.process.pid


def guard_of(worker):
    """The process that ends what the worker has started."""
    every = proc.processes()
    guard = every[worker][2]
    assert every[guard][0] == GUARD
    return guard


def worker_of(server, model):
    """The process of a model that answers with its number (PID)."""
    return int(infer(server, model)[0])


PID = """
def execute(self, requests):
    return [answer(np.full_like(value(request), os.getpid())) for request in requests]
"""


def await_gone(pid):
    wait_for(f"the end of process {pid}", lambda: proc.is_gone(pid))


def together(count, work):
    """Runs work(0), work(1), … on threads of their own at once; gives what they gave, in order."""
    results = [None] * count

    def run(i):
        results[i] = work(i)

    on_threads(count, run)
    return results
