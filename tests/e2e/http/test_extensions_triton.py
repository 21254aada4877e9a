# SPDX-License-Identifier: Apache-2.0
"""Extensions whose answers depend on what came before: the same steps over HTTP to nereid and to Triton 2.51.

What differs on purpose is in docs/compatibility.md and is not asked here.
"""
import json
import re
import subprocess

import pytest
from conftest import ROOT, wait_for
from grpc_sides import TRITON
from prometheus_client.parser import text_string_to_metric_families
from streaming import make_streaming
from test_http_triton import answer, generate, infer, start_both

KEY = {"key": "value"}
ALL = {"trace_level": None, "trace_rate": None, "trace_count": None, "log_frequency": None}


@pytest.fixture(scope="module")
def both(tmp_path_factory):
    flags = ["--trace-config=level=OFF", "--trace-config=rate=9", f"--trace-config=triton,file={tmp_path_factory.mktemp('trace')}/file",
             "--http-header-forward-pattern=my_header.*|^x-ord$", "--http-restricted-api=model-repository,model-config:key=value"]
    with start_both(tmp_path_factory, *flags) as servers:
        yield servers


def assert_alike(both, *request):
    ours, theirs = (answer(server, *request) for server in both)
    assert ours == theirs, request
    return ours


def trace(model=None, **settings):
    path = "/v2/trace/setting" if model is None else f"/v2/models/{model}/trace/setting"
    return path, json.dumps(settings).encode() if settings else None


def test_trace_settings_change_and_are_cleared_alike(both):
    for request in [
        trace(), trace("t_int32"),
        trace(trace_level=["TIMESTAMPS"]), trace(trace_rate="5", trace_count="3"), trace("t_int32"),
        trace("t_int32", trace_rate="7"), trace(trace_rate="6"), trace("t_int32"), trace(),
        trace("t_int32", trace_rate=None), trace(trace_rate=None), trace("t_int32"),
        trace(trace_count="-2"), trace(trace_count="0"), trace(trace_rate="0"), trace(trace_rate=""), trace(trace_rate="99999999999"),
        trace(trace_rate="8", trace_count="x"), trace(),
        trace(trace_level=["TIMESTAMPS", "TENSORS"]), trace(trace_level=["OFF", "TENSORS"]), trace(trace_level=["x"]),
        trace(trace_level=["x", "TIMESTAMPS"]), trace(trace_level=["MAX"]), trace(trace_level=[]),
        trace(trace_mode="opentelemetry"), trace(trace_file=None), trace("none", trace_rate="2"),
        trace("t_int32", trace_level=["OFF"]), trace(), trace("t_int32", trace_level=None), trace("t_int32", trace_count="2"),
        trace(trace_level=["OFF"]), trace("t_int32"), trace("t_int32", trace_rate="3", log_frequency="4"),
        trace(**ALL), trace("t_int32"), trace("t_int32", **ALL), trace("t_int32"),
    ]:
        assert_alike(both, *request)


def test_log_settings_change_alike(both):
    for settings in [
        {"log_verbose_level": 3}, {"log_verbose_level": None}, {"log_verbose_level": 0}, {"log_info": False, "log_warning": False},
        {"log_info": True, "log_warning": True}, {"log_format": "ISO8601"}, {"log_format": "default"},
        {"log_file": None}, {"log_file": ""}, {"what": 1}, {},
    ]:
        assert_alike(both, "/v2/logging", json.dumps(settings).encode())
    assert_alike(both, "/v2/logging")


def test_unknown_members_of_settings_are_ignored_alike_and_told_in_our_log(both):
    for request in [
        ("/v2/logging", b'{"what":1,"no_such_setting":{"a":[1]}}'), trace(what=1), trace(trace_rate="9", no_such_setting=["x"]), trace("t_int32", what="x"),
        trace(trace_level=["no_such_level"]), ("/v2/repository/models/t_int32/load", b'{"parameter":{"config":"{}"}}', KEY),
    ]:
        assert assert_alike(both, *request)[0] == 200
    for name in ("what", "no_such_setting"):
        for settings in ("log", "trace"):
            assert re.search(rf"a request for {settings} settings names what cannot be set there, which is ignored: .*'{name}'", both[0].log)
    assert "'no_such_level' is no trace level and is ignored, expected OFF, TIMESTAMPS or TENSORS" in both[0].log
    assert "a request for a load (which reads 'parameters') names what cannot be set there, which is ignored: 'parameter'" in both[0].log


# A POST without and with keys, right and wrong; the path says the rest.
RESTRICTED = ("/v2/repository/index", "/v2/repository/models/none/unload", "/v2/repository/r/index", "/v2/models/t_int32/infer")


@pytest.mark.parametrize("headers", [{}, {"key": "x"}, KEY, {"KEY": "value"}, {"other": "value"}], ids=str)
def test_keys_open_alike(both, headers):
    for path in RESTRICTED:
        ours, theirs = (server.ask(path, infer()[1], headers=headers).status for server in both)
        assert ours == theirs, path
    for path in ("/v2/models/t_int32/config", "/v2/models/none/config", "/v2/repository/index"):
        assert_alike(both, path, None, headers)


