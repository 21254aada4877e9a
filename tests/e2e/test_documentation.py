"""The examples that users read first do what they say: each command and program of the README and of docs/grpc.md, as it stands there."""
import re
import subprocess
import sys

import pytest
from conftest import DEADLINE, ROOT

README, GRPC = ROOT / "README.md", ROOT / "docs/grpc.md"
COMMANDS = re.findall(r"```console\n\$ (.*?)\n(\{[^\n]*)\n```", README.read_text(), re.S)
PROGRAMS = {f"{file.stem}{i}": (text, said) for file in (README, GRPC) for i, (said, text) in
            enumerate(re.findall(r"((?:[^\n]+\n)+)\n```python\n(.*?)```", file.read_text(), re.S))}


def at(server, text):
    """On the ports that this server has."""
    text = text.replace("localhost:8000", server.url)
    return text.replace("localhost:8001", f"127.0.0.1:{server.grpc_port}") if "localhost:8001" in text else text


def test_there_are_examples():
    assert len(COMMANDS) == 4 and set(PROGRAMS) == {"README0", "README1", "grpc0"}


@pytest.mark.parametrize("command, printed", COMMANDS, ids=[re.search(r"models/(\w+)", command)[1] for command, _ in COMMANDS])
def test_commands_print_what_is_written_below_them(server, command, printed):
    run = subprocess.run(["bash", "-c", at(server, command)], stdout=subprocess.PIPE, text=True, timeout=DEADLINE)
    assert (run.returncode, run.stdout) == (0, printed)


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs_print_what_is_said_before_them(server, name):
    """What they print stands there in backquotes and brackets."""
    program, said = PROGRAMS[name]
    run = subprocess.run([sys.executable, "-c", at(server, program)], stdout=subprocess.PIPE, text=True, timeout=DEADLINE)
    assert run.returncode == 0
    assert run.stdout.splitlines() == re.findall(r"`(\[.*?\])`", said, re.S) != []
