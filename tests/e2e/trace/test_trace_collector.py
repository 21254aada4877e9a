# SPDX-License-Identifier: Apache-2.0
"""Tracing to the real OpenTelemetry collector: what it takes, hands on and refuses, and that it may come and go (docs/tracing.md)."""
import collections
import re
import signal

import numpy as np
import pytest
from certificates import make_certificates
from conftest import make_identity, wait_for
from otel_collector import RealCollector, needs_collector
from safety import on_threads
from test_trace import CUSTOM, dropped, infer
from test_trace_grpc import GRPC, client_of, tensor
from test_trace_opentelemetry import CLIENT, SPAN, TRACE, ask_with, check_tree
from tracing import HTTP, ON, TENSORS, attributes, by_name, event_names

pytestmark = [needs_collector, pytest.mark.slow]
TREE = {"InferRequest": None, "m": "InferRequest", "compute": "m", "CUSTOM_ACTIVITY": "m"}
OTHER_TRACE, OTHER_SPAN = "1" * 32, "2" * 16


@pytest.fixture
def collector(tmp_path):
    with RealCollector(tmp_path) as collector:
        yield collector


def by_trace(spans):
    traces = collections.defaultdict(list)
    for span in spans:
        traces[span.trace_id.hex()].append(span)
    return {id: by_name(spans) for id, spans in traces.items()}


def test_spans_of_both_protocols_pass_a_collector(start_server, repository, collector):
    make_identity(repository, "m", more=CUSTOM)
    resources = [f"opentelemetry,resource={pair}" for pair in ("service.name=mine", "service.version=7")]
    server = start_server(repository, flags=[*ON, *collector.flags(*resources)], variables={"OTEL_RESOURCE_ATTRIBUTES": "deployment=test"})
    data = np.array([[1]], np.float32)
    ask_with(server, CLIENT)
    infer(server, id="é1")
    with client_of(server) as client:
        client.infer("m", [tensor(data)], headers={"traceparent": f"00-{OTHER_TRACE}-{OTHER_SPAN}-01"})
        client.infer("m", [tensor(data)], request_id="é2")
    traces = by_trace(collector.await_spans(4 * len(TREE)))
    parents = {TRACE: SPAN, OTHER_TRACE: OTHER_SPAN}
    assert len(traces) == 4 and set(parents) < set(traces)
    ids, moments = [], []
    for id, spans in traces.items():
        check_tree(spans, TREE)
        assert spans["InferRequest"].parent_span_id.hex() == parents.get(id, "")
        assert {span.trace_state for span in spans.values()} == {"vendor=value" if id == TRACE else ""}
        assert event_names(spans["CUSTOM_ACTIVITY"]) == ["CUSTOM_ACTIVITY_START", "CUSTOM_ACTIVITY_END"]
        facts = attributes(spans["m"])
        assert (facts["triton.model_name"], facts["triton.model_version"]) == ("m", 1)
        ids.append(facts.get("triton.request_id", ""))
        moments.append(sorted(event_names(spans["InferRequest"])))
    assert sorted(ids) == ["", "", "é1", "é2"]
    assert sorted(moments) == sorted([sorted(HTTP), sorted(GRPC)] * 2)
    assert all(each == {"service.name": "mine", "service.version": "7", "deployment": "test"} for each in collector.resources)
    assert all(headers["User-Agent"].startswith("OpenTelemetry Collector/") for headers in collector.headers)


def test_tensors_of_any_bytes_pass_a_collector(start_server, repository, collector):
    make_identity(repository, "m", "TYPE_STRING")
    server = start_server(repository, flags=[*ON, TENSORS, *collector.flags()])
    with client_of(server) as client:
        client.infer("m", [tensor(np.array([[b"\xff\0\n", "ü".encode()]], np.object_), "BYTES")])
    events = [attributes(event) for event in by_name(collector.await_spans(3))["m"].events if event.attributes]
    assert [(event["triton.tensor.name"], event["triton.tensor.shape"], event["triton.tensor.data"]) for event in events] == [
        ("INPUT0", "1,2", '"??\n","ü"'), ("OUTPUT0", "1,2", '"??\n","ü"')]


