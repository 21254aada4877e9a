# SPDX-License-Identifier: Apache-2.0
"""Tracing to JSON files, and the trace extension (docs/tracing.md)."""
import json
import os
import re
import resource

import numpy as np
import pytest
import tritonclient.http as triton
from conftest import PATIENCE, make_faulty, make_identity, wait_for
from tracing import CORE, HTTP, ON, TENSORS, read_traces, to_file
from tritonclient.utils import InferenceServerException

CUSTOM = 'parameters { key: "enable_custom_tracing" value { string_value: "true" } }'


def infer(server, model="m", data=(1.5, 2.0), id="", datatype="FP32", status=200, batched=True):
    tensor = {"name": "INPUT0", "datatype": datatype, "shape": [1] * batched + [len(data)], "data": list(data)}
    answer = server.ask(f"/v2/models/{model}/infer", json.dumps({"id": id, "inputs": [tensor]}).encode())
    assert answer.status == status, answer.text
    return answer


def dropped(server):
    text = server.ask("/metrics", port=server.metrics_port).text
    found = re.search(r"^nereid_trace_dropped_total (\S+)$", text, re.M)
    return found and float(found.group(1))


@pytest.fixture
def file(tmp_path):
    return tmp_path / "trace.json"


@pytest.fixture
def models(repository):
    make_identity(repository, "m")
    make_identity(repository, "other")
    return repository


def is_whole(file):
    return file.exists() and file.read_text().endswith("]")


# ---- the file ----


def test_a_trace_has_what_triton_s_summary_asks_for(start_server, models, file):
    server = start_server(models, flags=[*ON, to_file(file)])
    for id in ("", 'a "quoted" id'):
        infer(server, id=id)
    server.stop()
    traces = read_traces(file)
    assert len(traces) == 2
    assert [trace.facts.get("request_id") for trace in traces.values()] == [None, 'a "quoted" id']
    for trace in traces.values():
        assert (trace["model_name"], trace["model_version"]) == ("m", 1) and "parent_id" not in trace.facts
        assert sorted(trace.names) == sorted(CORE + HTTP)
        trace.in_order(*HTTP[:2], *CORE)
        trace.in_order("REQUEST_START", "INFER_RESPONSE_COMPLETE", "HTTP_SEND_START", "HTTP_SEND_END")
        assert trace.tensors == []


def test_tensors_are_texts_of_their_elements(start_server, repository, file):
    make_identity(repository, "m")
    make_identity(repository, "texts", "TYPE_STRING")
    make_identity(repository, "bytes", "TYPE_UINT8")
    make_identity(repository, "halves", "TYPE_FP16")
    server = start_server(repository, flags=[ON[0], TENSORS, to_file(file)])
    infer(server, data=[0.25, -3.0])
    infer(server, "texts", ['a"b', "é,\n"], datatype="BYTES")
    infer(server, "bytes", [0, 255], datatype="UINT8")
    client = triton.InferenceServerClient(server.url)
    halves = triton.InferInput("INPUT0", [1, 2], "FP16")
    halves.set_data_from_numpy(np.array([[1.5, -2]], np.float16))
    client.infer("halves", [halves])
    server.stop()
    shown = {}
    for trace in read_traces(file).values():
        assert trace.moments == {}  # only what the level says
        assert [activity for activity, _ in trace.tensors] == ["TENSOR_QUEUE_INPUT", "TENSOR_BACKEND_OUTPUT"]
        given, made = (tensor for _, tensor in trace.tensors)
        assert (given["name"], made["name"]) == ("INPUT0", "OUTPUT0")
        assert given | {"name": ""} == made | {"name": ""}
        shown[trace["model_name"]] = (given["dtype"], given["shape"], given["data"])
    assert shown == {
        "m": ("FP32", "1,2", "0.25,-3.0"),
        "texts": ("BYTES", "1,2", '"a"b","é,\n"'),
        "bytes": ("UINT8", "1,2", "0,255"),
        "halves": ("FP16", "1,2", "1.5,-2.0"),
    }


