# SPDX-License-Identifier: Apache-2.0
"""The wheel of build/release: what it carries, and that a virtual environment with it and ONNX Runtime serves models. Nothing comes from the network: the
environment has links to the packages of the tests' own environment. The wheel of build/aarch64-release, which `scripts/package build/package arm64` makes, is asked
the same of what it carries, and serves under an emulator."""
import email
import functools
import hashlib
import json
import os
import pathlib
import re
import subprocess
import sys
import zipfile

import numpy as np
import proc
import pytest
import tritonclient.grpc as grpcclient
from conftest import ROOT, Starter, make_identity
from elf import MACHINES, machine_of
from python_models import infer, make_python

MOST_BYTES = 8_000_000
SYSROOT = ROOT / ".deps/aarch64"  # scripts/cross_build
EMULATED = ["qemu-aarch64", "-L", SYSROOT]
ADMIN = {"release": "/var/lib/dpkg", "aarch64-release": SYSROOT / "var/lib/dpkg"}
TELL = """
def execute(self, requests):
    return [answer(np.array([sys.prefix.encode()], dtype=np.object_)) for request in requests]
"""


def make(build, directory):
    if build != "release" and not (ROOT / f"build/{build}/bin/nereid").exists():
        pytest.skip(f"build/{build} is missing, `scripts/package build/package arm64` makes it: it wants Debian's cross compiler and qemu-user")
    environment = {name: value for name, value in os.environ.items() if name != "SOURCE_DATE_EPOCH"}
    told = subprocess.run([sys.executable, ROOT / "scripts/make_wheel.py", ROOT / "build" / build, directory], env=environment, check=True, stdout=subprocess.PIPE, text=True)
    return pathlib.Path(told.stdout.strip())


def bill_of(wheel):
    return wheel.with_suffix(".cdx.json")


def carried_by(file):
    """The libraries that the wheel carries, by the names of their files."""
    return {name.rpartition("/")[2]: file.read(name) for name in file.namelist() if re.match(r"nereid\.libs/.", name)}


@pytest.fixture(scope="module")
def wheels(tmp_path_factory):
    """Makes the wheel of a build, once."""
    return functools.cache(lambda build: make(build, tmp_path_factory.mktemp("wheel")))


@pytest.fixture(params=["release", pytest.param("aarch64-release", marks=pytest.mark.slow)])
def build(request):
    return request.param


@pytest.fixture
def wheel(wheels, build):
    return wheels(build)


@pytest.fixture(scope="module")
def environment(wheels, tmp_path_factory):
    """A virtual environment in which `pip install nereid-*.whl[onnx]` was run."""
    directory = tmp_path_factory.mktemp("installed") / "env"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", directory], check=True)
    packages, = directory.glob("lib/python*/site-packages")
    for path in pathlib.Path(np.__path__[0]).parent.iterdir():
        if not path.name.startswith(("pip", "nereid", "__pycache__")):
            (packages / path.name).symlink_to(path)
    subprocess.run([sys.executable, "-m", "pip", "--python", directory / "bin/python", "install", "-q", "--no-index", "--no-compile",
                    "--disable-pip-version-check", f"{wheels('release')}[onnx]"], check=True)
    return directory


class Installed(Starter):
    """Starts the installed command with no flags but ports, from a shell that does not know the environment."""

    def command(self, *words, flags=()):
        return [str(self.nereid), *map(str, words), "--http-port=0", "--metrics-port=0", "--grpc-port=0", "--http-address=127.0.0.1", "--grpc-address=127.0.0.1", *flags]


@pytest.fixture
def start(environment, tmp_path):
    starter = Installed(environment / "bin/nereid", None, tmp_path)
    yield lambda *words: starter(*words, variables={"PATH": "/usr/bin:/bin", "VIRTUAL_ENV": ""})
    starter.stop_all()


