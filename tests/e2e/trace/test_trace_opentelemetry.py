# SPDX-License-Identifier: Apache-2.0
"""Tracing to an OpenTelemetry collector: spans, contexts from clients and to models (docs/tracing.md)."""
import json
import re
import time

import proc
import pytest
from conftest import make_identity, wait_for
from otel_collector import RealCollector, needs_collector
from python_models import ask, make_python
from test_trace import CUSTOM, dropped, infer
from tracing import CORE, HTTP, ON, TENSORS, Collector, attributes, by_name, event_names

TRACE, SPAN = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
CLIENT = {"traceparent": f"00-{TRACE}-{SPAN}-01", "tracestate": "vendor=value"}


@pytest.fixture
def collector():
    with Collector() as collector:
        yield collector


@pytest.fixture(params=["receiver", pytest.param("real", marks=needs_collector)])
def any_collector(request, tmp_path):
    with RealCollector(tmp_path) if request.param == "real" else Collector() as collector:
        yield collector


def ask_with(server, headers, model="m"):
    tensor = {"name": "INPUT0", "datatype": "FP32", "shape": [1, 1], "data": [1]}
    answer = server.ask(f"/v2/models/{model}/infer", json.dumps({"inputs": [tensor]}).encode(), headers=headers)
    assert answer.status == 200, answer.text


def check_tree(spans, parents):
    """Each span's parent, by their names; all in one trace, each within its parent's time."""
    for name, parent in parents.items():
        span = spans[name]
        assert span.trace_id == spans["InferRequest"].trace_id and len(span.trace_id) == 16 and len(span.span_id) == 8
        assert span.kind == 2 and span.start_time_unix_nano <= span.end_time_unix_nano, name
        if parent is None:
            continue
        assert span.parent_span_id == spans[parent].span_id, name
        if parent != "InferRequest":  # the core may give a request back after its reply is sent
            assert spans[parent].start_time_unix_nano <= span.start_time_unix_nano, name
    assert len({span.span_id for span in spans.values()}) == len(spans)


def test_a_request_is_a_tree_of_spans(start_server, repository, collector):
    make_identity(repository, "m", more=CUSTOM)
    server = start_server(repository, flags=[*ON, *collector.flags()])
    before = time.time_ns()
    infer(server, id="é1")
    spans = by_name(collector.await_spans(4))
    check_tree(spans, {"InferRequest": None, "m": "InferRequest", "compute": "m", "CUSTOM_ACTIVITY": "m"})
    assert spans["InferRequest"].parent_span_id == b""
    assert sorted(event_names(spans["InferRequest"])) == sorted(HTTP)
    assert event_names(spans["m"]) == ["REQUEST_START", "QUEUE_START", "CUSTOM_SINGLE_ACTIVITY", "REQUEST_END"]
    assert event_names(spans["compute"]) == CORE[2:6]
    assert event_names(spans["CUSTOM_ACTIVITY"]) == ["CUSTOM_ACTIVITY_START", "CUSTOM_ACTIVITY_END"]
    facts = attributes(spans["m"])
    assert facts.pop("triton.trace_id") > 0
    assert facts == {"triton.model_name": "m", "triton.model_version": 1, "triton.trace_parent_id": 0, "triton.request_id": "é1"}
    for span in spans.values():
        assert before <= span.start_time_unix_nano and span.end_time_unix_nano <= time.time_ns()
        for event in span.events:
            assert before <= event.time_unix_nano <= time.time_ns()
    assert collector.resources[0] == {"service.name": "triton-inference-server"}


def test_tensors_are_events(start_server, repository, collector):
    make_identity(repository, "m")
    server = start_server(repository, flags=[*ON, TENSORS, *collector.flags()])
    infer(server, data=[1.5])
    tensors = [event for event in by_name(collector.await_spans(3))["m"].events if event.attributes]
    assert [(event.name, attributes(event)) for event in tensors] == [
        (name, {"triton.tensor.name": tensor, "triton.tensor.dtype": "FP32", "triton.tensor.shape": "1,1", "triton.tensor.data": "1.5"})
        for name, tensor in (("TENSOR_QUEUE_INPUT", "INPUT0"), ("TENSOR_BACKEND_OUTPUT", "OUTPUT0"))
    ]