def test_backends_report_activities_of_their_own(start_server, repository, file):
    make_identity(repository, "m", more=CUSTOM)
    server = start_server(repository, flags=[*ON, to_file(file)])
    infer(server)
    server.stop()
    [trace] = read_traces(file).values()
    trace.in_order("COMPUTE_START", "CUSTOM_ACTIVITY_START", "CUSTOM_ACTIVITY_END", "CUSTOM_SINGLE_ACTIVITY", "COMPUTE_END")


def test_requests_that_fail_are_traced_as_far_as_they_came(start_server, models, file):
    make_faulty(models, "faulty", "execute_error")
    server = start_server(models, flags=[*ON, to_file(file)])
    infer(server, "faulty", [1], datatype="INT32", status=500, batched=False)
    answer = server.ask("/v2/models/m/infer", b"no JSON")
    assert answer.status == 400
    infer(server, data=[1], datatype="INT32", status=400)  # the core refuses it
    server.stop()
    failed, unread, refused = (read_traces(file)[id] for id in sorted(read_traces(file)))
    assert {"REQUEST_START", "QUEUE_START", "REQUEST_END", "HTTP_SEND_END"} <= set(failed.names)
    for trace in (unread, refused):
        assert trace.names == ["HTTP_RECV_START", "HTTP_RECV_END", "HTTP_SEND_START", "HTTP_SEND_END"] and trace.facts == {}


def test_generate_and_its_streams_are_traced(start_server, repository, file):
    make_identity(repository, "m", "TYPE_STRING")
    server = start_server(repository, flags=[*ON, to_file(file)])
    for way in ("generate", "generate_stream"):
        answer = server.ask(f"/v2/models/m/{way}", json.dumps({"INPUT0": ["x"]}).encode())
        assert answer.status == 200, answer.text
    server.stop()
    for trace in read_traces(file).values():
        assert sorted(trace.names) == sorted(CORE + HTTP)


# ---- which requests, and into which files ----


def test_every_nth_request_is_traced(start_server, models, file):
    server = start_server(models, flags=[*ON, "--trace-config=rate=3", to_file(file)])
    for i in range(7):
        infer(server, id=str(i))
    server.stop()
    assert [trace["request_id"] for trace in read_traces(file).values()] == ["2", "5"]


def test_with_a_log_frequency_each_file_has_that_many(start_server, models, file):
    server = start_server(models, flags=[*ON, "--trace-config=triton,log-frequency=2", to_file(file)])
    for i in range(5):
        infer(server, id=str(i))
        if i % 2:  # traces end after their replies, in any order: each file is awaited before the next one's requests
            wait_for("the file", (file.parent / f"trace.json.{i // 2}").exists)
    server.stop()
    ids = [sorted(trace["request_id"] for trace in read_traces(file.parent / f"trace.json.{i}").values()) for i in range(3)]
    assert ids == [["0", "1"], ["2", "3"], ["4"]] and not file.exists()


def test_a_count_ends_tracing_and_completes_a_file(start_server, models, file):
    server = start_server(models, flags=[*ON, "--trace-config=count=2", "--trace-config=rate=2", to_file(file)])
    for i in range(8):
        infer(server, id=str(i))
    assert json.loads(server.ask("/v2/trace/setting").text)["trace_count"] == "0"
    first = file.parent / "trace.json.0"
    wait_for("the file", first.exists)
    server.stop()
    assert [trace["request_id"] for trace in read_traces(first).values()] == ["1", "3"] and not file.exists()


def test_what_was_traced_is_written_when_settings_change(start_server, models, file):
    client = start_server(models, flags=[*ON, to_file(file)])
    infer(client, id="before")
    assert client.ask("/v2/trace/setting", b'{"trace_level": ["OFF"]}').status == 200
    wait_for("the trace", lambda: is_whole(file))
    infer(client, id="off")
    assert client.ask("/v2/trace/setting", b'{"trace_level": null}').status == 200
    infer(client, id="after")
    client.stop()
    assert [trace["request_id"] for trace in read_traces(file).values()] == ["before", "after"]


# ---- the extension ----


