# SPDX-License-Identifier: Apache-2.0
"""The man pages and the completion of bash: both follow --help, so they have each command and each flag."""
import os
import re
import subprocess
import sys

import pytest
from conftest import ROOT

pytestmark = pytest.mark.once

COMPLETE = """
source "$1"
COMP_WORDS=("${@:2}") COMP_CWORD=$(($# - 2))
_nereid "$2"
printf '%s\\n' "${COMPREPLY[@]}"
"""


def help_of(nereid, *command):
    return subprocess.run([nereid, *command, "--help"], check=True, stdout=subprocess.PIPE, text=True).stdout


def flags_in(text):
    """The flags that --help lists, each with the name of its value."""
    return dict(re.findall(r"^  --([a-z0-9-]+) ?(.*)", text, re.M))


def commands_in(text):
    return re.findall(r"^  nereid ([a-z]+)", text, re.M)


@pytest.fixture(scope="module")
def pages(nereid, tmp_path_factory):
    directory = tmp_path_factory.mktemp("man")
    subprocess.run([sys.executable, ROOT / "scripts/man_pages.py", directory, nereid], check=True)
    return directory


def listed_in(page):
    return dict(re.findall(r"^\\fB--([a-z0-9-]+)\\fR ?(.*)", page.read_text().replace("\\-", "-"), re.M))


def test_the_page_of_nereid_has_each_command_and_each_flag(nereid, pages):
    text = help_of(nereid)
    assert len(flags_in(text)) > 100 and listed_in(pages / "nereid.1") == flags_in(text)
    assert {page.name for page in pages.iterdir()} == {"nereid.1", *(f"nereid-{command}.1" for command in commands_in(text))}
    for command in commands_in(text):
        assert f"nereid\\-{command}(1) says more" in (pages / "nereid.1").read_text()


def test_the_page_of_a_command_has_its_flags_and_its_words(nereid, pages):
    for command in commands_in(help_of(nereid)):
        text = help_of(nereid, command)
        page = pages / f"nereid-{command}.1"
        assert listed_in(page) == flags_in(text)
        usage, described = text.splitlines()[:2]
        plain = page.read_text().replace("\\-", "-")
        assert usage.removeprefix(f"Usage: nereid {command} ").strip() in plain and described in plain


def test_pages_are_read_without_a_warning(pages):
    for page in pages.iterdir():
        done = subprocess.run(["groff", "-man", "-Tutf8", "-ww", "-Z", page], capture_output=True, text=True)
        assert done.returncode == 0 and done.stderr == "", page.name


@pytest.fixture
def complete(nereid):
    """What bash offers for the last of the words."""
    def ask(*words):
        command = ["bash", "--norc", "-c", COMPLETE, "bash", ROOT / "deploy/completion/nereid", nereid, *words]
        done = subprocess.run(command, check=True, capture_output=True, text=True, env=os.environ | {"LC_ALL": "C"})
        assert done.stderr == ""
        return done.stdout.split()

    return ask


def as_offered(flags):
    """A flag that takes a value ends with =, so that the value can follow."""
    return {f"--{name}=" if value else f"--{name}" for name, value in flags.items()}


def test_each_command_and_each_flag_completes(nereid, complete):
    flags = flags_in(help_of(nereid))
    assert complete("") == commands_in(help_of(nereid))
    assert set(complete("--")) == as_offered(flags)
    assert complete("--model-control") == ["--model-control-mode="]
    for command in commands_in(help_of(nereid)):
        own = flags_in(help_of(nereid, command))
        daemon = {} if command == "migrate" else flags
        assert set(complete(command, "--")) == as_offered(daemon | own)
    assert set(complete("--id", "mine", "migrate", "--json", "--", "tritonserver", "--")) == as_offered(flags)


def test_values_complete_where_help_lists_them(nereid, complete):
    for name, value in flags_in(help_of(nereid)).items():
        if re.fullmatch(r"[\w-]+(\|[\w-]+)+", value) and value != "true|false":
            assert complete(f"--{name}", "=") == complete(f"--{name}", "") == value.split("|")
    assert complete("--exit-on-error", "=", "f") == ["false"]


@pytest.mark.parametrize("words", [("--model-repository", "=", "/t"), ("--config", "/t"), ("check", "/t"), ("serve", "--", "--"), ("--a/b[", "=", "x"), ("--a[", "x")])
def test_for_all_else_the_shell_offers_files(complete, words):
    assert complete(*words) == []
