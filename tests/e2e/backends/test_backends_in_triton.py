# SPDX-License-Identifier: Apache-2.0
"""Our backends' libraries in NVIDIA's server (2.51), which serves the example models with them.

What Python models may do there, the tests of python_sides.py say.
"""
import re

import numpy as np
import proc
import pytest
import tritonclient.http as triton
from conftest import DEADLINE, ROOT, wait_for
from python_sides import SIDES, SideStarter

SIDE = SIDES["nereid-in-triton"]


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    starter = SideStarter(SIDE, SIDE.backends(tmp_path_factory.mktemp("backends")), tmp_path_factory.mktemp("triton"))
    yield starter(ROOT / "model_repository", flags=["--load-model=*"])
    starter.stop_all()


@pytest.fixture
def client(server):
    with triton.InferenceServerClient(server.url, network_timeout=DEADLINE) as client:
        yield client


def fp32(name, *rows):
    data = np.array(rows, np.float32)
    return triton.InferInput(name, data.shape, "FP32").set_data_from_numpy(data)


def test_the_server_is_nvidias_and_the_libraries_are_ours(server):
    libraries = set(re.findall(r"/\S*/libtriton\S*\.so\S*", proc.read(server.process.pid, "maps")))
    ours = {SIDE.build / "backends" / name / f"libtriton_{name}.so" for name in ("identity", "onnxruntime", "python")}
    assert libraries == {str(path.resolve()) for path in (SIDE.core, *ours)}


def test_identity_answers(client):
    assert client.infer("identity", [fp32("INPUT0", [1, 2, 0.5])]).as_numpy("OUTPUT0").tolist() == [[1, 2, 0.5]]


def test_an_onnx_model_answers(client):
    answer = client.infer("add_sub", [fp32("INPUT0", range(16)), fp32("INPUT1", [1] * 16)])
    assert answer.as_numpy("OUTPUT0").tolist() == [list(range(1, 17))]
    assert answer.as_numpy("OUTPUT1").tolist() == [list(range(-1, 15))]


def test_a_configuration_is_read_off_an_onnx_model(client):
    config = client.get_model_config("digits")
    assert [i["name"] for i in config["input"]] == ["image"]
    assert client.infer("digits", [fp32("image", [0] * 64)]).as_numpy("digit").shape == (1, 1)


def test_python_models_answer(server, client):
    answer = client.infer("batch_add", [fp32("INPUT0", [1, 2]), fp32("INPUT1", [10, 20])])
    assert answer.as_numpy("OUTPUT0").tolist() == [[11, 22]]
    wait_for("the log", lambda: "batch_add: a batch of 1 requests, 1 rows" in server.log)
