# SPDX-License-Identifier: Apache-2.0
"""Headers that become parameters (row 21, 2026-47481), and the load report that comes back in one."""
import json

import grpc
import numpy as np
import pytest
import tritonclient.http as triton
from python_models import make_python
from tritonclient.grpc import service_pb2, service_pb2_grpc
from wire import connect, receive_reply, request

PARAMETERS = """
def execute(self, requests):
    return [answer(np.array([r.parameters().encode()], np.object_)) for r in requests]
"""
RESERVED = ["sequence_id", "sequence_start", "sequence_end", "priority", "timeout", "headers", "binary_data_output",
            "triton_enable_empty_final_response", "triton_"]
BODY = {"inputs": [{"name": "IN", "datatype": "BYTES", "shape": [1], "data": ["x"]}]}


def start(start_server, repository, pattern):
    make_python(repository, "parameters", PARAMETERS, kind="TYPE_STRING")
    return start_server(repository, flags=[f"--http-header-forward-pattern={pattern}"])


def infer(server, headers=(), route="infer", **members):
    """(status, the parameters that the model saw, or the error)"""
    body = json.dumps({**BODY, **members} if route == "infer" else {"IN": "x"}).encode()
    with connect(server) as connection:
        connection.sendall(request("POST", f"/v2/models/parameters/{route}", body, headers))
        reply = receive_reply(connection)
    answer = json.loads(reply.body)
    if reply.status != 200:
        return reply.status, answer["error"]
    return 200, json.loads(answer["outputs"][0]["data"][0] if route == "infer" else answer["OUT"])


def test_matching_headers_become_parameters_of_infer(start_server, repository):
    server = start(start_server, repository, "MY_HEADER.*")
    fields = ["my_header_1: one", "My_Header_2: two words", "x-my_header-3: part of a name", "other: no"]
    expected = {"my_header_1": "one", "My_Header_2": "two words", "x-my_header-3": "part of a name"}
    assert infer(server, fields) == (200, expected)
    assert infer(server, fields, parameters={"mine": 7}) == (200, {"mine": 7, **expected})
    assert infer(server, ["my_header: of the header"], parameters={"my_header": "of the body"}) == (200, {"my_header": "of the header"})
    assert infer(server, ["my_header: 1", "my_header: 2"]) == (200, {"my_header": "2"})
    assert infer(server) == (200, {})
    assert infer(server, fields, "generate") == (200, {})  # as in Triton
    for name in RESERVED:
        assert infer(server, [f"{name}: 1"]) == (200, {}), name  # which nobody asked for
    data = np.array([b"x"], np.object_)
    tensor = triton.InferInput("IN", data.shape, "BYTES").set_data_from_numpy(data)
    with triton.InferenceServerClient(server.url) as client:
        answer = client.infer("parameters", [tensor], headers={"my_header_1": "of a real client"}, parameters={"p": True})
    assert json.loads(answer.as_numpy("OUT")[0]) == {"my_header_1": "of a real client", "p": True}


def test_case_matters_where_the_pattern_says_so(start_server, repository):
    server = start(start_server, repository, "(?-i)MY_HEADER.*")
    assert infer(server, ["my_header: no", "MY_HEADER: yes"]) == (200, {"MY_HEADER": "yes"})


def test_no_header_steers_the_server(start_server, repository):
    """In any case, by a header or by a parameter."""
    server = start(start_server, repository, ".*")
    status, seen = infer(server, ["mine: 1"])
    assert status == 200 and {"Host", "Content-Length", "mine"} <= set(seen)
    for name in [*RESERVED, "Priority", "TIMEOUT", "Sequence_Id", "TRITON_x"]:
        refused = infer(server, [f"{name}: 1"])
        assert refused == (400, f"Header '{name}' is reserved for Triton usage and cannot be forwarded."), name
    for name in RESERVED[-2:]:
        assert infer(server, parameters={name: 1})[0] == 400, name


