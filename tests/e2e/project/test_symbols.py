# SPDX-License-Identifier: Apache-2.0
"""Names of functions. What is linked from archives and what comes from libraries must not meet: a linker takes the first, and says nothing."""
import pathlib
import re
import subprocess

import pytest
from conftest import BUILD

pytestmark = pytest.mark.once

REPLACED = {"gnutls_record_send", "gnutls_record_recv"}  # on purpose: src/frontend/http/transport/library_calls.c


def names(file, *flags):
    lines = subprocess.run(["nm", *flags, file], capture_output=True, text=True, check=True).stdout.splitlines()
    return [line.split()[-1].split("@")[0] for line in lines if re.match(r"[0-9a-f]+ [TDBR] ", line)]


@pytest.mark.parametrize("program", ["bin/nereid", "lib/libtritonserver.so"])
def test_no_name_is_there_twice(program):
    rule = next(line for line in (BUILD / "build.ninja").read_text().splitlines() if line.startswith(f"build {program}: "))
    parts = [part for part in rule.split(" || ")[0].split() if part.endswith((".a", ".o"))]
    libraries = re.findall(r"=> (/\S+)", subprocess.run(["ldd", BUILD / program], capture_output=True, text=True).stdout)
    owner = {}
    for library in libraries:
        if not re.search(r"lib(asan|tsan|ubsan)\.so", library):  # they replace functions on purpose
            owner |= dict.fromkeys(set(names(library, "-D", "--defined-only")) - REPLACED, pathlib.Path(library).name)
    assert "json_string" in owner, libraries
    for part in dict.fromkeys(parts):  # an archive may stand there for several others
        for name in names(BUILD / part, "--defined-only"):
            assert name not in owner, f"{name} is in {part} and {owner[name]}"
            owner[name] = part
