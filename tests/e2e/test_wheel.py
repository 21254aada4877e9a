# SPDX-License-Identifier: Apache-2.0
"""The wheel of what is in build/release: what it carries, and that a virtual environment with it and ONNX Runtime serves. Nothing comes from the network: the
environment has links to the packages of the tests' own."""
import email
import json
import os
import pathlib
import re
import subprocess
import sys
import zipfile

import numpy as np
import pytest
from conftest import ROOT, Starter
from python_models import infer, make_python

MOST_BYTES = 8_000_000
TELL = """
def execute(self, requests):
    return [answer(np.array([sys.prefix.encode()], dtype=np.object_)) for request in requests]
"""


def make(directory):
    environment = {name: value for name, value in os.environ.items() if name != "SOURCE_DATE_EPOCH"}
    told = subprocess.run([sys.executable, ROOT / "scripts/make_wheel.py", ROOT / "build/release", directory],
                          env=environment, check=True, capture_output=True, text=True).stdout
    return pathlib.Path(told.strip())


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    return make(tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="module")
def environment(wheel, tmp_path_factory):
    """A virtual environment in which `pip install nereid-*.whl[onnx]` was run."""
    directory = tmp_path_factory.mktemp("installed") / "env"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", directory], check=True)
    packages, = directory.glob("lib/python*/site-packages")
    for path in pathlib.Path(np.__path__[0]).parent.iterdir():
        if not path.name.startswith(("pip", "nereid", "__pycache__")):
            (packages / path.name).symlink_to(path)
    subprocess.run([sys.executable, "-m", "pip", "--python", directory / "bin/python", "install", "-q", "--no-index", "--no-compile",
                    "--disable-pip-version-check", f"{wheel}[onnx]"], check=True)
    return directory


class Installed(Starter):
    """Starts the installed command as somebody does who gives no flags but ports, and has the environment nowhere in the shell."""

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


def test_the_licences_of_all_that_it_carries_are_inside(wheel):
    with zipfile.ZipFile(wheel) as file:
        names = file.namelist()
        metadata = email.message_from_bytes(file.read(next(name for name in names if name.endswith("/METADATA"))))
        listed = file.read(next(name for name in names if name.endswith("/carried/libraries.txt"))).decode()
    carried = {re.sub(r"(-[0-9a-f]{8})?\.so.*", "", name.rpartition("/")[2]) for name in names if re.match(r"nereid\.libs/.", name)}
    assert {"libgnutls", "libnettle", "libnghttp2", "libseccomp"} <= carried and not carried & {"libarchive", "libxml2", "libicudata"}
    packages = dict(re.findall(r"^(lib[\w+-]+)\.so\S*: (\S+) ", listed, re.M))
    assert packages.keys() == carried
    licences = {name.rpartition("/")[2] for name in metadata.get_all("License-File")}
    assert {"LICENSE", "LGPL-2.1.txt", "LGPL-3.txt", "GPL-3.txt", *(f"{package}.txt" for package in packages.values())} <= licences


def test_two_builds_are_equal(wheel, tmp_path):
    assert make(tmp_path).read_bytes() == wheel.read_bytes()


def test_an_onnx_file_is_served_by_the_onnxruntime_beside_it(start, environment):
    server = start("serve", ROOT / "model_repository/add_sub/1/model.onnx")
    inputs = [{"name": name, "datatype": "FP32", "shape": [1, 16], "data": [value] * 16} for name, value in (("INPUT0", 3), ("INPUT1", 2))]
    index = json.loads(server.ask("/v2/repository/index", b"{}").body)
    answer = server.ask(f"/v2/models/{index[0]['name']}/infer", json.dumps({"inputs": inputs}).encode())
    assert [output["data"] for output in json.loads(answer.body)["outputs"]] == [[5.0] * 16, [1.0] * 16]
    maps = pathlib.Path(f"/proc/{server.process.pid}/maps").read_text()
    packages, = environment.glob("lib/python*/site-packages")
    assert f"from {packages}/onnxruntime/capi/" in server.log
    libraries = set(re.findall(r" (/\S+/lib(?:gnutls|jansson|nghttp2)\S*)", maps))
    assert len(libraries) == 3 and all(path.startswith(f"{packages}/nereid.libs/") for path in libraries), libraries
    assert not re.search(r"/lib(archive|xml2|icudata|curl)[.\d]*\.so", maps)


def test_a_python_model_runs_on_the_python_of_the_environment(start, environment, tmp_path):
    make_python(tmp_path / "models", "prefix", TELL, kind="TYPE_STRING")
    server = start("serve", tmp_path / "models")
    assert infer(server, "prefix", np.array([b"x"], dtype=np.object_), "BYTES")[0].decode() == str(environment)