def test_large_bodies_are_forwarded_from_a_worker_thread(start_server, repository):
    server = start(start_server, repository, "^mine$")
    inputs = [{"name": "IN", "datatype": "BYTES", "shape": [40_000], "data": ["0123456789"] * 40_000}]
    assert infer(server, ["mine: here"], inputs=inputs) == (200, {"mine": "here"})
    assert infer(server, ["mine: here", "priority: 1"], inputs=inputs) == (200, {"mine": "here"})


def test_an_endless_search_is_cut(start_server, repository):
    server = start(start_server, repository, "^(a+)+$")
    assert infer(server, ["aaaa: 1"]) == (200, {"aaaa": "1"})
    for name in ("a" * 200 + "!", "a" * 5000):
        status, text = infer(server, [f"{name}: 1"])
        assert status == 400 and "takes too long" in text, text


@pytest.mark.parametrize("flag", ["http-header-forward-pattern", "grpc-header-forward-pattern"])
def test_what_is_no_pattern_is_named_and_forwards_nothing(start_server, repository, flag):
    server = start_server(repository, flags=[f"--{flag}=(x"])
    assert f"--{flag}: invalid pattern '(x': " in server.log and "no header is forwarded" in server.log


# ---- load reports

BLOCKS = """
def initialize(self, args):
    self.family = pb_utils.MetricFamily(name="nv_trt_llm_kv_cache_block_metrics", description="blocks", kind=pb_utils.MetricFamily.GAUGE)
    self.metrics = []
    for kind, blocks in (("used", 12), ("max", 48), ("tokens_per", 64), ("free", 36)):
        metric = self.family.Metric(labels={"kv_cache_block_type": kind, "model": "llm", "version": "1"})
        metric.set(blocks)
        self.metrics.append(metric)

def execute(self, requests):
    return [answer(value(request)) for request in requests]
"""
REPORTS = {
    "text": "TEXT named_metrics.kv_cache_utilization=0.250000, named_metrics.max_token_capacity=3072",
    "json": 'JSON {"named_metrics":{"kv_cache_utilization":0.25,"max_token_capacity":3072}}',
}


def load_report(server, route, wanted):
    headers = {"endpoint-load-metrics-format": wanted} if wanted is not None else {}
    answer = server.ask(f"/v2/models/llm/{route}", b'{"IN": 7}', headers=headers)
    assert answer.status == 200, answer.text
    return answer.headers["endpoint-load-metrics"]


@pytest.mark.parametrize("route", ["generate", "generate_stream"])
def test_a_load_report_comes_when_it_is_asked_for(start_server, repository, route):
    make_python(repository, "llm", BLOCKS)
    server = start_server(repository)
    for wanted, expected in REPORTS.items():
        assert load_report(server, route, wanted) == expected
    for wanted in (None, "xml", ""):
        assert load_report(server, route, wanted) is None


def test_there_is_no_report_without_its_metrics(start_server, repository):
    make_python(repository, "llm")
    for flags in ([], ["--allow-metrics=false"]):
        server = start_server(repository, flags=flags)
        assert load_report(server, "generate", "text") is None


def test_a_load_report_comes_over_grpc_too(start_server, repository):
    """As trailing metadata of ModelInfer; Triton has it over HTTP only."""
    make_python(repository, "llm", BLOCKS)
    server = start_server(repository)
    message = service_pb2.ModelInferRequest(model_name="llm")
    tensor = message.inputs.add(name="IN", datatype="INT32", shape=[1])
    tensor.contents.int_contents.append(7)
    with grpc.insecure_channel(f"127.0.0.1:{server.grpc_port}") as channel:
        stub = service_pb2_grpc.GRPCInferenceServiceStub(channel)
        for wanted, expected in {**REPORTS, "xml": None}.items():
            _, call = stub.ModelInfer.with_call(message, metadata=[("endpoint-load-metrics-format", wanted)])
            assert dict(call.trailing_metadata()).get("endpoint-load-metrics") == expected
