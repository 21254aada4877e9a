# SPDX-License-Identifier: Apache-2.0
"""Packages for arm64 that are made on another machine, in a root of their own: the libraries for both kinds of machines do not all fit into one. Its emulator
runs the installed server."""
import json
import os
import re
import subprocess

import pytest
from conftest import root_with_source
from elf import MACHINES, machine_of
from installing import IDENTITY, infer
from roots import BUILD_SECONDS, SOURCE, made_in, packages_of
from test_packages import field

pytestmark = [
    pytest.mark.timeout(BUILD_SECONDS),
    pytest.mark.skipif(not os.environ.get("NEREID_ARM64"), reason="packages for arm64 take minutes to make: NEREID_ARM64=1 asks for them"),
]
FLAGS = "--http-port=0 --grpc-port=0 --metrics-port=0 --model-repository=/srv/models"


@pytest.fixture(scope="module")
def root():
    root = root_with_source("arm64")
    yield root
    root.close()


@pytest.fixture(scope="module")
def packages(root):
    return packages_of(made_in(root, "build/package", "arm64"))


def machines(directory):
    """Of the programs and libraries below it."""
    files = [path for path in directory.rglob("*") if path.is_file() and not path.is_symlink()]
    found = {path.name: machine_of(path.read_bytes()) for path in files}
    return {name: machine for name, machine in found.items() if machine is not None}


def test_they_are_for_arm64_and_depend_on_its_libraries(root, packages, tmp_path):
    assert packages.keys() == {"nereid", "nereid-backend-python", "nereid-dev"}
    assert {field(package, "Architecture") for package in packages.values()} == {"arm64"}
    for package in packages.values():
        subprocess.run(["dpkg-deb", "-x", package, tmp_path], check=True)
    found = machines(tmp_path)
    assert {"nereid", "libtritonserver.so", "libtriton_python.so", "nereid-worker-launcher", "_nereid.abi3.so"} <= found.keys()
    assert set(found.values()) == {MACHINES["aarch64"]}, found
    for name in ("nereid", "nereid-backend-python"):
        linked = {word.split()[0] for word in field(packages[name], "Depends").split(", ")} - {"nereid", "python3", "python3-numpy"}
        components = {component["name"]: component for component in json.loads(packages[name].with_suffix(".cdx.json").read_text())["components"]}
        installed = root.run("dpkg-query", "-W", "-f", "${Package} ${Version}\n", *(f"{package}:arm64" for package in linked))
        assert dict(line.split() for line in installed.splitlines()) == {package: component["version"] for package, component in components.items()}
        assert all("arch=arm64" in component["purl"] for component in components.values())


def serve(root):
    """The installed server, by the emulator, and what it has said so far."""
    (root.written / "srv/models/identity/1").mkdir(parents=True, exist_ok=True)
    (root.written / "srv/models/identity/config.pbtxt").write_text(IDENTITY)
    command = f"echo $$ >/run/service.pid; exec qemu-aarch64 /usr/bin/nereid {FLAGS}"
    process = subprocess.Popen(root.words("sh", "-c", command), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    log = ""
    for line in process.stdout:  # one that ends at once ends the log, too
        log += line
        if "Serving " in line:
            break
    return process, log


def test_the_installed_server_serves_under_an_emulator(root, packages):
    root.install(f"{SOURCE}/build/package/{packages['nereid'].name}")
    try:
        assert re.fullmatch(r"nereid [\d.]+\n", root.run("qemu-aarch64", "/usr/bin/nereid", "--version"))
        process, log = serve(root)
        port = re.search(r"Started HTTPService at \S+:(\d+)", log)
        assert port, log
        assert infer(int(port[1]), "identity") == [1, 2, 0.5]
        root.shell("kill -TERM $(cat /run/service.pid)")
        log += process.stdout.read()
        assert process.wait() == 0, log
    finally:
        root.run("dpkg", "--purge", "nereid")
