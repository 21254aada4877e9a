# SPDX-License-Identifier: Apache-2.0
"""Packages that are made in a root of Debian, of what is committed here."""
import os
import pathlib
import shutil
import subprocess
import sys

import pytest
from roots import KEPT, RELEASE, SCRIPT, Root, made_in, make_bare, packages_of


def root_with_source(name):
    """A root to build in. It is kept, as the bare one is, with all that building needs."""
    if os.geteuid() != 0:
        pytest.skip("only root can make a root of Debian and install packages in it")
    make_bare()
    changes = KEPT / f"{RELEASE}.{name}"
    subprocess.run([SCRIPT, "source", changes / "changes"], check=True)
    shutil.rmtree(changes / "changes/nereid/build", ignore_errors=True)
    return Root(changes)

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "e2e/lib"))  # ports.py


@pytest.fixture(scope="session")
def builder():
    root = root_with_source("build")
    missing = [tool for tool in ("git", "lintian", "autopkgtest") if not root.shell(f"command -v {tool} || true")]
    if missing:
        root.run("apt-get", "update", "-q")
        root.install(*missing)
    yield root
    root.close()


@pytest.fixture(scope="session")
def made(builder):
    return made_in(builder, "build/package")


@pytest.fixture(scope="session")
def packages(made):
    return packages_of(made)
