# SPDX-License-Identifier: Apache-2.0
"""--model-control-mode=poll beside Triton 2.51: after each change of the repositories the index, readiness and the log say the same.

How nereid waits until a change has settled, and how it goes on after failures, is in test_poll.py.
"""
import contextlib
import json
import pathlib
import re
import tempfile

import pytest
from conftest import Starter, make_identity, wait_for
from grpc_sides import NEREID, TRITON, SideStarter, place, stop

BODY = b'{"inputs":[{"name":"INPUT0","shape":[1,1],"datatype":"FP32","data":[7]}]}'
TWO = "instance_group { kind: KIND_CPU count: 2 }"
# Both say these; what else the log has (positions in a configuration, backends' own lines) is not compared.
SAID = re.compile(r'^(?:I\d{4} .*?\] "successfully |E\d{4} .*?\] ")(.*)"$', re.M)


class Side:
    def __init__(self, side, base):
        self.base = base
        self.repository, self.other, backends = (base / name for name in ("models", "other", "backends"))
        for directory in (self.repository, self.other, backends):
            directory.mkdir()
        make_identity(self.repository, "m")
        make_identity(self.other, "o")
        self.starter = SideStarter(side, side.backends(backends), base)
        flags = ["--model-control-mode=poll", "--repository-poll-secs=1", *side.flags("")]
        self.server = Starter.__call__(self.starter, self.repository, self.other, flags=flags, variables=side.variables, ready=False)
        self.server.await_ready()
        self.begin, self.errors = len(self.server.log), set()

    def beside(self):
        return pathlib.Path(tempfile.mkdtemp(dir=self.base))

    def index(self):
        return json.loads(self.server.ask("/v2/repository/index", b"").body)

    def config(self, name):
        return json.loads(self.server.ask(f"/v2/models/{name}/config").body)

    def seen(self):
        """What clients see. Only nereid says in the index why a model could not be read, and where it looked for a backend."""
        models, rows = {}, []
        for row in self.index():
            name = row["name"]
            readable = "version" in row or "two or more" in row.get("reason", "")
            rows.append({**row, **({"reason": shorten(row["reason"])} if "reason" in row else {})} if readable else {"name": name})
            config = self.config(name)
            models[name] = [self.server.ask(f"/v2/models/{name}/ready").status, self.server.ask(f"/v2/models/{name}/infer", BODY).status,
                            config.get("max_batch_size"), config.get("instance_group")]
        return rows, self.server.ask("/v2/health/ready").status, models

    def said(self):
        """The lines of this step; errors only where they are new, as Triton repeats them at each poll."""
        return {shorten(text) for text in SAID.findall(self.server.log[self.begin:])} - self.errors

    def end_step(self):
        self.errors |= {line for line in self.said() if "ed to " in line}
        self.begin = len(self.server.log)


def shorten(text):
    """Without what only nereid says: where in a configuration, and where it looked for a backend."""
    return re.sub(r"failed to read text proto from \S*/(\w+/config\.pbtxt).*|('\w+where').*", r"\1\2", text)


@pytest.fixture(scope="module")
def sides(tmp_path_factory):
    made = []
    try:
        for side in (NEREID, TRITON):
            made.append(Side(side, tmp_path_factory.mktemp(side.name)))
        yield made
    finally:
        for side in made:
            stop(side.starter)


def model(name, into="repository", **more):
    return lambda side: place(getattr(side, into) / name, make_identity(side.beside(), name, **more))


def written(name, text):
    def change(side):
        made = make_identity(side.beside(), name)
        (made / "config.pbtxt").write_text(text)
        place(side.repository / name, made)
    return change


def removed(path, of="repository"):
    return lambda side: (getattr(side, of) / path).rename(side.beside() / "gone")


def broken(name):
    return f"Poll failed for model directory '{name}': {name}/config.pbtxt"


def unfound(backend):
    return f"failed to load 'none' version 1: Invalid argument: unable to find backend library for backend '{backend}'"


STEPS = (
    ("a model comes", model("new"), {"loaded 'new'"}),
    ("a version comes", lambda side: (side.repository / "m/2").mkdir(), {"loaded 'm'", "unloaded 'm' version 1"}),
    ("only the configuration changes", model("m", max_batch_size=4), {"loaded 'm'", "unloaded 'm' version 2"}),
    ("only the instances change", model("m", max_batch_size=4, more=TWO), {"loaded 'm'"}),
    ("a version goes", removed("m/2"), {"loaded 'm'", "unloaded 'm' version 2"}),
    ("a configuration breaks", written("m", "max_batch_size: 8 foo: 1"), {broken("m")}),
    ("it is mended", model("m", max_batch_size=3), {"loaded 'm'", "unloaded 'm' version 1"}),
    ("a broken model comes", written("bad", "max_batch_size: ?"), {broken("bad")}),
    ("that is mended", model("bad"), {"loaded 'bad'"}),
    ("one comes that cannot be loaded", written("none", 'backend: "nowhere"'), {unfound("nowhere")}),
    ("that is mended, too", model("none"), {"loaded 'none'"}),
    ("it cannot be loaded again", written("none", 'backend: "elsewhere"'), {unfound("elsewhere")}),
    ("it goes", removed("none"), {"unloaded 'none' version 1"}),
    ("a model goes", removed("new"), {"unloaded 'new' version 1"}),
    ("it comes again", model("new", max_batch_size=2), {"loaded 'new'"}),
    ("a name is there twice", model("m", "other"),
     {"unloaded 'm' version 1", "failed to poll model 'm': not unique across all model repositories"}),
    ("and once again", removed("m", "other"), {"loaded 'm'"}),
    ("the last version goes", removed("new/1"),
     {"failed to load model 'new': at least one version must be available under the version policy of model 'new'"}),
)


def test_each_change_shows_alike(sides):
    ours, theirs = sides
    for what, change, said in STEPS:
        for side in sides:
            change(side)
        with contextlib.suppress(AssertionError):  # the assertions below say what differs
            wait_for(what, lambda: ours.said() == theirs.said() == said and ours.seen() == theirs.seen())
        assert (ours.said(), theirs.said()) == (said, said), what
        assert ours.seen() == theirs.seen(), what
        for side in sides:
            side.end_step()
