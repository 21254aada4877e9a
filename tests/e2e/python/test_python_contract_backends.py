# SPDX-License-Identifier: Apache-2.0
"""Backends that are made of Python: <backend-directory>/<name>/model.py, run by the python backend (nereid's, Triton's)."""
import json
import re
import shutil

import pytest
from conftest import wait_for
from python_sides import in_nereid, infer, output, python_backends, side, start_python  # noqa: F401

TIMES = """
import json
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    @staticmethod
    def auto_complete_config(config):
        config.add_input({"name": "INPUT0", "data_type": "TYPE_INT32", "dims": [-1]})
        config.add_output({"name": "OUTPUT0", "data_type": "TYPE_INT32", "dims": [-1]})
        return config

    def initialize(self, args):
        with open(f"{args['model_repository']}/{args['model_version']}/model.times") as file:
            self.times = int(file.read())

    def execute(self, requests):
        values = [pb_utils.get_input_tensor_by_name(request, "INPUT0").as_numpy() for request in requests]
        return [pb_utils.InferenceResponse([pb_utils.Tensor("OUTPUT0", value * self.times)]) for value in values]
"""


@pytest.fixture
def times(python_backends):
    directory = python_backends / "times"
    directory.mkdir()
    (directory / "model.py").write_text(TIMES)
    yield directory
    shutil.rmtree(directory)


def make_model(repository, name, times, config='backend: "times"'):
    (repository / name / "1").mkdir(parents=True)
    (repository / name / "1/model.times").write_text(str(times))
    (repository / name / "config.pbtxt").write_text(config)


def test_models_of_a_backend_made_of_python(start_python, repository, times):
    make_model(repository, "twice", 2)
    make_model(repository, "thrice", 3, 'backend: "times" runtime: "model.py"')
    make_model(repository, "other.times", 4, "")
    server = start_python(repository, flags=["--load-model=*", "--log-verbose=1"])
    assert output(infer(server, "twice", [1, 5])) == [2, 10]
    assert output(infer(server, "thrice", [1, 5])) == [3, 15]
    assert output(infer(server, "other.times", [1, 5])) == [4, 20]
    for model in ("twice", "thrice", "other.times"):
        config = json.loads(server.ask(f"/v2/models/{model}/config").body)
        assert (config["backend"], config["runtime"]) == ("times", "model.py")
        assert "EXECUTION_ENV_PATH" not in config["parameters"]
    wait_for("the table", lambda: "| times " in server.log)
    assert len(re.findall(r"^\| times +\|", server.log, re.M)) == 1, "one row among the backends, none for each model"


def test_the_execution_environment_beside_the_script_is_the_models(start_python, repository, times):
    environment = times / "pb_exec_env_model.py.tar.gz"
    environment.write_bytes(b"not an archive")
    make_model(repository, "twice", 2)
    server = start_python(repository)
    answer = server.ask("/v2/repository/models/twice/load", b"")
    assert answer.status == 400
    assert str(environment.resolve()) in server.log  # the backend tried to unpack it


@in_nereid  # later versions of Triton say it so too
def test_a_runtime_that_is_not_there_is_said(start_python, repository):
    make_model(repository, "twice", 2, 'backend: "nobody" runtime: "model.py"')
    make_model(repository, "thrice", 3, 'backend: "nobody"')
    server = start_python(repository)
    answer = server.ask("/v2/repository/models/twice/load", b"")
    assert answer.status == 400
    assert "unable to find Python backend based backend library 'model.py' for model 'twice', searched: '" in answer.text
    answer = server.ask("/v2/repository/models/thrice/load", b"")
    assert answer.status == 400
    assert "unable to find backend library for backend 'nobody', try specifying runtime on the model configuration." in answer.text
