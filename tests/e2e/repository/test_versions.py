# SPDX-License-Identifier: Apache-2.0
"""Labels, splits and shadows of a model's versions (docs/versions.md): with tritonclient and as plain HTTP."""
import asyncio
import collections
import json
import re
import threading

import numpy as np
import pytest
import tritonclient.grpc as grpc
import tritonclient.grpc.aio as grpc_aio
import tritonclient.http as http
import tritonclient.http.aio as http_aio
from conftest import PATIENCE, make_identity, wait_for
from python_models import make_python

EXPLICIT = ["--model-control-mode=explicit", "--load-model=*"]
ALL = "version_policy { all {} }"


def parameter(key, value):
    return f'parameters {{ key: "{key}" value {{ string_value: "{value}" }} }}'


def rules(**parameters):
    return "\n".join([ALL, *(parameter(f"version_{key}", value) for key, value in parameters.items())])


def routing(server, change=None, model="m"):
    """(status, the JSON) of the endpoint; `change` is what is posted, bytes as they are."""
    body = change if change is None or isinstance(change, bytes) else json.dumps(change).encode()
    reply = server.ask(f"/v2/models/{model}/routing", body)
    return reply.status, json.loads(reply.body)


def changed(server, change, model="m"):
    status, now = routing(server, change, model)
    assert status == 200, now
    return now


DATA = np.ones((1, 4), np.float32)


def inputs(client, name="INPUT0", data=DATA, datatype="FP32"):
    tensor = client.InferInput(name, list(data.shape), datatype)
    tensor.set_data_from_numpy(data)
    return [tensor]


def served(client, count, version="", model="m", **options):
    """How many of `count` requests each version has answered."""
    module = http if isinstance(client, http.InferenceServerClient) else grpc
    tensors = inputs(module)
    found = collections.Counter()
    for _ in range(count):
        response = client.infer(model, tensors, model_version=version, **options).get_response()
        found[response["model_version"] if module is http else response.model_version] += 1
    return dict(found)


@pytest.fixture
def http_client():
    made = []

    def make(server):
        made.append(http.InferenceServerClient(server.url))
        return made[-1]

    yield make
    for client in made:
        client.close()


@pytest.fixture
def grpc_client():
    made = []

    def make(server):
        made.append(grpc.InferenceServerClient(f"localhost:{server.grpc_port}"))
        return made[-1]

    yield make
    for client in made:
        client.close()


def metrics(server, family):
    """{labels: value} of a family, the model's label left out."""
    text = server.ask("/metrics", port=server.metrics_port).text
    rows = re.findall(rf"^{family}\{{(.*)\}} (\S+)$", text, re.M)
    return {re.sub(r'model="m",?|,?model="m"', "", labels): float(value) for labels, value in rows if 'model="m"' in labels}


def shadows(server):
    """{outcome: how many} of the copies, those that are none left out."""
    found = metrics(server, "nereid_version_shadow_requests_total")
    return {re.search('outcome="(.*?)"', labels).group(1): int(value) for labels, value in found.items() if value}


# ---- labels ----


@pytest.fixture
def labelled(start_server, repository):
    make_identity(repository, "m", versions=(3, 4, 5), more=rules(labels="stable=3, canary=4"))
    make_identity(repository, "plain", versions=(1, 2), more=ALL)
    return start_server(repository, flags=EXPLICIT)


