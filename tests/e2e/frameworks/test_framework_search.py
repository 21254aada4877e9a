# SPDX-License-Identifier: Apache-2.0
"""ONNX Runtime is found where people have it, and where it is not, the error says how to get it and where was looked."""
import json
import os
import pathlib
import re
import shutil

import frameworks
import onnxruntime
import pytest
import small_models as small
from conftest import DEADLINE, Starter, copy_model, make_identity, wait_for

PACKAGE = pathlib.Path(onnxruntime.__file__).parent


class BareStarter(Starter):
    """Without the settings that name this repository's own Python."""

    def command(self, *repositories, flags=()):
        return [word for word in super().command(*repositories, flags=flags) if not re.match(r"--backend-config=\w+,python-", word)
                or word in flags]


@pytest.fixture
def start_bare(nereid, backends, tmp_path):
    starter = BareStarter(nereid, backends, tmp_path)
    yield starter
    starter.stop_all()


@pytest.fixture
def directory(tmp_path):
    """A directory that strangers cannot write below, whatever the umask is."""
    directory = tmp_path / "pythons"
    directory.mkdir(mode=0o755)
    return directory


@pytest.fixture
def digits(repository):
    copy_model(repository, "digits")
    return repository


def make_venv(directory, package=True):
    """As `python3 -m venv` lays it out, with the package or without."""
    site = directory / "lib/python3.11/site-packages"
    site.mkdir(parents=True)
    (directory / "bin").mkdir()
    (directory / "bin/python3").symlink_to(os.path.realpath("/bin/true"))  # whoever started it would get nothing
    (directory / "pyvenv.cfg").write_text("home = /usr/bin\ninclude-system-site-packages = false\nversion = 3.11.2\n")
    if package:
        (site / "onnxruntime/capi").mkdir(parents=True)
        library = next(PACKAGE.glob("capi/libonnxruntime.so*"))
        shutil.copyfile(library, site / "onnxruntime/capi" / library.name)
    return directory


def variables(directory, *directories):
    return {"PATH": ":".join(map(str, directories)), "HOME": str(directory), "VIRTUAL_ENV": "", "NEREID_PYTHON_ENV": "", "CONDA_PREFIX": ""}


def used(server):
    return re.search(r"using ONNX Runtime \S+ from ([^\"]*)", server.log).group(1)


def test_the_python3_in_path_has_it(start_bare, digits, directory):
    empty, venv = make_venv(directory / "empty", package=False), make_venv(directory / "venv")
    server = start_bare(digits, flags=["--log-verbose=1"], variables=variables(directory, empty / "bin", venv / "bin"))
    assert server.ask("/v2/models/digits/ready").status == 200
    assert used(server).startswith(f"{venv}/lib/python3.11/site-packages/onnxruntime/capi/libonnxruntime.so")
    assert f"'{empty}/bin/python3': this Python has no such package" in server.log  # verbose: what was passed by


@pytest.mark.parametrize("flag", ["--backend-config=python,python-executable={}", "--backend-config=onnxruntime,python-executable={}"])
def test_the_python_of_python_models_has_it(start_bare, digits, directory, flag):
    venv = make_venv(directory / "venv")
    server = start_bare(digits, flags=[flag.format(f"{venv}/bin/python3")], variables=variables(directory, "/absent"))
    assert used(server).startswith(f"{venv}/lib/")


def test_a_users_environment_has_it(start_bare, digits, directory):
    venv = make_venv(directory / "venv")
    server = start_bare(digits, variables=variables(directory, "/absent") | {"CONDA_PREFIX": str(venv)})
    assert used(server).startswith(f"{venv}/lib/")


