# SPDX-License-Identifier: Apache-2.0
"""Models that come with the request to load them: tritonclient's load_model(files=…), and what must not be possible with it."""
import base64
import json
import os

import numpy as np
import pytest
import tritonclient.http as triton
from conftest import ROOT, make_identity, wait_for
from python_models import infer, make_python

EXPLICIT = ["--model-control-mode=explicit"]
DIGITS = (ROOT / "model_repository/digits/1/model.onnx").read_bytes()
PYTHON = b"""
import os
import numpy as np
import triton_python_backend_utils as pb_utils

class TritonPythonModel:
    def initialize(self, args):
        self.words = open(args["model_repository"] + "/words.txt").read()

    def execute(self, requests):
        answer = np.array([self.words, str(os.getpid())], object)
        return [pb_utils.InferenceResponse([pb_utils.Tensor("OUT", answer)]) for _ in requests]
"""
PYTHON_CONFIG = {"backend": "python", "input": [{"name": "IN", "data_type": "TYPE_INT32", "dims": [1]}],
                 "output": [{"name": "OUT", "data_type": "TYPE_STRING", "dims": [2]}]}


@pytest.fixture
def temporary(tmp_path):
    directory = tmp_path / "temporary"
    directory.mkdir()
    return directory


@pytest.fixture
def server(start_server, repository, temporary):
    make_identity(repository, "m")
    return start_server(repository, flags=EXPLICIT, variables={"TMPDIR": str(temporary)})


def load(server, name, config=None, **files):
    parameters = {f"file:{path}": base64.b64encode(content).decode() for path, content in files.items()}
    if config is not None:
        parameters["config"] = json.dumps(config)
    return server.ask(f"/v2/repository/models/{name}/load", json.dumps({"parameters": parameters}).encode())


def directories(temporary):
    return [path.name for path in temporary.iterdir()]


def test_a_model_that_is_in_no_repository_is_served_and_leaves_nothing(server, temporary):
    with triton.InferenceServerClient(server.url) as client:
        client.load_model("sent", config=json.dumps({"backend": "onnxruntime"}), files={"file:7/model.onnx": DIGITS})
        assert client.is_model_ready("sent", "7") and len(directories(temporary)) == 1
        assert (temporary / directories(temporary)[0]).stat().st_mode & 0o777 == 0o700
        image = triton.InferInput("image", [1, 64], "FP32").set_data_from_numpy(np.zeros((1, 64), np.float32))
        assert client.infer("sent", [image]).as_numpy("probabilities").shape == (1, 10)
        client.unload_model("sent")
        wait_for("the directory to go", lambda: directories(temporary) == [])


def test_a_python_model_keeps_its_files_as_long_as_it_is_served(server, temporary):
    answer = load(server, "sent", PYTHON_CONFIG, **{"1/model.py": PYTHON, "words.txt": b"first"})
    assert answer.status == 200, answer.text
    request = b'{"inputs":[{"name":"IN","shape":[1],"datatype":"INT32","data":[1]}]}'

    def say():
        answer = server.ask("/v2/models/sent/infer", request)
        return json.loads(answer.body)["outputs"][0]["data"] if answer.status == 200 else None

    words, pid = say()
    assert words == "first"
    os.kill(int(pid), 9)  # the next worker reads the files again
    wait_for("the next worker", lambda: (said := say()) is not None and said[0] == "first" and said[1] != pid)
    assert load(server, "sent", PYTHON_CONFIG, **{"1/model.py": PYTHON, "words.txt": b"second"}).status == 200
    assert say()[0] == "second"
    wait_for("the first directory to go", lambda: len(directories(temporary)) == 1)
    server.stop()
    assert directories(temporary) == []


def test_the_repository_is_back_with_the_next_plain_load(server):
    config = {"backend": "identity", "max_batch_size": 9}
    config["input"] = [{"name": "INPUT0", "data_type": "TYPE_FP32", "dims": [-1]}]
    config["output"] = [{"name": "OUTPUT0", "data_type": "TYPE_FP32", "dims": [-1]}]
    size = lambda: json.loads(server.ask("/v2/models/m/config").body)["max_batch_size"]  # noqa: E731
    assert load(server, "m").status == 200
    before = size()
    assert load(server, "m", config, **{"3/x": b""}).status == 200
    assert size() == 9 and server.ask("/v2/models/m/versions/1/ready").status != 200
    assert load(server, "m").status == 200
    assert size() == before and server.ask("/v2/models/m/versions/1/ready").status == 200


@pytest.mark.parametrize("path", ["/etc/x", "../x", "1/../../x", "1/./x", "1//x", "1/", "", "/", "..", "x/" * 40 + "x", "1/" + "a" * 300])
def test_a_path_that_leaves_the_directory_is_refused_and_leaves_nothing(server, temporary, path):
    answer = load(server, "sent", {"backend": "identity"}, **{"1/fine": b"x", path: b"y"})
    assert answer.status == 400 and "failed to poll from model repository: Invalid file parameter" in answer.text
    assert directories(temporary) == [] and server.ask("/v2/models/sent/ready").status != 200


def test_faults_of_an_upload_are_told(server, temporary):
    answer = load(server, "sent", None, **{"1/x": b""})
    assert answer.status == 400 and "failed to load 'sent', failed to poll from model repository: Load parameter 'config' must be" in answer.text
    answer = load(server, "sent", {"backend": "identity"}, **{"1": b"", "1/x": b""})
    assert answer.status == 400 and "directory has been created as a file" in answer.text
    answer = load(server, "sent", {"backend": "identity"}, **{"1/x": b"", "1": b""})
    assert answer.status == 400 and "it is there twice" in answer.text
    answer = load(server, "sent", {"backend": "onnxruntime"}, **{"1/model.onnx": b"no model"})
    assert answer.status == 400 and "load failed for model 'sent'" in answer.text
    assert directories(temporary) == []


def test_a_directory_that_cannot_be_made_is_told(start_server, repository, tmp_path):
    make_identity(repository, "m")
    absent = tmp_path / "absent"
    server = start_server(repository, flags=[*EXPLICIT, "--load-model=m"], variables={"TMPDIR": str(absent)})
    answer = load(server, "sent", {"backend": "identity"}, **{"1/x": b"x"})
    assert answer.status == 503 and "failed to make a directory for a model's files" in answer.text
    assert server.ask("/v2/models/m/ready").status == 200


def test_a_python_model_loads_another_with_files(start_server, repository, temporary):
    make_python(repository, "loader", """
        def execute(self, requests):
            with open(%r, "rb") as file:
                pb_utils.load_model("sent", config='{"backend": "onnxruntime"}', files={"file:4/model.onnx": file.read()})
            return [answer(value(r)) for r in requests]
        """ % str(ROOT / "model_repository/digits/1/model.onnx"))
    server = start_server(repository, flags=[*EXPLICIT, "--load-model=loader"], variables={"TMPDIR": str(temporary)})
    assert infer(server, "loader") is not None
    assert server.ask("/v2/models/sent/versions/4/ready").status == 200 and len(directories(temporary)) >= 1
