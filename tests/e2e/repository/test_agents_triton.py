# SPDX-License-Identifier: Apache-2.0
"""What agents are told, in nereid and in NVIDIA's server of 2.51: the same library (tests/fakes/trace_agent.c), the same calls in the same order."""
import collections
import json
import re

import pytest
from conftest import BUILD, make_identity, wait_for
from python_sides import SIDES, SideStarter
from test_agents import BODY, LOAD, UNLOAD, agents, trace

WRITTEN = 'backend: "identity" max_batch_size: 3'


class Side:
    def __init__(self, side, directory, repository):
        self.log = directory / "agents.log"
        self.log.touch()
        (directory / "agents").mkdir()
        (directory / "agents/trace").symlink_to(BUILD / "test-agents/trace")
        side.variables = {**side.variables, "TRACE_AGENT_LOG": str(self.log)}
        (directory / "backends").mkdir()
        self.starter = SideStarter(side, side.backends(directory / "backends"), directory)
        self.server = self.starter(repository, flags=[f"--repoagent-directory={directory}/agents"])

    def load(self):
        return self.server.ask(LOAD, b"").status == 200

    def told(self):
        """Once the library is closed again: the calls of each load by its number, without the names of directories."""
        def text():
            content = self.log.read_text()
            return content if content.count("Initialize") > 0 and content.count("- Initialize") == content.count("- Finalize") else None

        whole = wait_for("the end of the agents", text)
        self.log.write_text("")
        places, calls = {}, collections.defaultdict(list)
        for line in whole.splitlines():
            if " refused " not in line:
                line = re.sub(r"at (/\S+) ", lambda m: f"at {places.setdefault(m[1], len(places))} ", line)
                calls[line.split()[0].strip("abc")].append(line)
        lines = whole.splitlines()
        begins = {tuple(line.split()[:2]): at for at, line in reversed(list(enumerate(lines)))}
        return dict(calls), ("a1", "UNLOAD") in begins and begins["a1", "UNLOAD"] < begins.get(("a2", "LOAD_COMPLETE"), len(lines))


@pytest.fixture(scope="module")
def both(tmp_path_factory):
    repository = tmp_path_factory.mktemp("models")
    sides = []
    try:
        for name in ("nereid", "nereid-in-triton"):
            sides.append(Side(type(SIDES[name])(), tmp_path_factory.mktemp(name), repository))
        yield repository, sides
    finally:
        for side in sides:
            side.starter.stop_all()


CASES = {
    "two": ({}, {}),
    "moved": ({"move": "copy", "write": WRITTEN}, {}),
    "moved twice": ({"move": "copy"}, {"move": "copy"}),
    "moved, with a configuration that cannot be read": ({"move": "copy", "write": "nonsense"}, {}),
    "moved away": ({"move": "missing"}, {}),
    "moved away at the end": ({}, {"move": "missing"}),
    "moved nowhere": ({"move": "empty"}, {}),
    "moved nowhere at the end": ({}, {"move": "empty"}),
    "released too early": ({}, {"move": "released"}),
    "initialize fails": ({}, {"fail": "ModelInitialize"}, {}),
    "load fails": ({}, {"fail": "LOAD"}, {}),
    "complete fails": ({}, {"fail": "LOAD_COMPLETE"}, {}),
    "unload fails": ({}, {"fail": "UNLOAD"}, {}),
    "the end of unload fails": ({}, {"fail": "UNLOAD_COMPLETE"}, {}),
    "finalize fails": ({}, {"fail": "ModelFinalize"}, {}),
}


@pytest.mark.parametrize("case", CASES)
def test_agents_are_told_the_same(both, case):
    repository, sides = both
    loaded, told = collections.defaultdict(list), {}
    for number in (1, 2):
        chain = [trace(f"{label}{number}", **more) for label, more in zip("abc", CASES[case])]
        make_identity(repository, "m", versions=(1, 2), more="version_policy { all {} }" + agents(*chain))
        for side in sides:
            loaded[side].append((side.load(), side.server.ask("/v2/models/m/infer", BODY).status == 200))
    for side in sides:
        assert side.server.ask(UNLOAD, b"").status == 200
        told[side] = side.told()
    ours, tritons = sides
    assert loaded[ours] == loaded[tritons]
    assert told[ours] == told[tritons]
    assert len(told[ours][0]) == 3  # the library, two loads