def test_a_label_stands_wherever_a_version_stands_over_http(labelled, http_client):
    client = http_client(labelled)
    assert served(client, 1, "stable") == {"3": 1}
    assert served(client, 1, "canary") == {"4": 1}
    assert served(client, 1, "latest") == {"5": 1}
    assert served(client, 1) == {"5": 1}
    assert client.is_model_ready("m", "stable")
    assert client.get_model_metadata("m", "stable")["versions"] == ["3"]
    assert client.get_model_metadata("m")["versions"] == ["3", "4", "5"]
    assert client.get_model_config("m", "stable")["name"] == "m"
    rows = client.get_inference_statistics("m", "stable")["model_stats"]
    assert [(row["version"], row["inference_count"]) for row in rows] == [("3", 1)]
    body = json.dumps({"INPUT0": [1.0, 2.0]}).encode()
    answer = json.loads(labelled.ask("/v2/models/m/versions/canary/generate", body).body)
    assert answer["model_version"] == "4" and answer["OUTPUT0"] == [1.0, 2.0]
    stream = labelled.ask("/v2/models/m/versions/stable/generate_stream", body).text
    assert '"model_version":"3"' in stream


def test_a_label_stands_wherever_a_version_stands_over_grpc(labelled, grpc_client):
    client = grpc_client(labelled)
    assert served(client, 1, "stable") == {"3": 1}
    assert served(client, 1, "latest") == {"5": 1}
    assert client.is_model_ready("m", "canary")
    assert list(client.get_model_metadata("m", "canary").versions) == ["4"]
    assert client.get_model_config("m", "stable").config.name == "m"
    assert [row.version for row in client.get_inference_statistics("m", "stable").model_stats] == ["3"]
    answers = []
    done = threading.Event()

    def take(result, error):
        answers.append(error or result.get_response().model_version)
        done.set()

    client.start_stream(take)
    client.async_stream_infer("m", inputs(grpc), model_version="canary")
    assert done.wait(PATIENCE)
    client.stop_stream()
    assert answers == ["4"]


async def both_aio(server):
    async with http_aio.InferenceServerClient(server.url) as client:
        over_http = await client.infer("m", inputs(http_aio), model_version="stable")
    async with grpc_aio.InferenceServerClient(f"localhost:{server.grpc_port}") as client:
        over_grpc = await client.infer("m", inputs(grpc_aio), model_version="canary")
    return over_http.get_response()["model_version"], over_grpc.get_response().model_version


def test_asynchronous_clients_name_labels(labelled):
    assert asyncio.run(both_aio(labelled)) == ("3", "4")


def test_an_unknown_label_names_those_that_there_are(labelled, grpc_client):
    text = "Request for unknown model: 'm' has no version label 'stabel', expected one of: stable, canary, latest"
    for end in ("infer", "generate"):
        answer = labelled.ask(f"/v2/models/m/versions/stabel/{end}", b"{}")
        assert (answer.status, json.loads(answer.body)["error"]) == (404, text)
    for end in ("", "/config", "/stats"):
        assert labelled.ask(f"/v2/models/m/versions/stabel{end}").status == 404
    with pytest.raises(grpc.InferenceServerException, match=re.escape(text)) as refused:
        served(grpc_client(labelled), 1, "stabel")
    assert refused.value.status() == "StatusCode.NOT_FOUND"


def test_a_model_without_labels_answers_as_before(labelled, grpc_client):
    text = ("failed to get model version from specified version string 'stable' (details: stol), version should be an "
            "integral value > 0")
    answer = labelled.ask("/v2/models/plain/versions/stable/infer", b"{}")
    assert (answer.status, json.loads(answer.body)["error"]) == (404, "Not Found")
    with pytest.raises(grpc.InferenceServerException, match=re.escape(text)) as refused:
        served(grpc_client(labelled), 1, "stable", model="plain")
    assert refused.value.status() == "StatusCode.INVALID_ARGUMENT"
    assert served(grpc_client(labelled), 1, "latest", model="plain") == {"2": 1}
    assert labelled.ask("/v2/models/plain/versions/2x/infer", b"{}").status == 404
    assert routing(labelled, model="plain") == (200, {"labels": {}, "split": {}, "shadow": {}, "set_by_request": []})


