# SPDX-License-Identifier: Apache-2.0
"""Traces of requests over gRPC: as those over HTTP, with gRPC's own moments."""
import queue

import numpy as np
import pytest
import tritonclient.grpc as triton
from conftest import PATIENCE, make_identity
from python_models import make_python
from test_trace_opentelemetry import CLIENT, SPAN, TRACE, check_tree
from tracing import CORE, ON, TENSORS, Collector, by_name, event_names, read_traces, to_file
from tritonclient.utils import InferenceServerException

GRPC = ["GRPC_WAITREAD_START", "GRPC_WAITREAD_END", "INFER_RESPONSE_COMPLETE", "GRPC_SEND_START", "GRPC_SEND_END"]

TWICE = """
def execute(self, requests):
    for request in requests:
        sender = request.get_response_sender()
        if value(request)[0] == 3:
            sender.send(pb_utils.InferenceResponse(error=pb_utils.TritonError("no")))
        for _ in range(2 if value(request)[0] < 3 else 0):
            sender.send(answer(value(request)))
        sender.send(flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)
"""


def tensor(data, datatype="FP32", name="INPUT0"):
    return triton.InferInput(name, data.shape, datatype).set_data_from_numpy(data)


def client_of(server):
    return triton.InferenceServerClient(f"127.0.0.1:{server.grpc_port}")


def test_files_have_grpc_s_moments(start_server, repository, tmp_path):
    file = tmp_path / "trace.json"
    make_identity(repository, "m")
    server = start_server(repository, flags=[*ON, TENSORS, to_file(file)])
    with client_of(server) as client:
        client.infer("m", [tensor(np.array([[1.5, 2]], np.float32))], request_id="first")
        with pytest.raises(InferenceServerException):
            client.infer("m", [tensor(np.array([1], np.int32), "INT32")])
    server.stop()
    traces = read_traces(file)
    good, refused = (traces[id] for id in sorted(traces))
    assert (good["model_name"], good["request_id"]) == ("m", "first")
    assert sorted(good.names) == sorted(CORE + GRPC)
    good.in_order(*GRPC[:2], *CORE)
    good.in_order(*GRPC)
    assert [(activity, t["data"]) for activity, t in good.tensors] == [("TENSOR_QUEUE_INPUT", "1.5,2.0"), ("TENSOR_BACKEND_OUTPUT", "1.5,2.0")]
    assert ("GRPC_SEND_START" in refused.names) == ("GRPC_SEND_END" in refused.names)  # what Triton's summary stumbles over


def test_streams_are_traced(start_server, repository, tmp_path):
    file = tmp_path / "trace.json"
    make_python(repository, "twice", TWICE, more="model_transaction_policy { decoupled: true }")
    server = start_server(repository, flags=[*ON, TENSORS, to_file(file)])
    answers = queue.Queue()
    with client_of(server) as client:
        client.start_stream(lambda result, error: answers.put((result, error)))
        for i in range(4):
            client.async_stream_infer("twice", [tensor(np.array([i], np.int32), "INT32", "IN")], request_id=str(i))
        assert sorted(answers.get(timeout=PATIENCE)[1] is None for _ in range(7)) == [False] + [True] * 6
        client.stop_stream()
    server.stop()
    traces = sorted(read_traces(file).values(), key=lambda trace: trace["request_id"])
    assert [trace["request_id"] for trace in traces] == ["0", "1", "2", "3"]
    for trace in traces:  # a pair for each stream's request, one that fails as well
        assert (trace.names.count("GRPC_SEND_START"), trace.names.count("GRPC_SEND_END")) == (1, 1)
    for trace in traces[:3]:
        assert set(GRPC + CORE) <= set(trace.names)
        assert [activity for activity, _ in trace.tensors] == ["TENSOR_QUEUE_INPUT"] + ["TENSOR_BACKEND_OUTPUT"] * 2


def test_the_client_s_trace_is_continued(start_server, repository):
    make_identity(repository, "m")
    with Collector() as collector:
        server = start_server(repository, flags=["--trace-config=rate=0", ON[1], *collector.flags()])
        with client_of(server) as client:
            for headers in (None, CLIENT):
                client.infer("m", [tensor(np.array([[1]], np.float32))], headers=headers)
        spans = by_name(collector.await_spans(3))
        server.stop()
    check_tree(spans, {"InferRequest": None, "m": "InferRequest", "compute": "m"})
    assert spans["InferRequest"].trace_id.hex() == TRACE and spans["InferRequest"].parent_span_id.hex() == SPAN
    assert {span.trace_state for span in spans.values()} == {"vendor=value"}
    assert sorted(event_names(spans["InferRequest"])) == sorted(GRPC)
