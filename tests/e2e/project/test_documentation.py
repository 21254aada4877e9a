# SPDX-License-Identifier: Apache-2.0
"""The examples that users read first do what they say: each command and program of the README and of docs/grpc.md, as it stands there;
what docs/check.md shows, and the requests of docs/versions.md."""
import json
import re
import signal
import subprocess
import sys

import frameworks
import pytest
from conftest import DEADLINE, PATIENCE, ROOT, Starter, make_identity

README, GRPC = ROOT / "README.md", ROOT / "docs/grpc.md"
COMMANDS = re.findall(r"```console\n\$ ((?:[^`\n]*\n)+)([^`\n]+)\n```", README.read_text())
PROGRAMS = {f"{file.stem}{i}": (text, said) for file in (README, GRPC) for i, (said, text) in
            enumerate(re.findall(r"((?:[^\n]+\n)+)\n```python\n(.*?)```", file.read_text(), re.S))}


def at(server, text):
    """On the ports that this server has."""
    text = text.replace("localhost:8000", server.url)
    return text.replace("localhost:8001", f"127.0.0.1:{server.grpc_port}") if "localhost:8001" in text else text


def test_there_are_examples():
    assert len(COMMANDS) == 5 and set(PROGRAMS) == {"README0", "README1", "README2", "grpc0"}


@pytest.mark.parametrize("command, printed", COMMANDS, ids=[re.search(r"models/(\w+)", command)[1] for command, _ in COMMANDS])
def test_commands_print_what_is_written_below_them(server, command, printed):
    run = subprocess.run(["bash", "-c", at(server, command)], stdout=subprocess.PIPE, text=True, timeout=DEADLINE, cwd=ROOT)
    assert (run.returncode, run.stdout.removesuffix("\n")) == (0, printed)


@pytest.fixture(scope="module")
def server_of_pitch(nereid, backends, tmp_path_factory):
    """With the model that scripts/add_pitch adds."""
    repository = tmp_path_factory.mktemp("models")
    subprocess.run([ROOT / "scripts/add_pitch", repository], check=True, timeout=PATIENCE)
    starter = Starter(nereid, backends, tmp_path_factory.mktemp("server"))
    yield starter(repository)
    starter.stop_all()


def run_program(text):
    """What it prints. One that does not end shows where its threads are."""
    run = subprocess.Popen([sys.executable, "-u", "-X", "faulthandler", "-c", text], stdout=subprocess.PIPE, text=True)
    try:
        printed, _ = run.communicate(timeout=DEADLINE)
    except subprocess.TimeoutExpired:
        run.send_signal(signal.SIGABRT)
        pytest.fail(f"the program did not end, and has printed {run.communicate()[0]!r}")
    assert run.returncode == 0
    return printed


@pytest.mark.parametrize("name", [pytest.param(name, marks=frameworks.needs("basic-pitch")) if "pitch" in PROGRAMS[name][0] else name for name in PROGRAMS])
def test_programs_print_what_is_said_before_them(request, name):
    """What they print stands there in backquotes and brackets."""
    program, said = PROGRAMS[name]
    server = request.getfixturevalue("server_of_pitch" if "pitch" in program else "server")
    assert run_program(at(server, program)).splitlines() == re.findall(r"`(\[.*?\])`", said, re.S) != []


def test_check_prints_what_its_page_shows(nereid, backends, tmp_path):
    command, shown = re.search(r"^    nereid (check models/)\n.*?\n\n((?:    [^\n]*\n)+)", (ROOT / "docs/check.md").read_text(), re.M | re.S).groups()
    model = tmp_path / "models/net"
    (model / "1").mkdir(parents=True)
    (model / "1/Model.onnx").write_text("")
    (model / "config.pbtxt").write_text('backend: "onnxruntime"\nmax_bach_size: 8\n')
    done = subprocess.run([nereid, *command.split(), f"--backend-directory={backends}"], capture_output=True, text=True, timeout=PATIENCE, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (1, re.sub(r"^    ", "", shown, flags=re.M))


def test_versions_are_routed_as_their_page_says(start_server, repository):
    page = (ROOT / "docs/versions.md").read_text()
    make_identity(repository, "m", versions=(3, 4), more=re.search(r"(?:^    (?:parameters|version_policy) .*\n)+", page, re.M)[0])
    server = start_server(repository)
    requests = re.findall(r"^    curl \S+/routing -d '(.*?)'", page, re.M)
    assert len(requests) == 7
    answers = [server.ask("/v2/models/m/routing", request.encode()) for request in requests]
    assert [answer.status for answer in answers] == [200] * 7, [answer.text for answer in answers]
    assert json.loads(answers[1].text) == json.loads(re.search(r'^    (\{"labels".*)$', page, re.M)[1])