def test_a_label_of_a_version_that_is_not_loaded(start_server, repository, http_client):
    make_identity(repository, "m", versions=(3,), more=rules(labels="stable=3,next=7"))
    server = start_server(repository, flags=EXPLICIT)
    assert "model 'm': labels: version 7 is not loaded" in server.log
    answer = server.ask("/v2/models/m/versions/next/infer", b"{}")
    assert answer.status == 503
    assert json.loads(answer.body)["error"] == "Request for unknown model: 'm' version 7 (label 'next') is not found"
    (repository / "m/7").mkdir()
    assert server.ask("/v2/repository/models/m/load", b"{}").status == 200
    assert served(http_client(server), 1, "next") == {"7": 1}


BAD_PARAMETERS = {
    "labels": ("3=4", "parameter 'version_labels': labels: '3=4': a label is a letter"),
    "split": ("3=0", "parameter 'version_split': split: all weights are 0"),
    "shadow": ("3=200%", "parameter 'version_shadow': shadow: '3=200%': per cent are from 0 to 100"),
}


@pytest.mark.parametrize("key", BAD_PARAMETERS)
def test_a_bad_parameter_fails_the_load(labelled, repository, key):
    value, text = BAD_PARAMETERS[key]
    make_identity(repository, "m", versions=(3, 4, 5), more=rules(**{key: value}))
    answer = labelled.ask("/v2/repository/models/m/load", b"{}")
    assert answer.status == 500  # as Triton's for whatever a configuration has wrong
    assert "failed to load 'm', failed to poll from model repository" in answer.text and text in answer.text
    assert labelled.ask("/v2/models/m/versions/stable/ready").status == 200  # what serves goes on as it was


# ---- the endpoint ----


def test_rules_change_at_run_time_and_go_back(labelled, http_client, repository):
    client = http_client(labelled)
    assert routing(labelled) == (200, {"labels": {"stable": 3, "canary": 4}, "split": {}, "shadow": {}, "set_by_request": []})
    assert changed(labelled, {"labels": {"stable": 4}})["labels"] == {"canary": 4, "stable": 4}
    assert served(client, 1, "stable") == {"4": 1}
    now = changed(labelled, {"labels": {"canary": None, "next": "5"}, "split": {"3": 1, "5": 3}, "shadow": {"4": 0.5}})
    assert now == {"labels": {"stable": 4, "next": 5}, "split": {"3": 1, "5": 3}, "shadow": {"4": 0.5},
                   "set_by_request": ["labels", "split", "shadow"]}
    assert labelled.ask("/v2/models/m/versions/canary/ready").status == 404
    make_identity(repository, "m", versions=(3, 4, 5), more=rules(labels="stable=5") + "\nresponse_cache {}")
    assert labelled.ask("/v2/repository/models/m/load", b"{}").status == 200
    assert routing(labelled)[1] == now  # a load does not undo it
    assert changed(labelled, {"labels": None})["labels"] == {"stable": 5}
    assert changed(labelled, {"split": {}})["split"] == {}
    assert changed(labelled, {"split": None, "shadow": None})["set_by_request"] == []
    assert served(client, 1, "stable") == {"5": 1}


def test_what_was_set_outlives_an_unload(labelled):
    changed(labelled, {"labels": {"stable": 4}})
    assert labelled.ask("/v2/repository/models/m/unload", b"{}").status == 200
    assert routing(labelled)[0] == 404
    assert labelled.ask("/v2/repository/models/m/load", b"{}").status == 200
    assert routing(labelled)[1]["labels"] == {"canary": 4, "stable": 4}


