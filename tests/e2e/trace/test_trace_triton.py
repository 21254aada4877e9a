# SPDX-License-Identifier: Apache-2.0
"""The same requests traced by nereid and by NVIDIA's server of 2.51: the same entries, spans and parents.

`nereid-in-triton` is NVIDIA's server; `triton` is NVIDIA's python backend in nereid, which continues traces by the same C ABI.
"""
import json

import numpy as np
import pytest
import tritonclient.http as triton
from conftest import make_identity
from python_models import make_python, tensor
from python_sides import python_backends, side, start_python  # noqa: F401 - fixtures
from test_trace import CUSTOM
from tracing import CORE, HTTP, ON, TENSORS, Collector, attributes, event_names, read_traces, to_file

CALLER = """
def execute(self, requests):
    responses = []
    for request in requests:
        inner = pb_utils.InferenceRequest(model_name="inner", requested_output_names=["OUT"], trace=request.trace(),
                                          inputs=[pb_utils.Tensor("IN", value(request))])
        reply = inner.exec()
        if reply.has_error():
            raise pb_utils.TritonModelException(reply.error().message())
        responses.append(answer(value(request)))
    return responses
"""


@pytest.fixture
def models(repository):
    make_identity(repository, "custom", "TYPE_INT32", more=CUSTOM)
    make_python(repository, "inner")
    make_python(repository, "caller", CALLER)
    return repository


def send_all(server):
    with triton.InferenceServerClient(server.url) as client:
        client.infer("custom", [tensor(np.array([[4, 5]], np.int32), name="INPUT0")], request_id="first")
        client.infer("caller", [tensor(np.array([6], np.int32))], request_id="second")


def test_files_have_the_same_entries(start_python, models, tmp_path):  # noqa: F811
    file = tmp_path / "trace.json"
    server = start_python(models, flags=["--load-model=*", *ON, TENSORS, to_file(file)])
    send_all(server)
    server.stop()
    traces = read_traces(file)
    named = {trace["model_name"]: trace for trace in traces.values()}
    assert set(named) == {"custom", "caller", "inner"} and len(traces) == 3
    assert {name: trace.facts.get("request_id") for name, trace in named.items()} == {"custom": "first", "caller": "second", "inner": None}
    assert {name: trace.facts.get("parent_id") for name, trace in named.items()} == {"custom": None, "caller": None, "inner": named["caller"]["id"]}
    assert sorted(named["custom"].names) == sorted(CORE + HTTP + ["CUSTOM_ACTIVITY_START", "CUSTOM_ACTIVITY_END", "CUSTOM_SINGLE_ACTIVITY"])
    assert sorted(named["caller"].names) == sorted(CORE + HTTP)
    assert sorted(named["inner"].names) == sorted(CORE)
    for name, data, shape in (("custom", "4,5", "1,2"), ("caller", "6", "1"), ("inner", "6", "1")):
        tensors = [(activity, t["data"], t["shape"], t["dtype"]) for activity, t in named[name].tensors]
        assert tensors == [(activity, data, shape, "INT32") for activity in ("TENSOR_QUEUE_INPUT", "TENSOR_BACKEND_OUTPUT")]
    for trace in named.values():
        trace.in_order(*CORE)


def test_collectors_get_the_same_spans(start_python, models):  # noqa: F811
    with Collector() as collector:
        server = start_python(models, flags=["--load-model=*", *ON, *collector.flags("opentelemetry,resource=a=b")])
        send_all(server)
        spans = collector.await_spans(9)
        settings = json.loads(server.ask("/v2/trace/setting").text)
        server.stop()
    assert settings == {
        "trace_level": ["TIMESTAMPS"], "trace_rate": "1", "trace_count": "-1", "trace_mode": "opentelemetry", "url": collector.url,
        "resource": "a=b", "bsp_schedule_delay": "50", "bsp_max_queue_size": "2048", "bsp_max_export_batch_size": "512",
    }
    resource = collector.resources[0]
    assert (resource["a"], resource["service.name"]) == ("b", "triton-inference-server")
    ids = {span.span_id: span for span in spans}
    tree = [(span.name, ids[span.parent_span_id].name if span.parent_span_id else "", sorted(event_names(span))) for span in spans]
    model = sorted([*CORE[:2], CORE[-1]])
    assert sorted(tree) == sorted([
        ("InferRequest", "", sorted(HTTP)), ("InferRequest", "", sorted(HTTP)),
        ("custom", "InferRequest", sorted([*model, "CUSTOM_SINGLE_ACTIVITY"])),
        ("CUSTOM_ACTIVITY", "custom", ["CUSTOM_ACTIVITY_END", "CUSTOM_ACTIVITY_START"]),
        ("caller", "InferRequest", model), ("inner", "caller", model),
        *(("compute", name, sorted(CORE[2:6])) for name in ("custom", "caller", "inner")),
    ])
    facts = {span.name: attributes(span) for span in spans}
    assert facts["inner"]["triton.trace_parent_id"] == facts["caller"]["triton.trace_id"]
    assert {key: facts["custom"][key] for key in facts["custom"] if key != "triton.trace_id"} == {
        "triton.model_name": "custom", "triton.model_version": 1, "triton.trace_parent_id": 0, "triton.request_id": "first",
    }
    assert all(span.kind == 2 for span in spans)