def test_it_is_small_and_runs_where_glibc_is_2_34(wheel):
    tag = re.fullmatch(r"nereid-[\d.]+-py3-none-manylinux_2_(\d+)_\w+\.whl", wheel.name)
    assert tag, wheel.name
    assert wheel.stat().st_size <= MOST_BYTES
    if "bookworm" in pathlib.Path("/etc/os-release").read_text():  # a newer one may link what an older has not
        assert int(tag[1]) <= 34
        assert f"build/package/{wheel.name}" in (ROOT / "docs/pip.md").read_text()


def test_each_program_and_library_in_it_is_for_the_machine_in_its_name(wheel):
    with zipfile.ZipFile(wheel) as file:
        found = {name: machine_of(file.read(name)) for name in file.namelist()}
    machines = {name: machine for name, machine in found.items() if machine is not None}
    assert {"nereid/bin/nereid", "nereid/lib/nereid/backends/python/worker/_nereid.abi3.so"} < machines.keys()
    wanted, = (number for name, number in MACHINES.items() if wheel.stem.endswith(name))
    assert set(machines.values()) == {wanted}, machines


def test_the_licences_of_all_that_it_carries_are_inside(wheel):
    with zipfile.ZipFile(wheel) as file:
        names = file.namelist()
        metadata = email.message_from_bytes(file.read(next(name for name in names if name.endswith("/METADATA"))))
        listed = file.read(next(name for name in names if name.endswith("/carried/libraries.txt"))).decode()
        carried = {re.sub(r"(-[0-9a-f]{8})?\.so.*", "", name) for name in carried_by(file)}
    assert {"libgnutls", "libnettle", "libnghttp2", "libseccomp"} <= carried and not carried & {"libarchive", "libxml2", "libicudata"}
    packages = dict(re.findall(r"^(lib[\w+-]+)\.so\S*: (\S+) ", listed, re.M))
    assert packages.keys() == carried
    licences = {name.rpartition("/")[2] for name in metadata.get_all("License-File")}
    assert {"LICENSE", "LGPL-2.1.txt", "LGPL-3.txt", "GPL-3.txt", *(f"{package}.txt" for package in packages.values())} <= licences


def test_the_bill_of_materials_names_each_library_its_package_and_its_licence(wheel, build):
    bill = json.loads(bill_of(wheel).read_text())
    with zipfile.ZipFile(wheel) as file:
        carried = carried_by(file)
    assert (bill["bomFormat"], bill["specVersion"]) == ("CycloneDX", "1.6")
    own = bill["metadata"]["component"]
    assert own["hashes"] == [{"alg": "SHA-256", "content": hashlib.sha256(wheel.read_bytes()).hexdigest()}]
    components = {component["bom-ref"]: component for component in bill["components"]}
    assert {name: component["hashes"][0]["content"] for name, component in components.items()} == {name: hashlib.sha256(data).hexdigest() for name, data in carried.items()}
    for component in components.values():
        assert re.fullmatch(rf"pkg:deb/\w+/{re.escape(component['name'])}@[\w.~%+-]+\?arch=\w+&distro=[\w.-]+", component["purl"]), component
        assert re.fullmatch(r"[A-Z]\w+(-[\w.]+)*( (OR|WITH) [A-Z]\w+(-[\w.]+)*)*", component["licenses"][0]["expression"]), component
    installed = subprocess.run(["dpkg-query", f"--admindir={ADMIN[build]}", "-W", "-f", "${Package} ${Version} ${Architecture}\n", *(component["name"] for component in components.values())],
                               check=True, stdout=subprocess.PIPE, text=True)
    listed = {(component["name"], component["version"], re.search(r"arch=(\w+)", component["purl"])[1]) for component in components.values()}
    assert {tuple(line.split()) for line in installed.stdout.splitlines()} == listed
    needs = {entry["ref"]: set(entry["dependsOn"]) for entry in bill["dependencies"]}
    gnutls, hogweed = (next(name for name in components if name.startswith(start)) for start in ("libgnutls-", "libhogweed-"))
    assert needs.keys() == {own["bom-ref"], *components} and set().union(*needs.values()) == components.keys()
    assert gnutls in needs[own["bom-ref"]] and hogweed in needs[gnutls] - needs[own["bom-ref"]]