def test_resources_and_headers_come_from_flags_and_the_environment(start_server, repository, collector):
    make_identity(repository, "m")
    variables = {"OTEL_RESOURCE_ATTRIBUTES": "service.name=lost,deployment=test", "OTEL_EXPORTER_OTLP_HEADERS": "api-key=secret,x=y"}
    flags = collector.flags("opentelemetry,resource=service.name=mine", "opentelemetry,resource=service.version=7")
    server = start_server(repository, flags=[*ON, *flags], variables=variables)
    infer(server)
    collector.await_spans(3)
    assert collector.resources == [{"service.name": "mine", "service.version": "7", "deployment": "test"}]
    assert collector.headers[0]["api-key"] == "secret" and collector.headers[0]["x"] == "y"


def test_the_client_s_trace_is_continued(start_server, repository, collector):
    make_identity(repository, "m")
    server = start_server(repository, flags=["--trace-config=rate=0", ON[1], *collector.flags()])
    for headers in ({}, {"traceparent": "nonsense"}, {"traceparent": f"00-{'0' * 32}-{SPAN}-01"}, {"traceparent": CLIENT["traceparent"].upper()}):
        ask_with(server, headers)  # rate 0: only what a client traces
    ask_with(server, CLIENT)
    spans = by_name(collector.await_spans(3))
    check_tree(spans, {"InferRequest": None, "m": "InferRequest", "compute": "m"})
    assert spans["InferRequest"].trace_id.hex() == TRACE and spans["InferRequest"].parent_span_id.hex() == SPAN
    assert {span.trace_state for span in spans.values()} == {"vendor=value"}
    for state in ("a=\xff", "a=" + "x" * 511):  # no text for a span; longer than must be passed on
        collector.spans.clear()
        ask_with(server, CLIENT | {"tracestate": state})
        assert {span.trace_state for span in collector.await_spans(3)} == {""}


def test_each_request_without_a_client_s_trace_is_one_of_its_own(start_server, repository, collector):
    make_identity(repository, "m")
    server = start_server(repository, flags=[*ON, *collector.flags()])
    for _ in range(3):
        infer(server)
    assert len({span.trace_id for span in collector.await_spans(9)}) == 3


# With 1 as its input it continues the request's trace, with 0 it does not. It answers with the context, byte by byte.
CALLER = """
def execute(self, requests):
    responses = []
    for request in requests:
        more = {"trace": request.trace()} if value(request)[0] else {}
        inner = pb_utils.InferenceRequest(model_name="inner", requested_output_names=["OUT"],
                                          inputs=[pb_utils.Tensor("IN", value(request))], **more)
        reply = inner.exec()
        if reply.has_error():
            raise pb_utils.TritonModelException(reply.error().message())
        responses.append(answer(np.frombuffer(request.trace().get_context().encode(), np.uint8).astype(np.int32)))
    return responses
"""


def test_python_models_see_the_context_and_continue_it(start_server, repository, any_collector):
    make_python(repository, "caller", CALLER)
    make_python(repository, "inner")
    server = start_server(repository, flags=[*ON, *any_collector.flags()])
    status, reply = ask(server, "caller", [1])
    assert status == 200, reply
    spans = any_collector.await_spans(5)
    computes = [span for span in spans if span.name == "compute"]
    named = by_name(span for span in spans if span.name != "compute")
    check_tree(named, {"InferRequest": None, "caller": "InferRequest", "inner": "caller"})
    assert {span.parent_span_id for span in computes} == {named["caller"].span_id, named["inner"].span_id}
    facts = {name: attributes(named[name]) for name in ("caller", "inner")}
    assert facts["inner"]["triton.trace_parent_id"] == facts["caller"]["triton.trace_id"]
    caller = named["caller"]
    context = {"traceparent": f"00-{caller.trace_id.hex()}-{caller.span_id.hex()}-01"}
    assert json.loads(bytes(reply["outputs"][0]["data"])) == context
    # Without `trace` the inner request is nobody's child, and not traced.
    assert ask(server, "caller", [0])[0] == 200
    assert sorted(span.name for span in any_collector.await_spans(8)[5:]) == ["InferRequest", "caller", "compute"]


