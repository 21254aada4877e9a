# SPDX-License-Identifier: Apache-2.0
"""Repository agents: the checksum agent, and the life that an agent sees (tests/fakes/trace_agent.c)."""
import base64
import hashlib
import json
import os
import re

import pytest
from conftest import BUILD, make_identity, wait_for
from python_models import make_python
from test_posture import ask

LOAD, UNLOAD = "/v2/repository/models/m/load", "/v2/repository/models/m/unload"
EXPLICIT = ["--model-control-mode=explicit"]
BODY = b'{"inputs":[{"name":"INPUT0","shape":[1,1],"datatype":"FP32","data":[7]}]}'


def agents(*chain):
    """The part of a configuration that names agents: (name, parameters) each."""
    def one(name, parameters):
        return 'agents { name: "%s" %s }' % (name, " ".join(
            'parameters { key: "%s" value: %s }' % (key, json.dumps(value)) for key, value in parameters.items()))
    return "model_repository_agents { %s }" % " ".join(one(*agent) for agent in chain)


def trace(label, **parameters):
    return "trace", {"label": label, **parameters}


@pytest.fixture
def agent_directory(tmp_path):
    directory = tmp_path / "agents"
    directory.mkdir()
    (directory / "trace").symlink_to(BUILD / "test-agents/trace")
    (directory / "checksum").symlink_to(BUILD / "repoagents/checksum")
    return directory


class Traced:
    """A server whose agents write down what they are told."""

    def __init__(self, start, repository, directory, log, flags=(), variables=()):
        self.file = log
        log.touch()
        self.server = start(repository, flags=[*EXPLICIT, f"--repoagent-directory={directory}", *flags],
                            variables={"TRACE_AGENT_LOG": str(log), **dict(variables)})
        self.ask = self.server.ask

    def told(self):
        """The calls since the last time, "label call"; what was refused too late is left out."""
        text = self.file.read_text()
        self.file.write_text("")
        return [" ".join(line.split()[:2]) for line in text.splitlines() if " refused " not in line]

    def await_told(self, last):
        wait_for(last, lambda: re.search(rf"^{last}\b", self.file.read_text(), re.M))
        return self.told()


@pytest.fixture
def traced(start_server, repository, agent_directory, tmp_path):
    return lambda **more: Traced(start_server, repository, agent_directory, tmp_path / "agents.log", **more)


# ---- checksum ----


def checksum(**keys):
    return agents(("checksum", {key.replace("_", ":", 1): value for key, value in keys.items()}))


def digests(path):
    content = path.read_bytes()
    return hashlib.md5(content).hexdigest(), hashlib.sha256(content).hexdigest()


def test_a_model_loads_while_its_files_have_their_digests(start_server, repository):
    directory = make_identity(repository, "m")
    data = directory / "1/data"
    data.write_bytes(b"x" * 100_000)
    md5, sha256 = digests(data)
    config = (directory / "config.pbtxt").read_text()
    (directory / "config.pbtxt").write_text(config + agents(("checksum", {"md5:1/data": md5, "SHA256:1/data": sha256.upper()})))
    server = start_server(repository, flags=[*EXPLICIT, "--load-model=m"])  # where our own agents are is known
    assert server.ask("/v2/models/m/infer", BODY).status == 200
    assert re.search(r"^\| checksum +\| /", server.log, re.M)
    data.write_bytes(b"y")
    answer = server.ask(LOAD, b"")
    assert answer.status == 500
    assert f"Mismatched MD5 hash for file 1/data, expect: {md5}, got: {digests(data)[0]}" in answer.text
    assert server.ask("/v2/models/m/infer", BODY).status == 200  # what was loaded serves on


