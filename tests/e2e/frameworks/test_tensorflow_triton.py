# SPDX-License-Identifier: Apache-2.0
"""The tensorflow backend's library in NVIDIA's server (2.51), which has none of its own any more."""
import frameworks
import numpy as np
import pytest
import tritonclient.http as triton
from conftest import DEADLINE
from python_sides import SIDES, SideStarter
from test_tensorflow import GRAPH, LONG, add_model, fp32, given, texts
from tritonclient.utils import InferenceServerException

pytestmark = frameworks.needs("tensorflow")
SIDE = SIDES["nereid-in-triton"]


@pytest.fixture(scope="module")
def client(tmp_path_factory):
    repository = tmp_path_factory.mktemp("models")
    for name in ("add", "strings", "table", "fails"):
        add_model(repository, name)
    add_model(repository, "graph.graphdef", GRAPH)
    starter = SideStarter(SIDE, SIDE.backends(tmp_path_factory.mktemp("backends")), tmp_path_factory.mktemp("triton"))
    server = starter(repository, flags=["--model-control-mode=explicit", "--load-model=*", *frameworks.settings("tensorflow")])
    with triton.InferenceServerClient(server.url, network_timeout=DEADLINE) as client:
        yield client
    starter.stop_all()


def test_a_saved_model_is_completed_and_answers(client):
    config = client.get_model_config("add")
    assert (config["max_batch_size"], [t["name"] for t in config["input"]]) == (4, ["x", "y"])
    assert client.infer("add", [fp32("x", [[1] * 4] * 2), fp32("y", [[2] * 4] * 2)]).as_numpy("sum").tolist() == [[3] * 4] * 2


def test_strings_and_tables_answer(client):
    assert client.infer("strings", [given("s", "BYTES", texts([b"", LONG]))]).as_numpy("doubled").tolist() == [[b"", LONG + LONG]]
    assert client.infer("table", [given("word", "BYTES", texts([b"two"]))]).as_numpy("number").tolist() == [[2]]


def test_a_graph_answers(client):
    data = np.array([[1, 2, 3, 4]], np.int32)
    assert client.infer("graph", [given("INPUT0", "INT32", data), given("INPUT1", "INT32", data)]).as_numpy("OUTPUT0").tolist() == (2 * data).tolist()


def test_a_failing_run_says_why(client):
    with pytest.raises(InferenceServerException, match=r"7 is not in \[0, 3\)"):
        client.infer("fails", [given("index", "INT32", np.array([[7]], np.int32))])