HOSTILE = [
    (b"{", "failed to parse the request JSON buffer"),
    (b"[1]", "expected an object"),
    (b'{"labels": 3}', "labels: expected an object"),
    (b'{"lables": {}}', "'lables' is unknown, expected labels, split or shadow"),
    (b'{"labels": {"4": 3}}', "a label is a letter"),
    (b'{"labels": {"x": 3, "x": 4}}', "duplicate"),
    (b'{"labels": {"x": 99}}', "labels: version 99 of model 'm' is not ready, expected one of: 3, 4, 5"),
    (b'{"split": {"3": 1, "99": 1}}', "split: version 99 of model 'm' is not ready"),
    (b'{"shadow": {"99": 1}}', "shadow: version 99 of model 'm' is not ready"),
    (b'{"split": {"3": -1}}', "a weight is a number"),
    (b'{"split": {"3": 1e9}}', "a weight is a number"),
    (b'{"shadow": {"4": 1e308}}', "per cent"),
    (b'{"labels": {"stable": 5}, "split": {"3": 0}}', "all weights are 0"),
    (b'{"labels": ' + b"[" * 100000, "nesting depth"),
    (b'{"split": {' + b",".join(b'"%d":1' % n for n in range(1, 1000)) + b"}}", "values"),
    (b"\xff\xfe{}", "failed to parse"),
    (b'{"labels": {"a\\u0000b": 3}}', "failed to parse"),
]


@pytest.mark.parametrize("body,text", HOSTILE, ids=range(len(HOSTILE)))
def test_a_bad_change_changes_nothing(labelled_once, body, text):
    before = routing(labelled_once)
    status, answer = routing(labelled_once, body)
    assert status == 400 and text in answer["error"], answer
    assert routing(labelled_once) == before


@pytest.fixture(scope="module")
def labelled_once(nereid, backends, tmp_path_factory):
    from conftest import Starter

    repository = tmp_path_factory.mktemp("labelled")
    make_identity(repository, "m", versions=(3, 4, 5), more=rules(labels="stable=3"))
    starter = Starter(nereid, backends, tmp_path_factory.mktemp("hostile"))
    yield starter(repository, flags=EXPLICIT)
    starter.stop_all()


def test_an_unknown_model_has_no_routing(labelled_once):
    status, answer = routing(labelled_once, {"labels": {}}, model="nobody")
    assert (status, answer["error"]) == (404, "Request for unknown model: 'nobody' is not found")


# ---- the split ----


def test_a_canary_gets_its_share_to_the_request(start_server, repository, http_client, grpc_client):
    make_identity(repository, "m", versions=(3, 4), more=rules(split="3=90,4=10"))
    server = start_server(repository, flags=EXPLICIT)
    assert served(http_client(server), 1000) == {"3": 900, "4": 100}
    assert served(grpc_client(server), 1000) == {"3": 900, "4": 100}
    assert served(http_client(server), 20, "4") == {"4": 20}  # who names a version has it
    assert metrics(server, "nereid_version_split_requests_total") == {'version="3"': 1800, 'version="4"': 200}
    assert metrics(server, "nereid_version_split_weight") == {'version="3"': 90, 'version="4"': 10}
    assert http_client(server).get_model_metadata("m")["versions"] == ["3", "4"]


def test_the_share_of_a_version_that_is_away_goes_to_the_others(start_server, repository, http_client):
    make_identity(repository, "m", versions=(3, 4, 5), more=rules(split="3=1,4=1,9=2"))
    server = start_server(repository, flags=EXPLICIT)
    client = http_client(server)
    assert served(client, 40) == {"3": 20, "4": 20}
    changed(server, {"split": {"3": 1, "4": 3}})
    assert served(client, 40) == {"3": 10, "4": 30}
    policy = json.dumps({"backend": "identity", "max_batch_size": 8, "version_policy": {"specific": {"versions": [3, 5]}},
                         "input": [{"name": "INPUT0", "data_type": "TYPE_FP32", "dims": [-1]}],
                         "output": [{"name": "OUTPUT0", "data_type": "TYPE_FP32", "dims": [-1]}]})
    body = json.dumps({"parameters": {"config": policy}}).encode()
    assert server.ask("/v2/repository/models/m/load", body).status == 200
    assert served(client, 40) == {"3": 40}
    changed(server, {"split": {"5": 1}})
    assert served(client, 4) == {"5": 4}


