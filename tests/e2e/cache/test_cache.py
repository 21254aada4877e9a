# SPDX-License-Identifier: Apache-2.0
"""The response cache with nereid's local library: what is a hit, what is counted, what leaves, and who is never in the way."""
import concurrent.futures
import json
import random

import numpy
import pytest
import tritonclient.grpc as grpc
import tritonclient.http as http
from caching import CACHED, body, counts, infer, local, make_cached, metric, statistics
from ensembles import chain, make_ensemble
from conftest import DEADLINE, PATIENCE, make_faulty, make_identity, wait_for


@pytest.fixture
def start(start_server, tmp_path):
    (tmp_path / "models").mkdir(exist_ok=True)

    def start(make=make_cached, size=1 << 20, flags=()):
        make(tmp_path / "models")
        return start_server(tmp_path / "models", flags=[*local(size), *flags])

    return start


def test_a_hit_is_the_answer_that_was_computed(start):
    server = start(flags=["--metrics-config=summary_latencies=true"])
    answers = [server.ask("/v2/models/m/infer", body([1, 2, 3], f', "id": "{n}"')) for n in range(4)]
    bodies = [json.loads(answer.body) for answer in answers]
    assert [answer.pop("id") for answer in bodies] == ["0", "1", "2", "3"]  # each its own
    assert bodies[0]["outputs"][0]["data"] == [1, 2, 3] and "param1" in bodies[0]["parameters"]
    assert all(answer == bodies[0] for answer in bodies)
    wait_for("the counts", lambda: counts(server) == (3, 1))


def test_a_hit_is_a_success_and_no_inference(start):
    server = start(flags=["--metrics-config=summary_latencies=true"])
    for _ in range(4):
        infer(server)
    wait_for("the counts", lambda: counts(server) == (3, 1))
    stats = statistics(server)
    assert (stats["inference_count"], stats["execution_count"]) == (1, 1)
    of = {name: value["count"] for name, value in stats["inference_stats"].items()}
    assert of == dict(success=4, fail=0, queue=4, compute_input=1, compute_infer=1, compute_output=1, cache_hit=3, cache_miss=1)
    assert all(stats["inference_stats"][name]["ns"] > 0 for name in ("cache_hit", "cache_miss"))
    shown = {name: metric(server, name) for name in (
        "nv_inference_request_success", "nv_inference_count", "nv_inference_exec_count", "nv_cache_num_hits_per_model",
        "nv_cache_num_misses_per_model", "nv_cache_hit_summary_per_model_count", "nv_cache_miss_summary_per_model_count",
        "nv_inference_queue_summary_us_count", "nv_inference_compute_infer_summary_us_count",
        "nv_cache_num_entries", "nv_cache_num_hits", "nv_cache_num_misses", "nv_cache_num_lookups", "nv_cache_num_evictions",
    )}
    assert list(shown.values()) == [4, 1, 1, 3, 1, 3, 1, 4, 1, 1, 3, 1, 4, 0]
    assert metric(server, "nv_cache_hit_duration_per_model") is not None and 0 < metric(server, "nv_cache_util") < 1


def test_what_the_model_may_see_is_in_the_key(start):
    server = start()
    tensor = {"name": "INPUT0", "datatype": "INT32", "shape": [1, 4], "data": [1, 2, 3, 4]}
    requests = [
        {"inputs": [tensor]},
        {"inputs": [tensor | {"shape": [2, 2]}]},
        {"inputs": [tensor | {"shape": [4, 1]}]},
        {"inputs": [tensor | {"data": [1, 2, 3, 5]}]},
        {"inputs": [tensor], "parameters": {"more": 1}},
        {"inputs": [tensor], "parameters": {"more": 2}},
        {"inputs": [tensor], "parameters": {"more": "1"}},
        {"inputs": [tensor], "parameters": {"more": True}},
        {"inputs": [tensor], "outputs": [{"name": "OUTPUT0"}]},
    ]
    for turn in range(2):
        for request in requests:
            answer = server.ask("/v2/models/m/infer", json.dumps(request).encode())
            assert answer.status == 200 and json.loads(answer.body)["outputs"][0]["shape"] == request["inputs"][0]["shape"]
        wait_for("the counts", lambda: counts(server) == (turn * len(requests), len(requests)))
    infer(server, [1, 2, 3, 4], more=', "id": "x", "parameters": {"priority": 0, "timeout": 5000000}')
    assert counts(server)[0] == len(requests) + 1  # what decides when it runs is not


