# SPDX-License-Identifier: Apache-2.0
"""How much memory models take: what loads add, what backends report, statistics of both protocols and the metric."""
import json
import os
import re
import signal

import numpy as np
import onnx
import proc
import tritonclient.grpc
import tritonclient.http
from conftest import make_faulty, wait_for
from onnx import TensorProto, helper, numpy_helper
from python_models import infer, make_python
from test_isolated import processes

MIB = 1 << 20


def make_weights(repository, name, mib):
    """Y = X + W, whose W has that many MiB."""
    count = mib * MIB // 4
    weights = numpy_helper.from_array(np.random.default_rng(mib).random(count, np.float32), "W")
    graph = helper.make_graph(
        [helper.make_node("Add", ["X", "W"], ["Y"])], name,
        [helper.make_tensor_value_info("X", TensorProto.FLOAT, (1,))],
        [helper.make_tensor_value_info("Y", TensorProto.FLOAT, (count,))], [weights],
    )
    (repository / name / "1").mkdir(parents=True)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8), repository / name / "1/model.onnx")


def rows(server, model):
    return json.loads(server.ask(f"/v2/models/{model}/stats").body)["model_stats"][0]["memory_usage"]


def memory(server, model):
    """As both protocols and the metric say, of a model whose backend measures nothing anew."""
    http = rows(server, model)
    with tritonclient.grpc.InferenceServerClient(f"localhost:{server.grpc_port}") as client:
        grpc = client.get_inference_statistics(model).model_stats[0].memory_usage
    assert [(row.type, row.id, row.byte_size) for row in grpc] == [(row["type"], row["id"], row["byte_size"]) for row in http]
    shown = re.search(rf'nereid_model_memory_bytes{{model="{model}",version="1"}} (\d+)', server.ask("/metrics", port=server.metrics_port).text)
    assert [row["byte_size"] for row in http if row["type"] == "CPU"] == [int(shown[1])]
    return int(shown[1])


def test_a_load_is_measured(start_server, repository):
    make_weights(repository, "small", 1)
    make_weights(repository, "large", 8)
    server = start_server(repository, flags=["--model-control-mode=explicit", "--load-model=small"])
    with tritonclient.http.InferenceServerClient(server.url) as client:
        for gone in (1, 2):  # what was freed before is used again, and counts again
            client.load_model("large")
            assert 8 * MIB <= memory(server, "large") < 24 * MIB
            client.unload_model("large")
            wait_for("the unload", lambda: server.log.count("successfully unloaded 'large'") == gone)
    assert 1 * MIB <= memory(server, "small") < 16 * MIB


GROWS = """
def initialize(self, args):
    self.kept = [b"1" * (32 << 20)]
def execute(self, requests):
    self.kept.append(b"2" * (32 << 20))
    return [answer(value(request)) for request in requests]
"""


def test_the_processes_of_python_models_count(start_server, repository):
    make_python(repository, "m", GROWS, count=2)
    server = start_server(repository)

    def now():
        [row] = rows(server, "m")
        return row["byte_size"]

    before = now()
    assert before > 64 * MIB  # two instances
    for _ in range(2):
        infer(server, "m")
    wait_for("growth", lambda: now() > before + 60 * MIB)


def test_the_process_of_an_isolated_model_counts_once(start_server, repository):
    make_weights(repository, "m", 64)
    (repository / "m/config.pbtxt").write_text(
        'backend: "onnxruntime"\ninstance_group { count: 3 }\nparameters { key: "isolate" value { string_value: "process" } }\n')
    server = start_server(repository)
    [row] = rows(server, "m")
    assert row["type"] == "CPU" and row["byte_size"] > 64 * MIB
    [process] = processes(server)
    pss = int(re.search(r"^Pss: +(\d+) kB", proc.read(process, "smaps_rollup"), re.MULTILINE)[1]) << 10
    assert row["byte_size"] < 2 * pss  # and not thrice
    os.kill(process, signal.SIGKILL)
    wait_for("the next process's memory", lambda: processes(server) not in ([], [process]) and rows(server, "m")[0]["byte_size"] > 64 * MIB)


def test_what_a_backend_reports_is_shown_by_place(start_server, repository):
    make_faulty(repository, "m", "reports_memory")
    server = start_server(repository)
    assert rows(server, "m") == [  # the model's 1000 and the instance's 500 MB of CPU 0, more than the load added
        {"type": "CPU", "id": 0, "byte_size": 500_001_000}, {"type": "CPU_PINNED", "id": 0, "byte_size": 7}, {"type": "GPU", "id": 1, "byte_size": 64}]
    assert re.search(r'nereid_model_memory_bytes{model="m",version="1"} 500001007\n', server.ask("/metrics", port=server.metrics_port).text)