def test_sequences_stay_on_their_version(start_server, repository, http_client, grpc_client):
    make_identity(repository, "m", versions=(3, 4), more=rules(split="3=1,4=1"))
    server = start_server(repository, flags=EXPLICIT)
    homes = collections.Counter()
    for sequence in range(1, 41):
        over_http = served(http_client(server), 3, sequence_id=sequence)
        over_grpc = served(grpc_client(server), 3, sequence_id=sequence)
        assert len(over_http) == 1 and over_http == over_grpc
        homes.update(over_http.keys())
    assert set(homes) == {"3", "4"} and min(homes.values()) >= 5
    named = {name: served(http_client(server), 2, sequence_id=name) for name in ("a", "b", "c", "d", "e", "f", "g", "h")}
    assert all(len(found) == 1 for found in named.values())


def test_generate_is_made_for_the_version_that_serves_it(start_server, repository):
    """Versions whose inputs have other names: each body fits one of them."""
    body = """
    @staticmethod
    def auto_complete_config(config):
        config.add_input({"name": "IN" + os.path.basename(os.path.dirname(__file__)), "data_type": "TYPE_INT32", "dims": [-1]})
        config.add_output({"name": "OUT", "data_type": "TYPE_INT32", "dims": [-1]})
        return config

    def execute(self, requests):
        return [answer(value(request, request.inputs()[0].name())) for request in requests]
    """
    config = 'backend: "python"\n' + rules(split="3=1,4=1")
    make_python(repository, "m", body, config=config)
    for version in (3, 4):
        (repository / f"m/{version}").mkdir()
        (repository / f"m/{version}/model.py").write_bytes((repository / "m/1/model.py").read_bytes())
    (repository / "m/1/model.py").unlink()
    (repository / "m/1").rmdir()
    server = start_server(repository, flags=EXPLICIT)
    for version in (3, 4) * 2:  # the order of the split
        answer = server.ask("/v2/models/m/generate", json.dumps({f"IN{version}": [version]}).encode())
        found = json.loads(answer.body)
        assert (found.get("model_version"), found.get("OUT")) == (str(version), version), found


def keep_asking(server, version, stop, failures, counts):
    with http.InferenceServerClient(server.url) as client:
        while not stop.is_set():
            try:
                found = served(client, 1, version)
            except Exception as failure:  # noqa: BLE001 - whatever it is, it is counted
                failures.append(str(failure))
            else:
                counts.update(found)


def test_a_label_moves_under_load_and_fails_nobody(start_server, repository):
    make_identity(repository, "m", versions=(3, 4), more=rules(labels="stable=3", split="3=9,4=1"))
    server = start_server(repository, flags=EXPLICIT)
    stop, failures, counts = threading.Event(), [], collections.Counter()
    threads = [threading.Thread(target=keep_asking, args=(server, version, stop, failures, counts)) for version in ("stable", "", "stable")]
    for thread in threads:
        thread.start()
    for step in range(40):
        changed(server, {"labels": {"stable": 4 if step % 2 == 0 else 3}, "split": {"3": step % 3 + 1, "4": 1}})
        before = sum(counts.values())
        wait_for("requests", lambda: failures or sum(counts.values()) > before + 3)
    changed(server, {"labels": {"stable": 3}})  # rolled back: 4 goes, and nobody is sent there
    (repository / "m/4").rmdir()
    assert server.ask("/v2/repository/models/m/load", b"{}").status == 200
    before = sum(counts.values())
    wait_for("requests", lambda: failures or sum(counts.values()) > before + 20)
    stop.set()
    for thread in threads:
        thread.join(PATIENCE)
    assert failures == [] and set(counts) == {"3", "4"}


# ---- shadows ----