@pytest.mark.parametrize("key, value, words", [
    ("MD5:1/absent", "0", "failed to open text file for read 1/absent: No such file or directory"),
    ("MD5:1", "0", "failed to open text file for read 1: expected a regular file"),
    ("MD5:fifo", "0", "failed to open text file for read fifo: expected a regular file"),
    ("MD5", "0", "failed to parse key: MD5"),
    ("crc32:config.pbtxt", "0", "Unsupported checksum algorithm: crc32"),
    ("SHA256:config.pbtxt", "", "Mismatched SHA256 hash for file config.pbtxt, expect: , got: "),
])
def test_what_cannot_be_checked_does_not_load(start_server, repository, key, value, words):
    directory = make_identity(repository, "m", more=agents(("checksum", {key: value})))
    os.mkfifo(directory / "fifo")
    server = start_server(repository, flags=EXPLICIT)
    answer = server.ask(LOAD, b"")
    assert json.loads(answer.body)["error"].startswith(f"failed to load 'm', failed to poll from model repository: {words}")
    assert f"Poll failed for model directory 'm': {words}" in server.log


def test_an_agent_that_is_not_there(start_server, repository, agent_directory):
    make_identity(repository, "m", more=agents(("absent", {})))
    server = start_server(repository, flags=[*EXPLICIT, f"--repoagent-directory={agent_directory}"])
    answer = server.ask(LOAD, b"")
    assert f"unable to find 'libtritonrepoagent_absent.so' for repo agent 'absent', searched: {agent_directory}" in answer.text


# ---- the life that agents see ----

BEGUN = ["a ModelInitialize", "a LOAD", "b ModelInitialize", "b LOAD"]
LOADED = [*BEGUN, "b LOAD_COMPLETE", "a LOAD_COMPLETE"]
ENDED = ["b UNLOAD_COMPLETE", "a UNLOAD_COMPLETE", "a ModelFinalize", "b ModelFinalize"]


def test_a_life(traced, repository):
    directory = make_identity(repository, "m", versions=(1, 2), more="version_policy { all {} }" + agents(trace("a"), trace("b")))
    traced = traced()
    assert traced.ask(LOAD, b"").status == 200
    assert traced.told() == ["- Initialize", *LOADED]
    assert traced.ask(LOAD, b"").status == 200  # nothing has changed
    assert traced.told() == []
    (directory / "1/new").touch()
    assert traced.ask(LOAD, b"").status == 200
    assert traced.await_told("b ModelFinalize")[:6] == [*BEGUN, "a UNLOAD", "b UNLOAD"]
    assert traced.ask(UNLOAD, b"").status == 200
    assert traced.await_told("- Finalize") == ["a UNLOAD", "b UNLOAD", *ENDED, "- Finalize"]


def load(traced, **parameters):
    answer = traced.ask(LOAD, json.dumps({"parameters": parameters}).encode())
    assert answer.status == 200, answer.text


def config(*chain):
    return json.dumps({
        "backend": "identity", "max_batch_size": 4,
        "input": [{"name": "INPUT0", "data_type": "TYPE_FP32", "dims": [-1]}],
        "output": [{"name": "OUTPUT0", "data_type": "TYPE_FP32", "dims": [-1]}],
        "model_repository_agents": {"agents": [{"name": name, "parameters": parameters} for name, parameters in chain]}})


def left(tmp_path):
    return sorted(path.name.rpartition("-")[0] for path in tmp_path.glob("nereid-*"))


def test_a_model_that_agents_moved_is_served_from_there(traced, repository, tmp_path):
    """The second agent checks what the first has left; the directory goes when the last version has gone."""
    directory = make_python(repository, "m", """
        def initialize(self, args):
            self.place = args["model_repository"]
        def execute(self, requests):
            return [answer(np.array([self.place.encode()], dtype=object), "OUTPUT0") for request in requests]
        """, config="""backend: "python"
        input { name: "INPUT0" data_type: TYPE_FP32 dims: [ -1, -1 ] }
        output { name: "OUTPUT0" data_type: TYPE_STRING dims: [ 1 ] }
        """)
    md5, _ = digests(directory / "1/model.py")
    with (directory / "config.pbtxt").open("a") as file:
        file.write(agents(trace("a", move="copy"), ("checksum", {"MD5:1/model.py": md5})))
    traced = traced(variables={"TMPDIR": str(tmp_path)})
    assert traced.ask(LOAD, b"").status == 200
    place = json.loads(traced.ask("/v2/models/m/infer", BODY).body)["outputs"][0]["data"][0]
    assert re.fullmatch(rf"{tmp_path}/nereid-agent-\w+", place) and os.stat(place).st_mode & 0o777 == 0o700
    assert traced.ask(UNLOAD, b"").status == 200
    traced.await_told("- Finalize")
    assert "nereid-agent" not in left(tmp_path)