def test_without_it_the_error_says_how_to_get_it_and_where_was_looked(start_bare, digits, directory):
    """No Python is started for that: this one would leave a mark."""
    make_identity(digits, "other")
    programs = directory / "programs"
    programs.mkdir()
    (programs / "python3").write_text(f"#!/bin/sh\ntouch {directory}/mark\n")
    (programs / "python3").chmod(0o755)
    broken = make_venv(directory / "broken", package=False)
    capi = broken / "lib/python3.11/site-packages/onnxruntime/capi"
    capi.mkdir(parents=True)
    (capi / "libonnxruntime.so.1.1.0").write_bytes(b"\x7fELF\x02\x01\x01".ljust(18, b"\0") + b"\x16\0".ljust(46, b"\0"))  # s390
    server = start_bare(digits, flags=["--exit-on-error=false"], ready=False, variables=variables(directory, programs, broken / "bin"))
    wait_for("the start", lambda: "Serving 1 of 2 models" in server.log)
    reason = next(row["reason"] for row in json.loads(server.ask("/v2/repository/index", b"{}").text) if row["name"] == "digits")
    assert "ONNX Runtime was not found. Install it with 'pip install onnxruntime'" in reason
    assert "--backend-config=onnxruntime,library=PATH (looked in " in reason
    assert f"'{programs}/python3': a script, which is not followed" in reason
    assert re.search(rf"'{capi}/libonnxruntime.so.1.1.0': is for s390, and this machine is \w+", reason)
    assert not (directory / "mark").exists()


def test_what_anybody_may_write_is_left_alone(start_bare, digits, directory):
    venv = make_venv(directory / "venv")
    site = venv / "lib/python3.11/site-packages"
    library = next((site / "onnxruntime/capi").iterdir())
    server = start_bare(digits, variables=variables(directory, venv / "bin"))
    assert used(server) == str(library)
    server.stop()
    site.chmod(0o777)
    server = start_bare(digits, wait=False, variables=variables(directory, venv / "bin"))
    assert server.process.wait(DEADLINE) == 1
    assert f"'{library}': is left alone, since '{site}' may be written by anybody" in server.log
    server = start_bare(digits, flags=[f"--backend-config=onnxruntime,python-environment={venv}"], variables=variables(directory, "/absent"))
    assert used(server) == str(library)  # who names it answers for it


def test_under_secure_what_others_own_is_left_alone(start_bare, digits, directory):
    venv = make_venv(directory / "venv")
    library = next((venv / "lib/python3.11/site-packages/onnxruntime/capi").iterdir())
    path, secure = variables(directory, venv / "bin"), ["--secure", "--allow-root"]
    server = start_bare(digits, flags=secure, variables=path)
    assert used(server) == str(library)
    server.stop()
    if os.geteuid() != 0:
        return  # to give a directory away takes root
    os.chown(venv / "lib", 12345, 12345)
    server = start_bare(digits, variables=path)
    assert used(server) == str(library)
    server.stop()
    server = start_bare(digits, flags=secure, wait=False, variables=path)
    assert server.process.wait(DEADLINE) == 1
    assert f"'{library}': is left alone, since '{venv}/lib' belongs to another user" in server.log


@pytest.mark.parametrize("backend, parameter", [pytest.param(*row, marks=frameworks.needs(row[0])) for row in (("openvino", "openvino_library"), ("fil", "treelite_library"))])
def test_a_model_names_its_own(start_server, repository, tmp_path, backend, parameter):
    own = f'parameters {{ key: "{parameter}" value {{ string_value: "{frameworks.library(backend)}" }} }}'
    small.add(repository, backend, "own", small.config_of(backend, more=own))
    small.add(repository, backend, "other")
    server = start_server(repository, flags=["--model-control-mode=explicit", f"--backend-config={backend},library={tmp_path}/absent.so"])
    assert server.ask("/v2/repository/models/own/load", b"{}").status == 200, server.log
    small.ask(server, backend, "own")
    assert f"from {frameworks.library(backend)}" in server.log
    why = json.loads(server.ask("/v2/repository/models/other/load", b"{}").text)["error"]
    assert f"--backend-config={backend},library=PATH (looked in '{tmp_path}/absent.so'" in why


@pytest.mark.parametrize("written, meant", [("py", "python"), ("keras", "tensorflow"), ("scikit-learn", "fil")])
def test_a_backend_by_the_name_of_what_it_runs_is_suggested(start_server, repository, written, meant):
    (repository / "net/1").mkdir(parents=True)
    (repository / "net/config.pbtxt").write_text(f'backend: "{written}"')
    answer = start_server(repository, flags=["--model-control-mode=explicit"]).ask("/v2/repository/models/net/load", b"{}")
    assert f"backend '{written}', try specifying runtime on the model configuration. Did you mean backend: \\\"{meant}\\\"?" in answer.text
