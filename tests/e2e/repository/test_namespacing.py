# SPDX-License-Identifier: Apache-2.0
"""--model-namespacing: names are a repository's own, in nereid and in NVIDIA's server of 2.51."""
import json
import re

import pytest
from conftest import make_identity, wait_for
from python_sides import SIDES, SideStarter
from test_agents import BODY

REPOSITORY = "/v2/repository/models"
AMBIGUOUS = ("There are 2 identifiers of model 'same' in global map, model namespace must be provided to resolve ambiguity.")


@pytest.fixture(params=["nereid", "nereid-in-triton"])
def server(request, repositories, tmp_path):
    side = SIDES[request.param]
    (tmp_path / "backends").mkdir()
    starter = SideStarter(side, side.backends(tmp_path / "backends"), tmp_path)
    first, second = repositories
    yield starter(first, flags=[f"--model-repository={second}", "--model-namespacing=true", "--load-model=one"])
    starter.stop_all()


@pytest.fixture
def repositories(tmp_path):
    first, second = tmp_path / "first", tmp_path / "second"
    make_identity(first, "same")
    make_identity(first, "one", more='metric_tags { key: "t" value: "x" }')
    make_identity(second, "same", max_batch_size=4)
    make_identity(second, "two")
    return first, second


def index(server):
    return [(row["name"], row.get("version"), row.get("state")) for row in json.loads(server.ask("/v2/repository/index", b"").body)]


def refusal(answer):
    return answer.status, json.loads(answer.body)["error"]


def infer(server, name):
    return server.ask(f"/v2/models/{name}/infer", BODY)


def load(server, name):
    assert server.ask(f"{REPOSITORY}/{name}/load", b"").status == 200


def test_names_are_a_repositorys_own(server, repositories):
    unknown = (400, "Request for unknown model: 'same' is not found")
    assert index(server) == [("one", "1", "READY"), ("same", None, None), ("same", None, None), ("two", None, None)]
    assert refusal(infer(server, "same")) == refusal(server.ask("/v2/models/same")) == unknown
    load(server, "same")  # of both
    assert index(server) == [("one", "1", "READY"), ("same", "1", "READY"), ("same", "1", "READY"), ("two", None, None)]
    for path in ("", "/config"):
        assert refusal(server.ask("/v2/models/same" + path)) == (400, AMBIGUOUS)
    assert refusal(infer(server, "same")) == (400, AMBIGUOUS)
    assert server.ask("/v2/models/same/ready").status == 400
    load(server, "two")
    for name in ("one", "two"):
        assert infer(server, name).status == 200
        assert json.loads(server.ask(f"/v2/models/{name}").body)["name"] == json.loads(server.ask(f"/v2/models/{name}/config").body)["name"] == name
        assert server.ask(f"/v2/models/{name}/ready").status == 200
        rows = json.loads(server.ask(f"/v2/models/{name}/stats").body)["model_stats"]
        assert [(row["name"], row["inference_count"]) for row in rows] == [(name, 1)]
    first, second = repositories
    assert refusal(server.ask("/v2/models/one/versions/3")) == (404, f"Request for unknown model: '{first}::one' version 3 is not found")
    metrics = server.ask("/metrics", port=server.metrics_port).text
    assert sorted(re.findall(r"^nv_inference_request_success\{(.*)\} (\d)$", metrics, re.M)) == [
        (f'_t="x",model="one",namespace="{first}",version="1"', "1"), (f'model="same",namespace="{first}",version="1"', "0"),
        (f'model="same",namespace="{second}",version="1"', "0"), (f'model="two",namespace="{second}",version="1"', "1")]
    assert f"successfully loaded '{second}::same'" in server.log


def test_one_of_two_can_be_told_again_when_the_other_is_gone(server, repositories):
    load(server, "same")
    assert server.ask(f"{REPOSITORY}/same/unload", b"").status == 200
    wait_for("both to go", lambda: index(server).count(("same", "1", "UNAVAILABLE")) == 2)
    assert refusal(infer(server, "same")) == (404, "Identifier of model 'same' is not found in global map")
    (repositories[0] / "same").rename(repositories[0].parent / "away")
    load(server, "same")
    assert json.loads(server.ask("/v2/models/same/config").body)["max_batch_size"] == 4
    assert infer(server, "same").status == 200


def test_files_of_a_request_have_no_namespace(server):
    config = {"backend": "identity", "max_batch_size": 5, "input": [{"name": "INPUT0", "data_type": "TYPE_FP32", "dims": [-1]}],
              "output": [{"name": "OUTPUT0", "data_type": "TYPE_FP32", "dims": [-1]}]}
    body = json.dumps({"parameters": {"config": json.dumps(config), "file:1/x": "AAAA"}}).encode()
    assert server.ask(f"{REPOSITORY}/uploaded/load", body).status == 200
    assert infer(server, "uploaded").status == 200
    assert 'model="uploaded",version="1"' in server.ask("/metrics", port=server.metrics_port).text


def test_start_and_polls_know_namespaces(start_server, repositories):
    """Every model of every repository; the table shows which is which."""
    first, second = repositories
    server = start_server(first, second, flags=["--model-namespacing=true", "--model-control-mode=poll", "--repository-poll-secs=1"])
    assert [row for row in index(server) if row[2] == "READY"] == [(name, "1", "READY") for name in ("one", "same", "same", "two")]
    assert refusal(infer(server, "same")) == (400, AMBIGUOUS)
    rows = json.loads(server.ask("/v2/models/stats").body)["model_stats"]
    assert sorted(row["name"] for row in rows) == ["one", "same", "same", "two"]  # Triton refuses this one
    (second / "same").rename(second.parent / "away")
    wait_for("one to go", lambda: infer(server, "same").status == 200)
    (second.parent / "away").rename(second / "same")
    wait_for("it to come back", lambda: infer(server, "same").status == 400)
    assert refusal(infer(server, "same")) == (400, AMBIGUOUS)