def test_a_request_may_bring_its_own_agents(traced, repository, tmp_path):
    """From this machine it may; the next plain load is the directory's."""
    make_identity(repository, "m")
    traced = traced(variables={"TMPDIR": str(tmp_path)})
    load(traced, config=config(trace("a"), trace("b")))
    assert traced.told() == ["- Initialize", *LOADED]
    content = base64.b64encode(b"content").decode()
    digest = hashlib.sha256(b"content").hexdigest()
    load(traced, **{"config": config(trace("a", move="copy"), ("checksum", {"sha256:1/x": digest}), trace("b")), "file:1/x": content})
    assert traced.await_told("b ModelFinalize") == [*BEGUN, "a UNLOAD", "b UNLOAD", "b LOAD_COMPLETE", "a LOAD_COMPLETE", *ENDED]
    assert left(tmp_path) == ["nereid-agent", "nereid-upload"]
    load(traced)
    assert traced.await_told("- Finalize") == ["a UNLOAD", "b UNLOAD", *ENDED, "- Finalize"]
    assert traced.ask("/v2/models/m/infer", BODY).status == 200
    wait_for("the directories to go", lambda: left(tmp_path) == [])


def test_agents_that_leave_the_configuration_are_done(traced, repository):
    make_identity(repository, "m", more=agents(trace("a"), trace("b")))
    traced = traced()
    load(traced)
    assert traced.told() == ["- Initialize", *LOADED]
    make_identity(repository, "m", more=agents(trace("a")))
    load(traced)
    assert traced.await_told("b ModelFinalize") == [*BEGUN[:2], "a UNLOAD", "b UNLOAD", "a LOAD_COMPLETE", *ENDED]
    make_identity(repository, "m")
    load(traced)
    assert traced.await_told("- Finalize") == ["a UNLOAD", "a UNLOAD_COMPLETE", "a ModelFinalize", "- Finalize"]


def test_the_servers_end_is_the_agents_end(traced, repository, tmp_path):
    make_identity(repository, "m", more=agents(trace("a", move="copy"), trace("b")))
    traced = traced(flags=["--load-model=m"], variables={"TMPDIR": str(tmp_path)})
    assert re.search(r"^\| trace +\| /", traced.server.log, re.M)
    traced.server.stop()
    assert traced.told() == ["- Initialize", *LOADED, "a UNLOAD", "b UNLOAD", *ENDED, "- Finalize"]
    assert left(tmp_path) == []


def test_a_model_that_fails_is_told_to_its_agents(traced, repository):
    """What served goes on, with its own agents."""
    make_identity(repository, "m", more=agents(trace("a"), trace("b")))
    traced = traced()
    load(traced)
    traced.told()
    good = (repository / "m/config.pbtxt").read_text()
    for bad in ('backend: "absent" ' + agents(trace("a"), trace("b")), good.replace("FP32", "NONE"), good.replace('"identity"', '"identity" name: "x"')):
        (repository / "m/config.pbtxt").write_text(bad)
        assert traced.ask(LOAD, b"").status != 200
        told = traced.await_told("b ModelFinalize") if "NONE" not in bad else []
        assert sorted(told) == sorted(told and [*BEGUN, "b LOAD_FAIL", "a LOAD_FAIL", *ENDED[2:]])
        assert traced.ask("/v2/models/m/infer", BODY).status == 200
    traced.ask(UNLOAD, b"")
    assert traced.await_told("- Finalize") == ["a UNLOAD", "b UNLOAD", *ENDED, "- Finalize"]