@pytest.mark.slow
def test_two_builds_are_equal(wheel, build, tmp_path):
    again = make(build, tmp_path)
    assert again.read_bytes() == wheel.read_bytes()
    assert bill_of(again).read_bytes() == bill_of(wheel).read_bytes()


def test_an_onnx_file_is_served_by_the_onnxruntime_beside_it(start, environment):
    server = start("serve", ROOT / "model_repository/add_sub/1/model.onnx")
    inputs = [{"name": name, "datatype": "FP32", "shape": [1, 16], "data": [value] * 16} for name, value in (("INPUT0", 3), ("INPUT1", 2))]
    index = json.loads(server.ask("/v2/repository/index", b"{}").body)
    answer = server.ask(f"/v2/models/{index[0]['name']}/infer", json.dumps({"inputs": inputs}).encode())
    assert [output["data"] for output in json.loads(answer.body)["outputs"]] == [[5.0] * 16, [1.0] * 16]
    maps = proc.read(server.process.pid, "maps")
    packages, = environment.glob("lib/python*/site-packages")
    assert f"from {packages}/onnxruntime/capi/" in server.log
    libraries = set(re.findall(r" (/\S+/lib(?:gnutls|jansson|nghttp2)\S*)", maps))
    assert len(libraries) == 3 and all(path.startswith(f"{packages}/nereid.libs/") for path in libraries), libraries
    assert not re.search(r"/lib(archive|xml2|icudata|curl)[.\d]*\.so", maps)


def test_a_python_model_runs_on_the_python_of_the_environment(start, environment, tmp_path):
    make_python(tmp_path / "models", "prefix", TELL, kind="TYPE_STRING")
    server = start("serve", tmp_path / "models")
    assert infer(server, "prefix", np.array([b"x"], dtype=np.object_), "BYTES")[0].decode() == str(environment)


@pytest.mark.slow
def test_that_for_arm64_serves_under_an_emulator(wheels, tmp_path):
    unpacked = tmp_path / "unpacked"
    with zipfile.ZipFile(wheels("aarch64-release")) as file:
        file.extractall(unpacked)
    nereid = unpacked / "nereid/bin/nereid"
    nereid.chmod(0o755)  # pip does that
    version = subprocess.run([*EMULATED, nereid, "--version"], check=True, stdout=subprocess.PIPE, text=True).stdout
    assert re.fullmatch(r"nereid [\d.]+\n", version)
    make_identity(tmp_path / "models", "same", max_batch_size=0)
    starter = Installed(nereid, None, tmp_path)
    try:
        server = starter("serve", tmp_path / "models", wrapper=EMULATED)
        given = {"name": "INPUT0", "datatype": "FP32", "shape": [3], "data": [1, 2, 0.5]}
        answer = server.ask("/v2/models/same/infer", json.dumps({"inputs": [given]}).encode())
        assert json.loads(answer.body)["outputs"][0]["data"] == [1, 2, 0.5]
        assert 'nv_inference_request_success{model="same",version="1"} 1' in server.ask("/metrics", port=server.metrics_port).text
        with grpcclient.InferenceServerClient(f"localhost:{server.grpc_port}") as client:
            assert client.is_model_ready("same")
        libraries = set(re.findall(r" (/\S+/lib(?:jansson|nghttp2)\S*)", proc.read(server.process.pid, "maps")))  # the emulator has some of its own
        assert len(libraries) == 2 and all(path.startswith(f"{unpacked}/nereid.libs/") for path in libraries), libraries
    finally:
        starter.stop_all()