def test_copies_are_counted_and_dropped(start_server, repository, http_client):
    make_identity(repository, "m", versions=(3, 4), more=rules(split="3=1", shadow="4=25%"))
    server = start_server(repository, flags=EXPLICIT)
    client = http_client(server)
    assert served(client, 100) == {"3": 100}
    wait_for("copies", lambda: shadows(server).get("success") == 25)
    assert shadows(server) == {"success": 25}
    assert metrics(server, "nereid_version_shadow_ratio") == {'version="4"': 0.25}
    assert metrics(server, "nereid_version_shadow_duration_us")['version="4"'] > 0
    rows = {row["version"]: row["inference_count"] for row in client.get_inference_statistics("m")["model_stats"]}
    assert rows == {"3": 100, "4": 25}  # of the copies they are the version's own
    assert served(client, 10, "4") == {"4": 10}
    assert shadows(server) == {"success": 25}  # its own requests are not copied to it


COUNTED = """
def execute(self, requests):
    version = os.path.basename(os.path.dirname(__file__))
    if version == "4":
        %s
    return [answer(value(request)) for request in requests]
"""


def make_versions(repository, inside, more):
    """A Python model whose version 4 does what is `inside`."""
    make_python(repository, "m", COUNTED % inside, more=more)
    for version in (3, 4):
        (repository / f"m/{version}").mkdir()
        (repository / f"m/{version}/model.py").write_bytes((repository / "m/1/model.py").read_bytes())
    (repository / "m/1/model.py").unlink()
    (repository / "m/1").rmdir()


def echoes(client, count):
    """Each answer is the request's own data, from version 3."""
    for number in range(count):
        tensors = inputs(http, "IN", np.arange(number, number + 5, dtype=np.int32), "INT32")
        result = client.infer("m", tensors, outputs=[http.InferRequestedOutput("OUT", binary_data=number % 2 == 0)])
        assert result.get_response()["model_version"] == "3"
        assert list(result.as_numpy("OUT")) == list(range(number, number + 5))


@pytest.mark.parametrize("inside,outcome", [("raise ValueError('not today')", "failure"), ("os._exit(3)", "failure")],
                         ids=["fails", "crashes"])
def test_a_version_that_breaks_disturbs_nobody(start_server, repository, http_client, inside, outcome):
    make_versions(repository, inside, rules(split="3=1", shadow="4=50"))
    server = start_server(repository, flags=EXPLICIT)
    client = http_client(server)
    echoes(client, 20)
    wait_for("copies", lambda: sum(shadows(server).values()) == 10)
    assert set(shadows(server)) <= {outcome, "refused", "dropped_not_ready"} and shadows(server)[outcome] > 0
    row = client.get_inference_statistics("m", "3")["model_stats"][0]["inference_stats"]
    assert row["success"]["count"] == 20 and row["fail"]["count"] == 0


def test_a_version_that_hangs_disturbs_nobody(start_server, repository, http_client, tmp_path):
    gate = tmp_path / "go"
    make_versions(repository, f"\n        while not os.path.exists('{gate}'): time.sleep(0.01)", rules(split="3=1", shadow="4=100"))
    server = start_server(repository, flags=EXPLICIT)
    echoes(http_client(server), 100)  # the original is not held up: there is an end to the copies
    assert shadows(server) == {"dropped_busy": 36}
    gate.touch()
    wait_for("copies", lambda: shadows(server) == {"dropped_busy": 36, "success": 64})


def test_copies_that_hang_are_cancelled_by_an_unload(start_server, repository, http_client, tmp_path):
    gate = tmp_path / "go"
    make_versions(repository, f"\n        while not os.path.exists('{gate}'): time.sleep(0.01)", rules(split="3=1", shadow="4=100"))
    server = start_server(repository, flags=EXPLICIT)
    echoes(http_client(server), 20)
    assert server.ask("/v2/repository/models/m/unload", b"{}").status == 200
    # All but the one that the model is at are answered though it hangs.
    wait_for("cancelled copies", lambda: shadows(server).get("cancelled", 0) >= 19)
    gate.touch()
    wait_for("the end", lambda: "successfully unloaded 'm' version 4" in server.log)
    assert shadows(server) == {"cancelled": 20}