def test_settings_of_models_follow_the_server_s(start_server, models, file):
    """As L0_trace's trace_endpoint_test does."""
    server = start_server(models, flags=[*ON, to_file(file)])
    client = triton.InferenceServerClient(server.url)
    initial = {"trace_file": str(file), "trace_level": ["TIMESTAMPS"], "trace_rate": "1", "trace_count": "-1",
               "log_frequency": "0", "trace_mode": "triton"}
    assert client.get_trace_settings() == client.get_trace_settings("m") == initial
    own = initial | {"trace_rate": "12", "trace_level": ["TIMESTAMPS", "TENSORS"]}
    changes = {"trace_rate": "12", "trace_level": ["TENSORS", "TIMESTAMPS", "NO_SUCH_LEVEL"]}
    assert client.update_trace_settings("m", changes) == own
    assert client.get_trace_settings("other") == initial
    server_wide = initial | {"trace_count": "100", "log_frequency": "50", "trace_rate": "2"}
    assert client.update_trace_settings(settings={"trace_count": "100", "log_frequency": "50", "trace_rate": "2"}) == server_wide
    assert client.get_trace_settings("other") == server_wide
    assert client.get_trace_settings("m") == own | {"trace_count": "100", "log_frequency": "50"}
    # null: what is above
    assert client.update_trace_settings("m", {"trace_rate": None}) == own | {"trace_count": "100", "log_frequency": "50", "trace_rate": "2"}
    assert client.update_trace_settings("m", {"trace_level": None}) == server_wide
    cleared = {key: None for key in ("trace_count", "log_frequency", "trace_rate", "trace_level")}
    assert client.update_trace_settings(settings=cleared) == client.get_trace_settings("m") == initial


REFUSED = [
    ({"trace_rate": "x"}, 400, "Unable to parse 'trace_rate', got: x"),
    ({"trace_rate": "99999999999"}, 400, "Unable to parse 'trace_rate', value is out of range [ 0, 4294967295 ], got: 99999999999"),
    ({"trace_count": "-2"}, 400, "Unable to parse 'trace_count'. Expecting value >= -1, got:-2"),
    ({"log_frequency": ""}, 400, "Unable to parse 'log_frequency', got: "),
    ({"trace_level": ["OFF", "TENSORS"]}, 400, "Expect only one trace level 'OFF' is specified"),
    ({"trace_level": "OFF"}, 400, "attempt to access JSON non-array as array"),
    ({"trace_rate": 5}, 400, "attempt to access JSON non-string as string"),
    ({"trace_rate": "0"}, 400, "Attempting to set invalid trace setting :sample rate must be non-zero"),
    ({"trace_count": "0"}, 400, "Attempting to set invalid trace setting :"),
    ({"trace_file": "x", "trace_rate": "5"}, 501, "trace file location can not be updated through network protocol"),
]


def test_bad_settings_change_nothing(start_server, models, file):
    server = start_server(models, flags=[*ON, to_file(file)])
    before = server.ask("/v2/trace/setting").text
    for path in ("/v2/trace/setting", "/v2/models/m/trace/setting"):
        for settings, status, text in REFUSED:
            answer = server.ask(path, json.dumps(settings).encode())
            assert (answer.status, json.loads(answer.text)) == (status, {"error": text}), settings
        assert server.ask(path, b"[1]").text == before  # no object, no setting
        assert server.ask(path).text == before
    for path, status in (("/v2/models/nobody/trace/setting", 400), ("/v2/models/m/versions/1/trace/setting", 404)):
        assert server.ask(path).status == server.ask(path, b"{}").status == status
    assert server.ask("/v2/models/nobody/trace/setting").text == '{"error":"Request for unknown model : nobody"}'
    assert server.ask("/v2/trace/setting", b"", method="PUT").status == 405


def test_clients_switch_tracing_on_and_off(start_server, models, file):
    server = start_server(models, flags=[to_file(file)])
    client = triton.InferenceServerClient(server.url)
    assert client.get_trace_settings()["trace_level"] == ["OFF"] and dropped(server) is None
    infer(server)
    client.update_trace_settings("m", {"trace_level": ["TIMESTAMPS"], "trace_rate": "1"})
    infer(server, "other")
    infer(server, id="traced")
    client.update_trace_settings("m", {"trace_level": ["OFF"]})
    infer(server)
    server.stop()
    assert [trace.facts.get("request_id") for trace in read_traces(file).values()] == ["traced"]