def test_a_batch_goes_out_when_it_is_full(start_server, repository, collector):
    make_identity(repository, "m")
    flags = collector.flags("opentelemetry,bsp_max_export_batch_size=6", delay=3600_000)
    server = start_server(repository, flags=[*ON, *flags])
    for _ in range(2):
        infer(server)
    collector.await_spans(6)
    assert collector.requests == 1
    infer(server)
    server.stop()  # what is left goes out
    assert len(collector.spans) == 9 and collector.requests == 2


def test_large_traces_go_in_requests_that_collectors_take(start_server, repository, any_collector):
    """What waits is two traces of 14 MiB and a small one, less than a batch of spans."""
    make_identity(repository, "m", "TYPE_STRING")
    server = start_server(repository, flags=[*ON, TENSORS, *any_collector.flags(delay=3600_000)])
    for text in ("a" * (7 << 20), "b" * (7 << 20), "small"):
        infer(server, data=[text], datatype="BYTES")
    server.stop()
    assert len(any_collector.spans) == 9 and any_collector.requests == 2, server.log


def test_a_full_queue_loses_traces_and_says_so(start_server, repository, collector):
    make_identity(repository, "m")
    flags = collector.flags("opentelemetry,bsp_max_queue_size=6", delay=3600_000)
    server = start_server(repository, flags=[*ON, *flags])
    for _ in range(5):
        infer(server)
    wait_for("the losses", lambda: dropped(server) == 3)
    server.stop()
    assert len(collector.spans) == 6


@pytest.mark.parametrize("status", [None, 503])
def test_a_collector_that_takes_nothing_costs_traces_and_nothing_else(start_server, repository, status):
    make_identity(repository, "m")
    with Collector(status or 200) as collector:
        url = collector.url if status else "http://127.0.0.1:1/v1/traces"
        flags = ["--trace-config=mode=opentelemetry", f"--trace-config=opentelemetry,url={url}", "--trace-config=opentelemetry,bsp_schedule_delay=10"]
        server = start_server(repository, flags=[*ON, *flags])
        for i in range(3):
            infer(server)
            wait_for("the loss", lambda: dropped(server) == i + 1)
        collector.status = 200
        if status:
            infer(server)
            collector.await_spans(3)
        server.stop()
    assert len(re.findall(f"cannot send traces to '{url}': .*; they are dropped", server.log)) == 1


def test_settings_show_the_collector(start_server, repository, collector):
    make_identity(repository, "m")
    server = start_server(repository, flags=[*ON, *collector.flags("opentelemetry,resource=a=b")], variables={"OTEL_BSP_MAX_QUEUE_SIZE": "77"})
    assert json.loads(server.ask("/v2/trace/setting").text) == {
        "trace_level": ["TIMESTAMPS"], "trace_rate": "1", "trace_count": "-1", "trace_mode": "opentelemetry", "url": collector.url,
        "resource": "a=b", "bsp_max_queue_size": "77", "bsp_schedule_delay": "50", "bsp_max_export_batch_size": "512",
    }


def maps(server):
    return proc.read(server.process.pid, "maps")


def test_libcurl_is_there_only_for_opentelemetry(start_server, repository, collector, tmp_path):
    make_identity(repository, "m")
    assert "libcurl" not in maps(start_server(repository))
    assert "libcurl" not in maps(start_server(repository, flags=[*ON, f"--trace-config=triton,file={tmp_path}/t"]))
    off = start_server(repository, flags=collector.flags())
    assert "libcurl" not in maps(off)
    assert off.ask("/v2/trace/setting", b'{"trace_level": ["TIMESTAMPS"], "trace_rate": "1"}').status == 200
    assert "libcurl" in maps(off)
    infer(off)
    collector.await_spans(3)