@pytest.mark.parametrize("headers", [
    {"my_header_1": "v"}, {"My_Header_1": "v"}, {"a-my_header": "v"}, {"my_header_1": "v", "MY_HEADER_1": "w"}, {"X-Ord": "1"},
    {"X-Order": "1"},
], ids=str)
def test_headers_become_parameters_alike(both, headers):
    for request in (infer("tell", (1,), (1,)), infer("tell", (1,), (1,), parameters={"my_header_1": 7, "other": 1}), generate("tell", INPUT0=1)):
        assert_alike(both, *request, headers)


def without_times(value):
    """Times as whether there are any, and nothing of memory: Triton's backends report none."""
    if isinstance(value, dict):
        return {key: item > 0 if key in ("ns", "last_inference") else without_times(item)
                for key, item in value.items() if key != "memory_usage"}
    return [without_times(item) for item in value] if isinstance(value, list) else value


def statistics(both, model):
    """Those of both, once they are alike: a request is counted when its response is on its way."""
    def alike():
        ours, theirs = (without_times(answer(server, f"/v2/models/{model}/stats")[-1]) for server in both)
        return ours == theirs and ours

    return wait_for(f"{model}'s statistics alike", alike)["model_stats"][0]


def samples(server):
    """Of Triton's counters and gauges of models, but for durations."""
    text = server.ask("/metrics", port=server.metrics_port).text
    return {(s.name, *sorted(s.labels.items())): s.value for family in text_string_to_metric_families(text) for s in family.samples
            if family.name.startswith("nv_inference") and family.type in ("counter", "gauge") and "duration" not in s.name}


def test_statistics_and_metrics_count_a_known_load_alike(both):
    def rows(count):
        return infer("t_int16", [1, 2] * count, (count, 2), "INT16")

    load = [
        *[rows(1)] * 5, *[rows(2)] * 3, rows(8), ("/v2/models/t_int16/generate", b'{"INPUT0":5}'),
        ("/v2/models/t_int16/infer", b'{"inputs":'), infer("tell", (1,), (1,)), infer("tell", (1,), (1,), parameters={"code": "INTERNAL"}),
        *[generate("repeat", "generate_stream", INPUT0=values) for values in ([5, 6, 7], [5], [5, -5], [-5])],
        generate("repeat", INPUT0=[1, 2]), ("/v2/models/two_versions/versions/1/infer", rows(3)[1].replace(b"INT16", b"FP32")),
    ]
    before = [samples(server) for server in both]
    assert before[0].keys() == before[1].keys()
    for request in load:
        for server in both:
            server.ask(*request)

    for model in ("tell", "repeat", "two_versions", "two_versions/versions/1", "t_uint16"):
        statistics(both, model)
    assert statistics(both, "t_int16")["inference_stats"]["success"]["count"] == 10

    def gained():
        return [{key: value - old[key] for key, value in samples(server).items() if value != old[key]}
                for server, old in zip(both, before)]

    wait_for("metrics alike", lambda: gained()[0] == gained()[1])
    assert gained()[0]["nv_inference_count_total", ("model", "t_int16"), ("version", "1")] == 20


@pytest.fixture(scope="module")
def streaming_sides(tmp_path_factory):
    """Both with the streaming backend, which reports its responses; Triton's is compiled without sanitizers."""
    plain = tmp_path_factory.mktemp("streaming")
    source = ROOT / "tests/fakes/streaming_backend.c"
    subprocess.run(["cc", "-shared", "-fPIC", f"-I{ROOT / 'include'}", source, "-o", plain / "libtriton_streaming.so"], check=True)

    def backends_of(side, directory):
        backends = side.backends(directory)
        if side is TRITON:
            (backends / "streaming").unlink()
            (backends / "streaming").symlink_to(plain)
        return backends

    def make(directory):
        make_streaming(directory)
        make_streaming(directory, "single", decoupled=False)
        return directory

    with start_both(tmp_path_factory, make=make, backends_of=backends_of) as servers:
        yield servers


def test_response_statistics_are_alike(streaming_sides):
    courses = [("streaming", course) for course in (
        {"count": 3}, {"count": 0}, {"count": 3, "fail_at": 1}, {"count": 1, "final": "with"}, {"count": 2, "final": "flag"},
        {"count": 2, "early": True}, {"count": 2, "fail_at": 0})] + [("single", {"count": 1}), ("single", {"count": 1, "fail_at": 0})]
    for model, course in courses:
        ours, theirs = (answer(server, *generate(model, "generate_stream", INPUT="hi", **course)) for server in streaming_sides)
        assert ours[-1] == theirs[-1], course
    assert {index: row["success"]["count"] for index, row in statistics(streaming_sides, "streaming")["response_stats"].items()} == {
        "0": 5, "1": 4, "2": 2, "3": 0}
    assert statistics(streaming_sides, "single")["response_stats"]["0"]["fail"]["count"] == 1
