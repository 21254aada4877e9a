# SPDX-License-Identifier: Apache-2.0
"""Batches that hold a latency objective (docs/latency_objective.md), with real clients."""
import concurrent.futures
import json
import re
import threading

import grpc
import numpy as np
import pytest
from conftest import PATIENCE, make_identity, wait_for
from prometheus_client.parser import text_string_to_metric_families
from safety import tensor
from tritonclient.grpc import service_pb2, service_pb2_grpc

BATCHING = "dynamic_batching { }"


def objective(microseconds):
    return f'parameters {{ key: "latency_objective_us" value {{ string_value: "{microseconds}" }} }}'


def delay(milliseconds):
    return f'parameters {{ key: "execute_delay_ms" value {{ string_value: "{milliseconds}" }} }}'


def metric(server, name, **labels):
    text = server.ask("/metrics", port=server.metrics_port).text
    return sum(sample.value for family in text_string_to_metric_families(text) for sample in family.samples
               if sample.name == name and labels.items() <= sample.labels.items())


@pytest.mark.parametrize("value, expected", [
    ("0", "invalid value '0', expected a number of microseconds above 0"),
    ("soon", "invalid value 'soon', expected a number of microseconds above 0"),
    ("99999999999999999999", "expected a number of microseconds above 0"),
])
def test_bad_objectives_are_refused(start_server, repository, value, expected):
    make_identity(repository, "m", more=BATCHING + objective(value))
    server = start_server(repository, flags=["--exit-on-error=false"], ready=False)
    wait_for("the load's end", lambda: expected in server.log)
    assert "model 'm': parameter latency_objective_us: " in server.log


def test_an_objective_needs_dynamic_batching(start_server, repository):
    make_identity(repository, "m", more=objective(1000))
    server = start_server(repository, flags=["--exit-on-error=false"], ready=False)
    wait_for("the load's end", lambda: "latency_objective_us needs 'dynamic_batching'" in server.log)


def await_choice(server):
    """The server chooses after it has replied."""
    wait_for("a choice", lambda: metric(server, "nereid_latency_batch_rows", model="m") == 1)


def test_what_would_be_late_is_refused_early_and_told_when_to_come_again(start_server, repository):
    make_identity(repository, "m", more=BATCHING + delay(300) + objective(200000))  # cannot be held: one after another
    server = start_server(repository)
    path, body = "/v2/models/m/infer", tensor()
    assert server.ask(path, body).status == 200  # an idle model refuses nobody, and learns
    await_choice(server)

    def burst(pool):
        return [reply for reply in pool.map(lambda i: server.ask(path, body), range(8)) if reply.status != 200]

    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        refused = wait_for("a refusal", lambda: burst(pool))  # where the clients are slow, each finds the model idle
    assert {reply.status for reply in refused} == {503} and len(refused) < 8
    for reply in refused:
        assert int(reply.headers["Retry-After"]) >= 1
        assert re.search(r"model 'm' cannot answer within its latency_objective_us of 200000: \d+ rows wait, expected at most 1 with this request",
                         json.loads(reply.body)["error"])
    assert metric(server, "nereid_inference_refused_total", model="m", reason="latency") == len(refused)
    assert metric(server, "nereid_latency_batch_rows", model="m") == 1
    assert server.ask(path, body).status == 200  # and again when it is idle


def test_grpc_clients_are_told_too(start_server, repository):
    make_identity(repository, "m", more=BATCHING + delay(300) + objective(200000))
    server = start_server(repository)
    data = np.zeros((1, 1), np.float32)
    request = service_pb2.ModelInferRequest(model_name="m", inputs=[{"name": "INPUT0", "datatype": "FP32", "shape": [1, 1]}],
                                            raw_input_contents=[data.tobytes()])
    with grpc.insecure_channel(f"localhost:{server.grpc_port}") as channel:
        infer = service_pb2_grpc.GRPCInferenceServiceStub(channel).ModelInfer
        infer(request, timeout=PATIENCE)
        await_choice(server)

        def burst():
            calls = [infer.future(request, timeout=PATIENCE) for _ in range(8)]
            return [call for call in calls if call.exception() is not None]

        refused = wait_for("a refusal", burst)
        assert len(refused) < 8
        for call in refused:
            assert call.code() == grpc.StatusCode.UNAVAILABLE and "latency_objective_us" in call.details()
            assert 1 <= int(dict(call.trailing_metadata())["grpc-retry-pushback-ms"]) <= 300 * 8


def test_load_makes_batches_and_idleness_does_not(start_server, repository):
    make_identity(repository, "m", max_batch_size=16, more=BATCHING + delay(20) + objective(60_000_000))
    server = start_server(repository)
    over = threading.Event()

    def client(i):
        statuses = set()
        while not over.is_set():
            statuses.add(server.ask("/v2/models/m/infer", tensor()).status)
        return statuses

    def rows_per_execution():
        count, executions = (metric(server, f"nv_inference_{name}_total", model="m") for name in ("count", "exec_count"))
        return count / executions if executions > 4 else 0
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        clients = [pool.submit(client, i) for i in range(8)]
        try:
            wait_for("batches", lambda: rows_per_execution() > 2)
        finally:
            over.set()
        assert {status for done in clients for status in done.result()} == {200}
    assert metric(server, "nereid_inference_refused_total", model="m", reason="latency") == 0
