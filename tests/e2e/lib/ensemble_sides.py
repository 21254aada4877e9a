# SPDX-License-Identifier: Apache-2.0
"""Ensembles beside Triton 2.51: their configurations, a server of either side, and what of its models clients see and the log says."""
import json
import re
import time

import ensembles
from conftest import IDENTITY, Starter
from ensembles import HEAD, step, tensor_text
from grpc_sides import NEREID, TRITON, SideStarter, place, stop

BODY = b'{"inputs":[{"name":"INPUT0","shape":[1,1],"datatype":"FP32","data":[7]}]}'
# What both say of loads; what else the log has (positions in a configuration, backends' own lines) is not compared.
SAID = re.compile(r'^(?:I\d{4} .*?\] "successfully |E\d{4} .*?\] ")(.*)"$', re.M)


def tensor(kind, name, type="TYPE_FP32", dims="-1", more=""):
    return tensor_text(kind, name, type, [dims], more) + "\n"


def ensemble(*steps, tensors=None, max_batch_size=8, more=""):
    tensors = tensors or tensor("input", "INPUT0") + tensor("output", "OUTPUT0")
    return HEAD % dict(max_batch_size=max_batch_size, tensors=tensors, scheduling="", more=more, steps="\n".join(steps))


def chain(*models, **more):
    """An ensemble that hands its input through these models."""
    return ensemble(*ensembles.chain(*models), **more)


def identity(**values):
    return IDENTITY % dict(dict(type="TYPE_FP32", max_batch_size=8, more=""), **values)


def write(repository, name, config):
    """Makes the model, or changes it, in one step."""
    made = repository.with_name(f"{repository.name} {name}")
    (made / "1").mkdir(parents=True, exist_ok=True)
    (made / "config.pbtxt").write_text(config)
    place(repository / name, made)


class Life:
    """A server of one side whose models come and go."""

    def __init__(self, side, base, models, mode="explicit", flags=()):
        self.side, self.base, self.repository = side, base, base / "models"
        self.repository.mkdir()
        backends = base / "backends"
        backends.mkdir()
        for name, config in models.items():
            write(self.repository, name, config)
        self.starter = SideStarter(side, side.backends(backends), base)
        flags = [f"--model-control-mode={mode}", "--exit-on-error=false", *flags, *side.flags("")]
        self.server = Starter.__call__(self.starter, self.repository, flags=flags, variables=side.variables, ready=False)
        self.begin = 0

    def post(self, path, **parameters):
        reply = self.server.ask(path, json.dumps({"parameters": parameters}).encode())
        return reply.status, reply.text if reply.status != 200 else ""

    def load(self, name, **parameters):
        return self.post(f"/v2/repository/models/{name}/load", **parameters)

    def unload(self, name, dependents=False):
        return self.post(f"/v2/repository/models/{name}/unload", **({"unload_dependents": True} if dependents else {}))

    def index(self):
        return [(row["name"], row.get("version"), row.get("state"), row.get("reason"))
                for row in json.loads(self.server.ask("/v2/repository/index", b"").body)]

    def seen(self):
        """The index, readiness, and how each model answers."""
        rows = self.index()
        answers = {}
        for name in sorted({row[0] for row in rows}):
            reply = self.server.ask(f"/v2/models/{name}/infer", BODY)
            answers[name] = (self.server.ask(f"/v2/models/{name}/ready").status, reply.status, "" if reply.status == 200 else reply.text)
        return rows, self.server.ask("/v2/health/ready").status, answers

    def take(self, name):
        (self.repository / name).rename(self.base / f"taken {name} {time.monotonic_ns()}")

    def said(self):
        """The lines since it was asked last, without what only one side says: Triton of CUDA, nereid where it has looked."""
        text = self.server.log[self.begin:].rpartition("\n")[0]
        self.begin += len(text)
        lines = [line.partition("\\n")[0] for line in SAID.findall(text) if "CUDA" not in line and "CudaDriver" not in line]
        return [re.sub(r"(unable to find) backend library.*|(model not found in any model repository).*", r"\1\2", line) for line in lines]

    def stop(self):
        stop(self.starter)


__all__ = ["NEREID", "TRITON", "step"]