def test_copies_do_not_hold_up_the_end(start_server, repository, http_client, tmp_path):
    gate = tmp_path / "go"
    make_versions(repository, f"\n        while not os.path.exists('{gate}'): time.sleep(0.01)", rules(split="3=1", shadow="4=100"))
    server = start_server(repository, flags=[*EXPLICIT, f"--exit-timeout-secs={PATIENCE}"])
    echoes(http_client(server), 10)
    server.process.terminate()
    wait_for("the stop", lambda: "Waiting for in-flight requests" in server.log)
    gate.touch()
    assert server.process.wait(PATIENCE) == 0


def test_decoupled_models_have_shadows_too(start_server, repository):
    make_python(repository, "m", """
    def execute(self, requests):
        for request in requests:
            sender = request.get_response_sender()
            for number in range(3):
                sender.send(answer(value(request) + number))
            sender.send(flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)
    """, more="model_transaction_policy { decoupled: true }\n" + rules(split="1=1", shadow="2=100"))
    (repository / "m/2").mkdir()
    (repository / "m/2/model.py").write_bytes((repository / "m/1/model.py").read_bytes())
    server = start_server(repository, flags=EXPLICIT)
    for _ in range(5):
        stream = server.ask("/v2/models/m/generate_stream", b'{"IN": [7]}').text
        assert re.findall(r'"OUT":(\d).*?"model_version":"(\d)"', stream) == [("7", "1"), ("8", "1"), ("9", "1")]
    wait_for("copies", lambda: shadows(server) == {"success": 5})


def test_large_inputs_are_not_copied(start_server, repository, http_client):
    make_identity(repository, "m", versions=(3, 4), more=rules(split="3=1", shadow="4=100"))
    server = start_server(repository, flags=EXPLICIT)
    client = http_client(server)
    data = np.ones((1, 5 << 20), np.float32)  # 20 MiB
    result = client.infer("m", inputs(http, data=data), outputs=[http.InferRequestedOutput("OUTPUT0", binary_data=True)])
    assert np.array_equal(result.as_numpy("OUTPUT0"), data)
    assert shadows(server) == {"dropped_large": 1}


def test_label_metrics(labelled, http_client):
    served(http_client(labelled), 3, "stable")
    assert metrics(labelled, "nereid_version_label") == {'label="stable",version="3"': 1, 'label="canary",version="4"': 1}
    assert metrics(labelled, "nereid_version_label_requests_total") == {'label="stable"': 3, 'label="canary"': 0}
    assert 'model="plain"' not in "".join(re.findall("^nereid_version.*", labelled.ask("/metrics", port=labelled.metrics_port).text, re.M))


# ---- models that are loaded on demand ----


def test_a_label_loads_its_model(start_server, repository, http_client, grpc_client):
    for name in ("m", "over_grpc", "wrong"):
        make_identity(repository, name, versions=(3, 4), more=rules(labels="stable=3", split="4=1"))
    server = start_server(repository, flags=["--model-control-mode=ondemand"])
    assert served(http_client(server), 1, "stable") == {"3": 1}
    assert served(http_client(server), 1) == {"4": 1}
    assert served(grpc_client(server), 1, "stable", model="over_grpc") == {"3": 1}
    text = "Request for unknown model: 'wrong' has no version label of that name, expected one of: stable, latest"
    with pytest.raises(grpc.InferenceServerException, match=re.escape(text)):
        served(grpc_client(server), 1, "stabel", model="wrong")  # which labels it has is known once it is loaded
    assert metrics(server, "nereid_version_label_requests_total") == {'label="stable"': 1}
    assert metrics(server, "nereid_version_split_requests_total") == {'version="4"': 1}


def test_the_first_request_of_a_model_is_split_and_copied(start_server, repository, http_client):
    make_identity(repository, "m", versions=(3, 4), more=rules(split="3=1", shadow="4=100"))
    server = start_server(repository, flags=["--model-control-mode=ondemand"])
    assert served(http_client(server), 1) == {"3": 1}
    wait_for("the copy", lambda: shadows(server) == {"success": 1})