def test_traces_of_many_clients_arrive_whole(start_server, repository, collector):
    make_identity(repository, "m")
    server = start_server(repository, flags=[*ON, *collector.flags(delay=100)])
    on_threads(8, lambda i: [infer(server, id=f"{i} {n}") for n in range(30)])
    traces = by_trace(collector.await_spans(8 * 30 * 3))
    for spans in traces.values():
        check_tree(spans, {"InferRequest": None, "m": "InferRequest", "compute": "m"})
    assert len({attributes(spans["m"])["triton.request_id"] for spans in traces.values()}) == 8 * 30
    assert dropped(server) == 0


def await_request(collector, id):
    wait_for(f"the trace of {id}", lambda: any(attributes(span).get("triton.request_id") == id for span in list(collector.spans)))


def losses(server, collector):
    return len(re.findall(f"cannot send traces to '{collector.url}': .*; they are dropped", server.log))


@pytest.mark.parametrize("end", [signal.SIGTERM, signal.SIGKILL])
def test_a_collector_may_be_replaced_between_requests(start_server, repository, collector, end):
    """The connection that nereid keeps is to the one before."""
    make_identity(repository, "m")
    server = start_server(repository, flags=[*ON, *collector.flags(delay=10)])
    for id in ("first", "second", "third"):
        infer(server, id=id)
        await_request(collector, id)
        collector.stop(end)
        collector.start()


def test_traces_are_lost_while_a_collector_is_away_and_only_then(start_server, repository, collector):
    make_identity(repository, "m")
    server = start_server(repository, flags=[*ON, *collector.flags(delay=10)])
    for round in range(2):
        infer(server, id=f"before {round}")
        await_request(collector, f"before {round}")
        assert dropped(server) == 2 * round
        collector.stop()  # it answers first what it has
        for i in range(2):
            infer(server)
            wait_for("the loss", lambda: dropped(server) == 2 * round + i + 1)
        assert losses(server, collector) == round + 1
        collector.start()
    infer(server, id="last")
    await_request(collector, "last")
    assert dropped(server) == 4 and len(collector.spans) == 9


def test_a_collector_that_hangs_costs_traces_and_nothing_else(start_server, repository, collector):
    make_identity(repository, "m")
    server = start_server(repository, flags=[*ON, *collector.flags(delay=10)])
    collector.process.send_signal(signal.SIGSTOP)
    infer(server)
    wait_for("the loss", lambda: dropped(server) == 1)
    assert losses(server, collector) == 1
    collector.process.send_signal(signal.SIGCONT)
    infer(server, id="later")
    await_request(collector, "later")
    assert dropped(server) == 1


# Who must be trusted, what the collector asks for, and whether traces arrive.
AUTHORITY = {"OTEL_EXPORTER_OTLP_CERTIFICATE": "ca.pem"}
STRANGER = {"OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE": "stranger.pem", "OTEL_EXPORTER_OTLP_CLIENT_KEY": "stranger.key"}
CLIENT_OF_TRACES = {"OTEL_EXPORTER_OTLP_TRACES_CLIENT_CERTIFICATE": "client.pem", "OTEL_EXPORTER_OTLP_TRACES_CLIENT_KEY": "client.key"}


@pytest.mark.parametrize("variables, mutual, arrives", [
    ({}, False, False),
    (AUTHORITY, False, True),
    (AUTHORITY | {"OTEL_EXPORTER_OTLP_TRACES_CERTIFICATE": "other_ca.pem"}, False, False),
    (AUTHORITY, True, False),
    (AUTHORITY | STRANGER, True, False),
    (AUTHORITY | STRANGER | CLIENT_OF_TRACES, True, True),
], ids=["system", "authority", "other_authority", "no_certificate", "stranger", "client"])
def test_a_collector_with_https(start_server, repository, tmp_path, variables, mutual, arrives):
    make_identity(repository, "m")
    directory = make_certificates(tmp_path)
    tls = {"cert_file": f"{directory}/server.pem", "key_file": f"{directory}/server.key"} | ({"client_ca_file": f"{directory}/ca.pem"} if mutual else {})
    with RealCollector(tmp_path, tls) as collector:
        variables = {name: str(directory / file) for name, file in variables.items()}
        server = start_server(repository, flags=[*ON, *collector.flags()], variables=variables)
        infer(server)
        if arrives:
            check_tree(by_name(collector.await_spans(3)), {"InferRequest": None, "m": "InferRequest", "compute": "m"})
        else:
            wait_for("the loss", lambda: dropped(server) == 1)
            assert losses(server, collector) == 1 and not collector.spans
        server.stop()
        assert losses(server, collector) == (not arrives), server.log
