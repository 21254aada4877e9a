# SPDX-License-Identifier: Apache-2.0
"""Traces where things go wrong or all at once: backends that misbehave, clients that leave, settings that change meanwhile."""
import json
import socket

import numpy as np
import pytest
from client_memory import inference, place, region, register
from conftest import make_identity, wait_for
from python_models import ask as ask_python
from python_models import infer as infer_python
from python_models import make_python
from safety import Client, on_threads
from streaming import Reader
from test_safety_backend import FAULTS, make
from test_safety_backend import ask as ask_faulty
from test_trace import dropped, infer
from tracing import ON, TENSORS, Collector, read_traces, to_file


@pytest.mark.parametrize("mode", ["triton", "opentelemetry"])
def test_backends_that_misbehave_are_traced(start_server, repository, tmp_path, mode):
    """All that the faulty backend can do wrong with a request, once; each has its trace, and nothing is lost or left."""
    make(repository)
    file = tmp_path / "trace.json"
    with Collector() as collector:
        flags = [to_file(file)] if mode == "triton" else collector.flags()
        server = start_server(repository, flags=[*ON, TENSORS, *flags])
        with Client(server) as client:
            for fault in FAULTS:
                ask_faulty(client, fault)
        server.stop()
        if mode == "opentelemetry":
            assert sum(span.name == "InferRequest" for span in collector.spans) == len(FAULTS)
            return
    traces = read_traces(file).values()
    assert len(traces) == len(FAULTS)
    assert all("REQUEST_END" in trace.names for trace in traces if "REQUEST_START" in trace.names)