def test_without_a_file_nothing_can_be_traced(start_server, models):
    server = start_server(models)
    client = triton.InferenceServerClient(server.url)
    with pytest.raises(InferenceServerException, match="invalid trace setting :trace file name is not given"):
        client.update_trace_settings(settings={"trace_level": ["TIMESTAMPS"]})


# ---- flags ----


def test_deprecated_flags_are_taken_and_said_to_be(start_server, models, file):
    flags = [f"--trace-file={file}", "--trace-level=TIMESTAMPS", "--trace-rate=9", "--trace-count=7",
             "--trace-log-frequency=5", "--trace-config=rate=2"]
    server = start_server(models, flags=flags)
    settings = json.loads(server.ask("/v2/trace/setting").text)
    assert settings == {"trace_file": str(file), "trace_level": ["TIMESTAMPS"], "trace_rate": "2", "trace_count": "7",
                        "log_frequency": "5", "trace_mode": "triton"}
    for name in ("file", "level", "rate", "count", "log-frequency"):
        assert f"Warning: '--trace-{name}' is deprecated, use '--trace-config" in server.log


@pytest.mark.parametrize("flag, text", [
    ("--trace-config=rate", "--trace-config: invalid value 'rate', expected <setting>=<value> or <mode>,<setting>=<value>"),
    ("--trace-config=rate=often", "--trace-config: rate: invalid value 'often', expected a whole number from 0 to 4294967295"),
    ("--trace-config=level=ALL", "--trace-config: level: invalid value 'ALL', expected OFF, TIMESTAMPS or TENSORS"),
    ("--trace-config=mode=zipkin", "--trace-config: invalid trace mode 'zipkin', expected 'triton' or 'opentelemetry'"),
    ("--trace-config=opentelemetry,bsp_max_export_batch_size=4294967296",
     "--trace-config: bsp_max_export_batch_size: invalid value '4294967296', expected a whole number from 1 to 4294967295"),
])
def test_flags_that_say_nothing_are_named(start_server, models, flag, text):
    server = start_server(models, flags=[flag], wait=False)
    assert server.process.wait(PATIENCE) == 1
    assert text in server.log


# ---- row 37: a disk without room ----


def test_a_disk_without_room_costs_traces_and_nothing_else(start_server, models, file):
    """The limit leaves room for a part of the next trace. It is beyond the log's size."""
    server = start_server(models, flags=[*ON, to_file(file)])
    for _ in range(20):
        infer(server, id="kept")
    assert server.ask("/v2/trace/setting", b'{"trace_rate": "1"}').status == 200  # writes what there is
    wait_for("the first traces", lambda: is_whole(file) and len(read_traces(file)) == 20)
    before = file.read_text()
    soft, hard = resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE)
    resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE, (len(before) + 100, hard))
    for i in range(3):
        infer(server, id=f"lost {i}")
        assert server.ask("/v2/trace/setting", b'{"trace_rate": "1"}').status == 200
        wait_for("the loss", lambda: dropped(server) == i + 1)
    assert file.read_text() == before  # still whole
    resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE, (soft, hard))
    infer(server, id="kept too")
    server.stop()
    assert [trace["request_id"] for trace in read_traces(file).values()] == ["kept"] * 20 + ["kept too"]
    assert len(re.findall(r"cannot write traces to '.*trace.json': File too large", server.log)) == 1


def test_a_directory_that_is_not_there_costs_traces_and_nothing_else(start_server, models, tmp_path):
    server = start_server(models, flags=[*ON, to_file(tmp_path / "nowhere/trace.json"), "--trace-config=triton,log-frequency=1"])
    for _ in range(3):
        infer(server)
    wait_for("the losses", lambda: dropped(server) == 3)
    assert server.log.count("cannot write traces to") == 1


def test_a_pipe_as_file_costs_traces_and_nothing_else(start_server, models, file):
    """Nobody reads it: neither the exporter nor the server's end waits for somebody who does."""
    os.mkfifo(file)
    server = start_server(models, flags=[*ON, to_file(file), "--trace-config=triton,log-frequency=0"])
    infer(server)
    assert server.ask("/v2/trace/setting", b'{"trace_rate": "1"}').status == 200  # writes what there is
    wait_for("the loss", lambda: dropped(server) == 1)
    server.stop()
    assert server.log.count("cannot write traces to") == 1