def test_http_and_grpc_share_answers(start):
    server = start()
    values = numpy.arange(6, dtype=numpy.int32).reshape(2, 3)
    answers = []
    for library, url in ((http, server.url), (grpc, f"localhost:{server.grpc_port}")):
        options = {"network_timeout": DEADLINE} if library is http else {}
        with library.InferenceServerClient(url, **options) as client:
            tensor = library.InferInput("INPUT0", values.shape, "INT32").set_data_from_numpy(values)
            answers += [client.infer("m", [tensor]).as_numpy("OUTPUT0") for _ in range(2)]
    assert all((answer == values).all() for answer in answers)
    # tritonclient's gRPC asks for all outputs by none, its HTTP client too: one key
    wait_for("the counts", lambda: counts(server) == (3, 1))


def test_models_and_versions_do_not_share(start):
    def make(models):
        make_cached(models, "m", versions=(1, 2), more="version_policy { all {} }")
        make_cached(models, "n")

    server = start(make)
    for path in ("m/versions/1", "m/versions/2", "n/versions/1"):
        for _ in range(2):
            assert server.ask(f"/v2/models/{path}/infer", body([7])).status == 200
    assert metric(server, "nv_cache_num_misses_per_model") == 3 and metric(server, "nv_cache_num_hits_per_model") == 3


def load(server, name="m"):
    answer = server.ask(f"/v2/repository/models/{name}/load", b"")
    assert answer.status == 200, answer.text


def hits(server):
    before = metric(server, "nv_cache_num_hits")
    infer(server)
    return metric(server, "nv_cache_num_hits") - before


def test_other_content_never_answers_from_old_entries_and_the_same_does(start, tmp_path):
    directory = tmp_path / "models/m"
    server = start(flags=["--model-control-mode=explicit", "--load-model=*"])
    assert [hits(server), hits(server)] == [0, 1]
    server.ask("/v2/repository/models/m/unload", b"")
    wait_for("the end of the model", lambda: server.ask("/v2/models/m/ready").status != 200)
    load(server)
    assert hits(server) == 1  # the same files
    (directory / "1/weights").write_text("one")
    load(server)
    assert [hits(server), hits(server)] == [0, 1]
    (directory / "1/weights").write_text("two")
    load(server)
    assert [hits(server), hits(server)] == [0, 1]
    (directory / "1/__pycache__").mkdir()
    (directory / "1/__pycache__/x").write_text("no content")
    (directory / "7").mkdir()
    (directory / "7/weights").write_text("of another version, which the policy leaves out")
    config = directory / "config.pbtxt"
    config.write_text(config.read_text() + "version_policy { specific { versions: 1 } }")
    load(server)
    assert [hits(server), hits(server)] == [0, 1]  # another configuration
    (directory / "7/weights").write_text("changed")
    (directory / "1/__pycache__/x").write_text("changed")
    load(server)
    assert hits(server) == 1


def test_the_least_recently_used_leave(start):
    server = start(size=16 << 10)
    infer(server, [0] * 500)
    for n in range(1, 20):
        infer(server, [n] * 500)
        infer(server, [0] * 500)  # in use all the time
    assert counts(server) == (19, 20)
    assert metric(server, "nv_cache_num_evictions") > 10 and metric(server, "nv_cache_util") <= 1
    infer(server, [1] * 500)
    assert counts(server) == (19, 21)


def test_an_answer_larger_than_the_cache_is_served_and_told_once(start):
    server = start(size=2000)
    for _ in range(3):
        assert infer(server, range(1000)) == list(range(1000))
    assert counts(server) == (0, 3)
    assert server.log.count("Failed to insert key") == 1
    assert "is greater than total cache size: 2000" in server.log
    infer(server), infer(server)
    assert counts(server) == (1, 4)


FAULTS = ("good no_response response_deleted double_final not_final two_answers flags_only flags_after_final odd_flags output_after_final "
          "release_before_respond release_before_send late eight_threads foreign_release no_outputs unknown_output output_twice wrong_datatype "
          "unknown_datatype invalid_datatype lying_bytes error_response error_with_outputs").split()


def test_whatever_a_backend_does_the_cache_changes_no_answer(start):
    """And what is kept is good: an error is none, and neither are answers that come in pieces."""
    def make(models):
        for fault in FAULTS:
            make_faulty(models, f"u_{fault}", fault)
            config = make_faulty(models, f"c_{fault}", fault) / "config.pbtxt"
            config.write_text(config.read_text() + CACHED)

    def ask(model):
        answer = server.ask(f"/v2/models/{model}/infer", request)
        return answer.status, answer.text.replace(model, "model")

    server = start(make)
    request = b'{"inputs": [{"name": "INPUT0", "datatype": "INT32", "shape": [2], "data": [1, 2]}]}'
    kept = []
    for fault in FAULTS:
        computed = ask(f"u_{fault}")
        assert [ask(f"c_{fault}") for _ in range(3)] == [computed] * 3, fault
        found = wait_for("all counts", lambda: sum(counts(server, f"c_{fault}")) == 3 and counts(server, f"c_{fault}"))
        assert found in ((0, 3), (2, 1)), fault
        if found[0]:
            assert computed[0] == 200, fault
            kept.append(fault)
    assert "good" in kept and not {"not_final", "two_answers", "error_response", "flags_only"} & set(kept)