@pytest.mark.parametrize("how, words", [
    ("null", "location of a model must not be NULL"),
    ("missing", "'/nowhere/at/all': failed to open directory"),
    ("remote", "'s3://bucket/model': failed to open directory"),
    ("empty", "Model repository location is not set"),
    ("released", "No such file or directory"),
])
def test_what_an_agent_leaves_must_be_there(traced, repository, tmp_path, how, words):
    make_identity(repository, "m", more=agents(trace("a", move=how)))
    traced = traced(variables={"TMPDIR": str(tmp_path)})
    answer = traced.ask(LOAD, b"")
    assert answer.status in (400, 500) and "failed to load 'm', failed to poll from model repository: " in answer.text and words in answer.text
    assert traced.await_told("- Finalize") == ["- Initialize", "a ModelInitialize", "a LOAD", "a LOAD_FAIL", "a ModelFinalize", "- Finalize"]
    assert left(tmp_path) == []


def test_an_agent_that_does_not_start_is_tried_again(traced, repository):
    """A library that refuses to start is closed; nothing of it is kept."""
    make_identity(repository, "m", more=agents(trace("a")))
    traced = traced(variables={"TRACE_AGENT_FAIL": "Initialize"})
    for _ in range(2):
        assert "told to fail at Initialize" in traced.ask(LOAD, b"").text
        assert traced.told() == ["- Initialize", "- Finalize"]


def test_what_is_no_agent(traced, repository, agent_directory):
    (agent_directory / "cut").mkdir()
    library = (agent_directory / "trace/libtritonrepoagent_trace.so").read_bytes()
    (agent_directory / "cut/libtritonrepoagent_cut.so").write_bytes(library[:4096])
    (agent_directory / "backend").mkdir()
    (agent_directory / "backend/libtritonrepoagent_backend.so").symlink_to(BUILD / "backends/identity/libtriton_identity.so")
    traced = traced()
    for name, words in {
        "cut": "unable to load shared library",
        "backend": "unable to find required entrypoint 'TRITONREPOAGENT_ModelAction' in shared library",
        "../agents/trace": "invalid repo agent name '../agents/trace'",
        "": "invalid repo agent name ''",
    }.items():
        make_identity(repository, "m", more=agents((name, {})))
        assert words in json.loads(traced.ask(LOAD, b"").body)["error"], name
    make_identity(repository, "m", more="model_repository_agents { }")
    load(traced)
    assert traced.told() == []


def test_many_loads_at_a_time(traced, repository):
    """One library, opened once; each model's calls are whole."""
    names = [f"m{i}" for i in range(12)]
    for name in names:
        make_identity(repository, name, more=agents(trace(f"{name}a"), trace(f"{name}b")))
    traced = traced(flags=["--load-model=*"])
    told = traced.told()
    assert told.count("- Initialize") == 1
    for name in names:
        mine = [line[len(name):] for line in told if line.startswith((name + "a", name + "b"))]
        assert mine == LOADED


def test_strangers_do_not_choose_agents(start_server, repository, machine_address):
    """They may send another configuration, with the agents that the model has: neither others nor none."""
    directory = make_identity(repository, "m")
    (directory / "1/data").write_bytes(b"data")
    mine = ("checksum", {"MD5:1/data": digests(directory / "1/data")[0]})
    with (directory / "config.pbtxt").open("a") as file:
        file.write(agents(mine))
    server = start_server(repository, flags=[*EXPLICIT, "--http-address=0.0.0.0", "--load-model=m"])

    def loads(text):
        body = json.dumps({"parameters": {"config": text}}).encode()
        status, answer = ask(machine_address, server.http_port, "POST", LOAD, body)
        assert status == 200 or "'model_repository_agents'" in answer, answer
        return status

    without = json.loads(config())
    del without["model_repository_agents"]
    refused = [config(), json.dumps(without), json.dumps(without | {"modelRepositoryAgents": {}}), config(mine, mine), config(("checksum", {}))]
    assert [loads(text) for text in refused] == [403] * len(refused)
    assert loads(config(mine)) == 200
    assert json.loads(server.ask("/v2/models/m/config").body)["max_batch_size"] == 4
