"""Triton's own Python backend (2.51, from PyPI's nvidia-pytriton) for nereid: how its files are laid out, and a client.

Its libraries ask for Triton's core by the name that the wheel gave it. Here nereid's library lies under that name, so that
no code of Triton but the backend is in the process.
"""
import json
import os
import pathlib
import shutil
import subprocess

import pytest
from conftest import BUILD, ROOT, WITHOUT_LEAK_CHECK, Starter, environment, link_backends

TRITON = ROOT / ".deps/pytriton"
MODELS = ROOT / "tests/python_models"
# ThreadSanitizer cannot see how that library's threads and processes share memory (boost::interprocess, compiled without it): it
# reports races in there by the dozen. The release build stands in.
PYTHON_BUILD = ROOT / "build/release" if BUILD.name == "tsan" else BUILD
# The stub embeds the system's Python and takes its libraries by the python3 that it finds first. Triton's library leaks some
# errors and metrics, and is unloaded before the check for leaks could name it.
VARIABLES = {"PATH": "/usr/bin:/bin", **WITHOUT_LEAK_CHECK}


def starter_environment():
    return environment() | VARIABLES


def system_python_version():
    command = ["/usr/bin/python3", "-c", "import sys; print('%d.%d' % sys.version_info[:2])"]
    return subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout.strip()


def lay_out(folder, core=PYTHON_BUILD / "lib/libtritonserver.so"):
    """Makes a backend directory with Triton's `python` in it; the stub is the one for the system's Python."""
    version = system_python_version()
    libraries = folder / "nvidia_pytriton.libs"
    libraries.mkdir()
    for library in (TRITON / "nvidia_pytriton.libs").iterdir():
        (libraries / library.name).symlink_to(core if library.name.startswith("libtritonserver-") else library)
    backends = folder / "pytriton/tritonserver/backends"
    python = backends / "python"
    python.mkdir(parents=True)
    parts = TRITON / "pytriton/tritonserver"
    # copies: the loader looks for the libraries beside the file that a link leads to
    for part in (*(parts / "backends/python").glob("*.*"), parts / "python_backend_stubs" / version / "triton_python_backend_stub"):
        shutil.copy(part, python)
    for package in (ROOT / f".deps/numpy-1.26.4-python{version}").glob("numpy*"):
        (python / package.name).symlink_to(package)
    link = folder / "backends"  # the backend takes a folder that is not this very name for one with a model.py of its own
    link.symlink_to(backends)
    return link


def put_model(repository, name):
    return shutil.copytree(MODELS / name, repository / name)


def infer(server, model, values=(), datatype="INT32", shape=None, **more):
    """The answer to one request with one input."""
    tensor = {"name": "INPUT0", "datatype": datatype, "shape": shape or [len(values)], "data": list(values)}
    return server.ask(f"/v2/models/{model}/infer", json.dumps({"inputs": [tensor], **more}).encode())


def output(answer, name="OUTPUT0"):
    assert answer.status == 200, answer.text
    return next(o["data"] for o in json.loads(answer.body)["outputs"] if o["name"] == name)


def stubs(server, model=None):
    """Process ids of the server's stub processes, of one model or all."""
    found = []
    for entry in pathlib.Path("/proc").iterdir():
        if not entry.name.isdecimal():
            continue
        try:
            parent = (entry / "stat").read_text().rsplit(")", 1)[1].split()[1]
            words = (entry / "cmdline").read_bytes().decode().split("\0")
        except (FileNotFoundError, ProcessLookupError):
            continue
        if int(parent) == server.process.pid and "triton_python_backend_stub" in words[0]:
            if model is None or f"/{model}/" in words[1]:
                found.append(int(entry.name))
    return found


class TritonStarter(Starter):
    def __init__(self, backends, folder):
        super().__init__(PYTHON_BUILD / "bin/nereid", backends, folder)
        self.regions = f"nereid_{os.getpid()}_{id(self)}_"  # how its files in /dev/shm begin

    def __call__(self, repository, flags=(), **more):
        flags = ["--model-control-mode=explicit", f"--backend-config=python,shm-region-prefix-name={self.regions}", *flags]
        return super().__call__(repository, flags=flags, variables=VARIABLES, **more)

    def left_in_memory(self):
        return list(pathlib.Path("/dev/shm").glob(f"{self.regions}*"))


@pytest.fixture(scope="module")
def triton_python_backends(tmp_path_factory):
    """A backend directory whose `python` is Triton's."""
    return link_backends(lay_out(tmp_path_factory.mktemp("triton")), PYTHON_BUILD)


@pytest.fixture
def triton_python(triton_python_backends, tmp_path):
    """Starts servers with it."""
    starter = TritonStarter(triton_python_backends, tmp_path)
    yield starter
    starter.stop_all()
    assert starter.left_in_memory() == []
