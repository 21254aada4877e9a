# SPDX-License-Identifier: Apache-2.0
"""Packages that are made in a root of Debian, of what is committed here."""
import os
import pathlib
import shutil
import subprocess
import sys

import pytest
from roots import KEPT, RELEASE, SCRIPT, Root, made_in, make_bare

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "e2e/lib"))  # ports.py


@pytest.fixture(scope="session")
def builder():
    """A root to build in, with all that building needs. It is kept, as the bare one is."""
    if os.geteuid() != 0:
        pytest.skip("only root can make a root of Debian and install packages in it")
    make_bare()
    changes = KEPT / f"{RELEASE}.build"
    subprocess.run([SCRIPT, "source", changes / "changes"], check=True)
    shutil.rmtree(changes / "changes/nereid/build", ignore_errors=True)
    root = Root(changes)
    root.shell("command -v git lintian >/dev/null || { apt-get update -q; apt-get install -y -q --no-install-recommends git lintian; }")
    yield root
    root.close()


@pytest.fixture(scope="session")
def made(builder):
    return made_in(builder, "build/package")


@pytest.fixture(scope="session")
def packages(made):
    """The packages by their names."""
    return {name.partition("_")[0]: path for name, path in made.items() if name.endswith(".deb") and "-dbgsym_" not in name}