def test_an_ensemble_is_cached_as_a_whole_and_never_older_than_its_steps(start, tmp_path):
    models = tmp_path / "models"

    def make(models):
        make_identity(models, "step", "TYPE_INT32")
        make_ensemble(models, "e", chain("step", "step"), kind="TYPE_INT32", more=CACHED)

    server = start(make, flags=["--model-control-mode=explicit", "--load-model=*"])
    for _ in range(3):
        assert infer(server, [1, 2], "e") == [1, 2]
    wait_for("the counts", lambda: counts(server, "e") == (2, 1))
    assert statistics(server, "step")["inference_count"] == 2 and counts(server, "step") == (0, 0)
    (models / "step/1/weights").write_text("others")
    load(server, "step")
    assert infer(server, [1, 2], "e") == [1, 2] and infer(server, [1, 2], "e") == [1, 2]
    wait_for("the steps", lambda: statistics(server, "step")["inference_count"] == 2)  # those of the new one
    assert metric(server, "nv_cache_num_misses") == 2


def test_a_model_without_the_setting_is_not_cached(start):
    server = start(lambda models: make_identity(models, "m", "TYPE_INT32"))
    for _ in range(3):
        infer(server)
    assert counts(server) == (0, 0) and statistics(server)["execution_count"] == 3
    assert metric(server, "nv_cache_num_hits_per_model") is None


@pytest.mark.parametrize("more", ["", "dynamic_batching { preserve_ordering: true }"], ids=["plain", "in order"])
def test_everyone_gets_his_own_answer(start, more):
    server = start(lambda models: make_cached(models, more=more), size=60000)

    def client(seed):
        chosen = random.Random(seed)
        for _ in range(60):
            values = [chosen.randrange(40)] * chosen.choice((1, 10, 300))
            assert infer(server, values) == values

    with concurrent.futures.ThreadPoolExecutor(8) as threads:
        list(threads.map(client, range(8)))
    assert wait_for("all counts", lambda: sum(counts(server)) == 8 * 60)
    assert metric(server, "nv_cache_num_evictions") > 0 and counts(server)[0] > 0


def test_a_trace_of_a_hit_has_no_computing(start, tmp_path):
    file = tmp_path / "trace.json"
    server = start(flags=["--trace-config=level=TIMESTAMPS", "--trace-config=rate=1", f"--trace-config=triton,file={file}",
                          "--trace-config=count=-1"])
    infer(server), infer(server)
    server.stop()
    spans = {}
    for entry in json.loads(file.read_text()):
        spans.setdefault(entry["id"], []).extend(stamp["name"] for stamp in entry.get("timestamps", ()))
    miss, hit = (spans[number] for number in sorted(spans))  # a trace is written when its request is over, which may be later
    assert "COMPUTE_START" in miss and "COMPUTE_START" not in hit
    assert {"REQUEST_START", "QUEUE_START", "INFER_RESPONSE_COMPLETE", "REQUEST_END"} <= set(hit)


REFUSED = {
    "two caches": (["--cache-config=local,size=8192", "--cache-config=redis,key=value"],
                   "found multiple cache configurations, but only a single cache is currently supported"),
    "both ways": (["--response-cache-byte-size=12345", "--cache-config=local,size=67890"],
                  "Incompatible flags --response-cache-byte-size and --cache-config both provided. Please provide one or the other."),
    "no such cache": (["--cache-config=none,size=1"], "unable to find 'libtritoncache_none.so' for cache. Searched: "),
    "a path": (["--cache-config=../local,size=1"], "invalid cache name '../local'"),
    "no size": (["--cache-config=local,sizes=1"], "Failed to initialize LocalCache: config didn't contain a valid 'size' field."),
    "no number": (["--cache-config=local,size=much"], "Failed to initialize LocalCache: 'size' config must be"),
}


@pytest.mark.parametrize("flags, text", REFUSED.values(), ids=REFUSED)
def test_what_cannot_be_had_ends_the_start(start_server, tmp_path, flags, text):
    make_cached(tmp_path / "models")
    server = start_server(tmp_path / "models", flags=flags, wait=False)
    assert server.process.wait(PATIENCE) == 1
    assert text in server.log


def test_the_old_flag_and_one_given_twice(start_server, tmp_path):
    make_cached(tmp_path / "models")
    old = start_server(tmp_path / "models", flags=["--response-cache-byte-size=100000"])
    assert "give --cache-config=local,size=100000" in old.log
    infer(old), infer(old)
    assert counts(old) == (1, 1)
    twice = start_server(tmp_path / "models", flags=[*local(100000), *local(10)])
    assert "--cache-config: 'local,size' is given again: the first one counts" in twice.log
    infer(twice), infer(twice)
    assert counts(twice) == (1, 1)
