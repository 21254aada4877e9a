# SPDX-License-Identifier: Apache-2.0
"""Packages that are made in a root of Debian, of what is committed here."""
import concurrent.futures
import os
import pathlib
import shutil
import subprocess
import sys

import pytest
from roots import KEPT, RELEASE, SCRIPT, SOURCE, Root, made_in, make_bare, packages_of


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


def pytest_collection_modifyitems(items):
    """What mostly waits comes first, beside the fixtures of BESIDE."""
    items.sort(key=lambda item: item.path.name == "test_packages.py")


BESIDE = ("made_again", "lintian")  # futures, since other tests need not wait for them


@pytest.fixture(scope="session")
def made(builder, request):
    """The files of the first build. What a later test wants of BESIDE begins behind it."""
    files = made_in(builder, "build/package")
    for name in BESIDE:
        if any(name in item.fixturenames for item in request.session.items):
            request.getfixturevalue(name)
    return files


@pytest.fixture(scope="session")
def pool(builder):
    with concurrent.futures.ThreadPoolExecutor(len(BESIDE)) as pool:
        yield pool


@pytest.fixture(scope="session")
def made_again(builder, pool):
    """The files, made in another directory and elsewhere in the world."""
    elsewhere = builder.shell("mktemp -d /var/tmp/another-directory.XXXXXX").strip()
    return pool.submit(made_in, builder, "build/again", TMPDIR=elsewhere, TZ="Asia/Kolkata", LC_ALL="C", DEB_BUILD_OPTIONS="terse")


@pytest.fixture(scope="session")
def lintian(builder, pool):
    """What it says of the packages that `made` has made."""
    return pool.submit(builder.shell, f"lintian --allow-root --fail-on error,warning {SOURCE}/build/package/*.changes")


@pytest.fixture(scope="session")
def packages(made):
    return packages_of(made)