def test_all_is_recorded_while_settings_change(start_server, repository, tmp_path):
    """Eight clients, and one that changes settings all the time: each file is whole, and no trace is in two of them or cut."""
    file = tmp_path / "trace.json"
    for name in ("a", "b"):
        make_identity(repository, name)
    server = start_server(repository, flags=[*ON, TENSORS, to_file(file)])
    changes = [{"trace_rate": "2"}, {"log_frequency": "3"}, {"trace_level": ["TIMESTAMPS"]}, {"trace_level": ["OFF"]},
               {"trace_count": "9"}, dict.fromkeys(["trace_rate", "log_frequency", "trace_level", "trace_count"])]

    def work(i):
        if i < 8:
            for n in range(40):
                infer(server, "ab"[n % 2], id=f"{i}.{n}")
        for n in range(60 if i == 8 else 0):
            path = ("/v2/trace/setting", "/v2/models/a/trace/setting")[n // 6 % 2]
            assert server.ask(path, json.dumps(changes[n % 6]).encode()).status == 200

    on_threads(9, work)
    infer(server, id="last", model="b")
    server.stop()
    seen = [trace for path in tmp_path.glob("trace.json*") for trace in read_traces(path).items()]
    assert len({id for id, _ in seen}) == len(seen)
    assert "last" in [trace["request_id"] for _, trace in seen]
    for _, trace in seen:
        assert {"REQUEST_START", "REQUEST_END", "HTTP_SEND_END"} <= set(trace.names)


def test_clients_that_leave_are_traced_too(start_server, repository, tmp_path):
    file = tmp_path / "trace.json"
    make_identity(repository, "m", more='parameters { key: "execute_delay_ms" value { string_value: "300" } }')
    server = start_server(repository, flags=[*ON, to_file(file)])
    body = json.dumps({"inputs": [{"name": "INPUT0", "datatype": "FP32", "shape": [1, 1], "data": [1]}]}).encode()
    for _ in range(4):
        connection = socket.create_connection(("127.0.0.1", server.http_port))
        connection.sendall(b"POST /v2/models/m/infer HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
        connection.close()
    infer(server)
    server.stop()
    traces = [trace for trace in read_traces(file).values() if "REQUEST_START" in trace.names]
    assert traces and all("REQUEST_END" in trace.names for trace in traces)
    for trace in read_traces(file).values():  # what Triton's summary stumbles over
        assert ("HTTP_SEND_START" in trace.names) == ("HTTP_SEND_END" in trace.names)


def test_a_tensor_beyond_the_bounds_loses_its_trace(start_server, repository, tmp_path):
    """16 MiB of text are the most of one trace."""
    make_identity(repository, "m")
    server = start_server(repository, flags=[*ON, TENSORS, to_file(tmp_path / "trace.json")])
    client_data = np.full((1, 3 << 20), 0.12345678, np.float32)  # 10 characters each
    header = json.dumps({"inputs": [{"name": "INPUT0", "datatype": "FP32", "shape": list(client_data.shape),
                                     "parameters": {"binary_data_size": client_data.nbytes}}]}).encode()
    answer = server.ask("/v2/models/m/infer", header + client_data.tobytes(), headers={"Inference-Header-Content-Length": str(len(header))})
    assert answer.status == 200
    wait_for("the loss", lambda: dropped(server) == 1)
    infer(server, id="small")
    server.stop()
    assert [trace["request_id"] for trace in read_traces(tmp_path / "trace.json").values()] == ["small"]


# A decoupled model answers twice and asks another model each time, the second time when the file `go` is there. It refuses 0.
DECOUPLED = """
def initialize(self, args):
    self.threads, self.go = [], args["model_repository"] + "/go"

def execute(self, requests):
    for request in requests:
        if value(request).flat[0] == 0:
            raise pb_utils.TritonModelException("no")
        trace = request.trace()
        sender = request.get_response_sender()
        sender.send(answer(value(request)))
        thread = threading.Thread(target=self.rest, args=(sender, value(request).copy(), trace))
        self.threads.append(thread)
        self.ask(trace, value(request))
        thread.start()

def ask(self, trace, array):
    reply = pb_utils.InferenceRequest(model_name="inner", requested_output_names=["OUT"],
                                      inputs=[pb_utils.Tensor("IN", array)], trace=trace).exec()
    if reply.has_error():
        raise pb_utils.TritonModelException(reply.error().message())

def rest(self, sender, array, trace):
    while not os.path.exists(self.go):
        time.sleep(0.01)
    self.ask(trace, array)
    sender.send(answer(array))
    sender.send(flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)

def finalize(self):
    for thread in self.threads:
        thread.join()
"""


def test_decoupled_python_models_are_traced_to_their_last_response(start_server, repository, tmp_path):
    file = tmp_path / "trace.json"
    make_python(repository, "inner")
    directory = make_python(repository, "many", DECOUPLED, more="model_transaction_policy { decoupled: true }")
    server = start_server(repository, flags=[*ON, TENSORS, to_file(file)])
    with Reader(server, "many", IN=[7]) as reader:
        assert reader.head()[0] == 200 and reader.event()["OUT"] == 7
        refused = server.ask("/v2/models/many/generate_stream", b'{"IN": [0]}')
        assert refused.status == 500, refused.text  # so the execution before is over, and has released its request
        (directory / "go").touch()
        assert [event["OUT"] for event in reader.rest()] == [7]
    server.stop()
    traces = read_traces(file)
    outer = next(trace for trace in traces.values() if trace["model_name"] == "many")
    inner = [trace for trace in traces.values() if trace["model_name"] == "inner"]
    # Within `execute` the inner request is a child. Later the outer request has been released, and its trace has no more children.
    assert [trace["parent_id"] for trace in inner] == [outer["id"]]
    assert [activity for activity, _ in outer.tensors] == ["TENSOR_QUEUE_INPUT"] + ["TENSOR_BACKEND_OUTPUT"] * 2


ASYNC = """
async def execute(self, requests):
    import asyncio
    responses = []
    for request in requests:
        calls = [pb_utils.InferenceRequest(model_name="inner", requested_output_names=["OUT"], trace=request.trace(),
                                           inputs=[pb_utils.Tensor("IN", value(request))]).async_exec() for _ in range(4)]
        replies = await asyncio.gather(*calls)
        assert not any(reply.has_error() for reply in replies)
        responses.append(answer(value(request)))
    return responses
"""


def test_inferences_that_are_made_at_once_are_children_of_one(start_server, repository, tmp_path):
    file = tmp_path / "trace.json"
    make_python(repository, "inner")
    make_python(repository, "outer", ASYNC)
    server = start_server(repository, flags=[*ON, to_file(file)])
    on_threads(4, lambda i: infer_python(server, "outer", [i]))
    server.stop()
    traces = read_traces(file)
    outer = [trace["id"] for trace in traces.values() if trace["model_name"] == "outer"]
    inner = [trace["parent_id"] for trace in traces.values() if trace["model_name"] == "inner"]
    assert len(outer) == 4 and sorted(inner) == sorted(outer * 4)
    for trace in traces.values():
        if trace["model_name"] == "inner":
            parent = traces[trace["parent_id"]].moments
            assert parent["REQUEST_START"] <= trace.moments["REQUEST_START"] <= trace.moments["REQUEST_END"]


DIES = """
def execute(self, requests):
    for request in requests:
        call = pb_utils.InferenceRequest(model_name="inner", requested_output_names=["OUT"], trace=request.trace(),
                                         inputs=[pb_utils.Tensor("IN", value(request))])
        for _ in range(4):
            threading.Thread(target=call.exec, daemon=True).start()
        while not os.path.exists(%r):
            time.sleep(0.01)
        os.kill(os.getpid(), 9)
"""
BUSY = """
def execute(self, requests):
    open(%r, "w").close()
    while not os.path.exists(%r):
        time.sleep(0.01)
    return [answer(value(request)) for request in requests]
"""


def test_a_worker_that_dies_leaves_no_trace_open(start_server, repository, tmp_path):
    """It dies while its inferences are under way: one is executed, the others wait."""
    file = tmp_path / "trace.json"
    begun = str(repository / "inner/1/begun")
    make_python(repository, "inner", BUSY % (begun, str(repository / "go")))
    make_python(repository, "outer", DIES % begun)
    server = start_server(repository, flags=[*ON, to_file(file)])
    status, reply = ask_python(server, "outer")
    assert status == 500, reply
    (repository / "go").touch()
    server.stop()
    traces = read_traces(file).values()
    assert {trace["model_name"] for trace in traces} == {"inner", "outer"}
    assert all("REQUEST_END" in trace.names for trace in traces)


def test_tensors_in_a_client_s_memory_are_traced_even_if_it_is_taken_away(start_server, repository, tmp_path):
    """The trace is the first to read the input, before any backend: pages that are gone are zeroes to it, and no signal."""
    file = tmp_path / "trace.json"
    make_identity(repository, "m")
    server = start_server(repository, flags=[*ON, TENSORS, to_file(file), "--allow-client-shm=true"])
    body = inference("FP32", [1, 2], place("r", 8, 4096), place("r", 8))
    with region(8192) as made:
        made.memory[4096:4104] = np.array([1.5, 2], np.float32).tobytes()
        assert register(server, "r", made.key, made.size).status == 200
        assert server.ask("/v2/models/m/infer", body).status == 200
        made.resize(4096)
        assert server.ask("/v2/models/m/infer", body).status == 400
    server.stop()
    shown = [[(activity, tensor["data"]) for activity, tensor in trace.tensors] for trace in read_traces(file).values()]
    assert shown[0] == [("TENSOR_QUEUE_INPUT", "1.5,2.0"), ("TENSOR_BACKEND_OUTPUT", "1.5,2.0")]
    assert shown[1][0] == ("TENSOR_QUEUE_INPUT", "0.0,0.0")
