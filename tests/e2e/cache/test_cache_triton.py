# SPDX-License-Identifier: Apache-2.0
"""The seam of caches, both ways: nereid and NVIDIA's server (2.51), each with nereid's local cache and NVIDIA's, and nereid's Redis cache in both.

After the same requests all four have given the same answers and counted the same, and a scrape of nereid has what Triton's has.
"""
import json
import re

import proc
import pytest
from caching import body, counts, make_cached, metric, redis, statistics
from conftest import BUILD, ROOT, WITHOUT_LEAK_CHECK, wait_for
from grpc_sides import NereidOverGrpc, SideStarter, TritonOverGrpc, stop
from python_sides import TRITON as WHEEL
from test_metrics_triton import descriptions, scrape, series

OURS_THERE = ROOT / "build/release/caches"  # Triton is not made for sanitizers' libraries
NVIDIAS = WHEEL / "pytriton/tritonserver/caches"


class NereidWithNvidias(NereidOverGrpc):
    """What NVIDIA's library leaves to its process's end looks like leaks once it is closed."""

    variables = {**NereidOverGrpc.variables, **WITHOUT_LEAK_CHECK}


PAIRS = {
    "nereid": (NereidOverGrpc(), BUILD / "caches"), "nereid with nvidia's": (NereidWithNvidias(), NVIDIAS),
    "triton": (TritonOverGrpc(), NVIDIAS), "triton with ours": (TritonOverGrpc(), OURS_THERE),
}


def start_pair(name, flags, directory, models):
    side, caches = PAIRS[name]
    (directory / "backends").mkdir()
    starter = SideStarter(side, side.backends(directory / "backends"), directory)
    return starter, starter(models, flags=["--load-model=*", f"--cache-directory={caches}", *flags])


@pytest.fixture(scope="module")
def servers(tmp_path_factory):
    models = tmp_path_factory.mktemp("models")
    make_cached(models, "m")
    make_cached(models, "unused")
    started = {}
    try:
        for name in PAIRS:
            flags = ["--cache-config=local,size=100000", "--metrics-config=summary_latencies=true"]
            started[name] = start_pair(name, flags, tmp_path_factory.mktemp("side"), models)
        yield {name: server for name, (_, server) in started.items()}
    finally:
        for starter, _ in started.values():
            stop(starter)


def outputs(server, values):
    answer = server.ask("/v2/models/m/infer", body(values))
    assert answer.status == 200, answer.text
    return json.loads(answer.body)["outputs"]


def libraries(server):
    return set(re.findall(r"/\S*libtritoncache_\S*\.so", proc.read(server.process.pid, "maps")))


def test_each_library_in_each_server(servers):
    """And larger answers than the cache holds, and more of them, are all right."""
    asked = [[1], [1], [2], [1], [2], [3, 4], list(range(30000)), [1], *([n] * 2000 for n in range(40)), [39] * 2000]
    for name, server in servers.items():
        assert libraries(server) == {str((PAIRS[name][1] / "local/libtritoncache_local.so").resolve())}
        for values in asked:
            output, = outputs(server, values)
            assert output["data"] == values and output["shape"] == [1, len(values)], name
    for name, server in servers.items():
        assert wait_for("the counts", lambda: sum(counts(server)) == len(asked)), name
        assert counts(server) == (5, len(asked) - 5), name
        assert "Failed to insert key" in server.log, name
    kept = ("success", "fail", "queue", "compute_input", "compute_infer", "compute_output", "cache_hit", "cache_miss")
    numbers = {}
    for name, server in servers.items():
        stats = statistics(server)
        numbers[name] = [stats["inference_count"], stats["execution_count"], *(stats["inference_stats"][part]["count"] for part in kept)]
    assert len(set(map(tuple, numbers.values()))) == 1, numbers


def test_a_scrape_has_what_tritons_has(servers):
    ours, theirs = scrape(servers["nereid"]), scrape(servers["triton"])
    assert descriptions(theirs) <= descriptions(ours)
    assert series(theirs).keys() <= series(ours).keys()
    of_cache = {name for name in series(theirs) if name.startswith("nv_cache") and "per_model" in name}
    assert len(of_cache) > 4
    for name in of_cache:
        if not re.search("duration|summary", name):
            assert series(theirs)[name] == series(ours)[name], name


@pytest.mark.parametrize("name", ["nereid", "triton with ours"])
def test_redis_in_both(tmp_path, name):
    make_cached(tmp_path / "models", "m")
    with redis(tmp_path) as store:
        starter, server = start_pair(name, store.flags("socket_timeout=60000"), tmp_path, tmp_path / "models")
        try:
            expected = outputs(server, [5, 6])

            def hit():
                before = counts(server)[0]
                assert outputs(server, [5, 6]) == expected
                return counts(server)[0] > before

            wait_for("a hit", hit)
            assert store.ask("DBSIZE") == b":1" and metric(server, "nereid_cache_redis_up") == 1
        finally:
            stop(starter)


DURATIONS = {
    "nv_inference_request_duration_us": "success", "nv_inference_queue_duration_us": "queue", "nv_inference_compute_input_duration_us": "compute_input",
    "nv_inference_compute_infer_duration_us": "compute_infer", "nv_inference_compute_output_duration_us": "compute_output",
    "nv_cache_hit_duration_per_model": "cache_hit", "nv_cache_miss_duration_per_model": "cache_miss",
}


@pytest.mark.parametrize("name", ["nereid", "triton"])
def test_durations_are_those_of_the_statistics_in_whole_microseconds(servers, name):
    """Triton adds whole ones: of each request less than one is lost, twice where a look-up and an insertion are added."""
    server = servers[name]
    for values in ([71], [72], [71], [71]):
        outputs(server, values)

    def agree():
        before, shown = statistics(server)["inference_stats"], {metric_name: metric(server, metric_name) for metric_name in DURATIONS}
        if statistics(server)["inference_stats"] != before:
            return None  # a request was counted meanwhile
        return all(shown[metric_name] == int(shown[metric_name]) and 0 <= before[part]["ns"] / 1000 - shown[metric_name] <= 2 * before[part]["count"]
                   for metric_name, part in DURATIONS.items()) and before["cache_hit"]["count"] >= 2

    wait_for("the same durations", agree)
    for shown in ("nv_cache_lookup_duration", "nv_cache_insertion_duration"):  # Triton's are those of its last look, every two seconds
        wait_for(shown, lambda: metric(server, shown) > 0)  # noqa: B023
