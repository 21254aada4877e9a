# SPDX-License-Identifier: Apache-2.0
"""Our openvino backend in NVIDIA's server of 2.51."""
import frameworks
import numpy as np
import onnxruntime
import pytest
import tritonclient.http as triton
from conftest import DEADLINE, wait_for
from python_sides import SIDES, SideStarter
from test_openvino import double, infer, network

pytestmark = frameworks.needs("openvino")
SIDE = SIDES["nereid-in-triton"]


@pytest.fixture
def start_triton(tmp_path, tmp_path_factory):
    starter = SideStarter(SIDE, SIDE.backends(tmp_path_factory.mktemp("backends")), tmp_path)
    yield starter
    starter.stop_all()


def test_models_answer_in_batches_and_errors_have_their_words(start_triton, repository):
    named = 'default_model_filename: "model.onnx"\n'
    path = network(repository, "m", named + "max_batch_size: 8\n") / "1/model.onnx"
    double(repository, "plain", (2, 4), named)
    double(repository, "kind", config=named + "instance_group { kind: KIND_MODEL }\n")
    server = start_triton(repository, flags=["--load-model=m", "--load-model=plain", *frameworks.settings("openvino")])
    session = onnxruntime.InferenceSession(path)
    with triton.InferenceServerClient(server.url, network_timeout=DEADLINE) as client:
        for rows in (1, 5, 8):
            data = np.random.default_rng(rows).standard_normal((rows, 64)).astype(np.float32)
            np.testing.assert_allclose(infer(client, "m", data).as_numpy("Y"), session.run(None, {"X": data})[0], atol=1e-5)
        assert client.get_model_config("plain")["input"][0]["dims"] == [2, 4]
        assert infer(client, "plain", np.ones((2, 4), np.float32)).as_numpy("Z").tolist() == [[1] * 4] * 2
    answer = server.ask("/v2/repository/models/kind/load", b"")
    assert answer.status >= 400 and "unable to load model 'kind', Triton OpenVINO backend supports only Kind CPU and AUTO" in answer.text
    wait_for("the others", lambda: server.ask("/v2/models/m/ready").status == 200)
