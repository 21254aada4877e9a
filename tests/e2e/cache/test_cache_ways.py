# SPDX-License-Identifier: Apache-2.0
"""Answers of the response cache in all ways in which a client may ask, and beside what computes them, while models are loaded anew."""
import json
import threading

import numpy
import pytest
import tritonclient.grpc as grpc
import tritonclient.http as http
from caching import CACHED, body, counts, infer, local, make_cached, statistics
from client_memory import place, region, register
from conftest import PATIENCE, Starter, make_identity, wait_for
from ensembles import chain, make_ensemble
from grpc_sides import Answers
from python_models import make_python

ARRAY = numpy.array([[3, 1, 4, 1, 5]], numpy.int32)
LABELS = """
backend: "identity" max_batch_size: 8 %s
input { name: "INPUT0" data_type: TYPE_INT32 dims: [ 5 ] }
output { name: "OUTPUT0" data_type: TYPE_INT32 dims: [ 5 ] label_filename: "labels.txt" }
"""
CALLS = """
def execute(self, requests):
    answers = []
    for request in requests:
        given = pb_utils.Tensor("INPUT0", value(request).reshape(1, -1))
        called = pb_utils.InferenceRequest(model_name="m", requested_output_names=["OUTPUT0"], inputs=[given]).exec()
        answers.append(answer(pb_utils.get_output_tensor_by_name(called, "OUTPUT0").as_numpy().reshape(-1)))
    return answers
"""


@pytest.fixture(scope="module")
def server(nereid, backends, tmp_path_factory):
    """`m` is cached, `u` the same without; each way of asking is a function of the model's name."""
    models = tmp_path_factory.mktemp("models")
    for name, more in (("m", CACHED), ("u", "")):
        (models / name / "1").mkdir(parents=True)
        (models / name / "config.pbtxt").write_text(LABELS % more)
        (models / name / "labels.txt").write_text("zero\none\ntwo\nthree\nfour\n")
    starter = Starter(nereid, backends, tmp_path_factory.mktemp("server"))
    yield starter(models, flags=[*local(), "--allow-client-shm=true"])
    starter.stop_all()


def http_infer(server, model, **options):
    with http.InferenceServerClient(server.url) as client:
        given = http.InferInput("INPUT0", ARRAY.shape, "INT32").set_data_from_numpy(ARRAY, binary_data=options.pop("binary", True))
        answer = client.infer(model, [given], outputs=[http.InferRequestedOutput("OUTPUT0", **options)])
        return answer.as_numpy("OUTPUT0").tolist()


def all_outputs(server, model):
    answer = json.loads(server.ask(f"/v2/models/{model}/infer", body(ARRAY[0].tolist())).body)
    return answer["outputs"], answer["parameters"]


def shared(server, model):
    with region() as made:
        try:
            assert register(server, "r", made.key, made.size).status == 200
            asked = {"inputs": [{"name": "INPUT0", "datatype": "INT32", "shape": [1, 5], "data": ARRAY[0].tolist()}],
                     "outputs": [{"name": "OUTPUT0", "parameters": place("r", 20, 8)}]}
            answer = server.ask(f"/v2/models/{model}/infer", json.dumps(asked).encode())
            assert answer.status == 200, answer.text
            return made.memory[:32]
        finally:
            assert server.ask("/v2/systemsharedmemory/region/r/unregister", b"").status == 200


def generate(server, model):
    answer = server.ask(f"/v2/models/{model}/generate", json.dumps({"INPUT0": ARRAY[0].tolist()}).encode())
    assert answer.status == 200, answer.text
    return json.loads(answer.body)["OUTPUT0"]


def grpc_infer(server, model, **options):
    with grpc.InferenceServerClient(f"127.0.0.1:{server.grpc_port}") as client:
        given = grpc.InferInput("INPUT0", ARRAY.shape, "INT32").set_data_from_numpy(ARRAY)
        answer = client.infer(model, [given], outputs=[grpc.InferRequestedOutput("OUTPUT0", **options)], client_timeout=PATIENCE)
        return answer.as_numpy("OUTPUT0").tolist()


def streamed(server, model):
    answers = Answers()
    with grpc.InferenceServerClient(f"127.0.0.1:{server.grpc_port}") as client:
        given = grpc.InferInput("INPUT0", ARRAY.shape, "INT32").set_data_from_numpy(ARRAY)
        client.start_stream(answers)
        client.async_stream_infer(model, [given], enable_empty_final_response=True)
        answer = answers.result()
        return answer.as_numpy("OUTPUT0").tolist(), str(answer.get_response().parameters["triton_final_response"])


WAYS = {
    "all outputs": all_outputs,
    "JSON": lambda server, model: http_infer(server, model, binary=False, binary_data=False),
    "binary": lambda server, model: http_infer(server, model, binary_data=True),
    "classes": lambda server, model: http_infer(server, model, class_count=2, binary_data=False),
    "shared memory": shared, "generate": generate, "gRPC": grpc_infer,
    "classes over gRPC": lambda server, model: grpc_infer(server, model, class_count=3), "a stream": streamed,
}


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
def test_a_hit_goes_where_its_client_wants_it(server, way):
    computed = way(server, "u")
    way(server, "m")  # another one of these tests may have been first
    wait_for("its count", lambda: sum(counts(server, "m")) == statistics(server, "m")["inference_stats"]["success"]["count"])
    hits, misses = counts(server, "m")
    for number in range(1, 4):
        assert way(server, "m") == computed
        assert counts(server, "m") == (hits + number, misses)


def test_steps_of_an_ensemble_and_calls_of_a_model_are_answered(start_server, tmp_path):
    """A hit answers within the submission, so that a chain of them must not be a chain of calls."""
    models = tmp_path / "models"
    make_cached(models)
    make_ensemble(models, "e", chain(*["m"] * 300), kind="TYPE_INT32")
    make_python(models, "calls", CALLS)
    server = start_server(models, flags=local())
    for _ in range(3):
        assert infer(server, [1, 2], "e") == [1, 2]
    wait_for("the counts", lambda: counts(server) == (899, 1))
    for number in range(3):
        answer = server.ask("/v2/models/calls/infer", b'{"inputs": [{"name": "IN", "datatype": "INT32", "shape": [2], "data": [7, 8]}]}')
        assert json.loads(answer.body)["outputs"][0]["data"] == [7, 8]
    wait_for("the counts", lambda: counts(server) == (901, 2))


PARTS = [
    {}, {"sequence_id": 1}, {"sequence_id": 2}, {"sequence_id": "1"}, {"sequence_id": 1, "sequence_start": True},
    {"sequence_id": 1, "sequence_end": True}, {"sequence_id": 1, "sequence_start": True, "sequence_end": True},
]


def test_a_sequences_number_and_flags_are_in_the_key(start_server, tmp_path):
    """A model without sequences is told of them, too."""
    make_cached(tmp_path / "models")
    server = start_server(tmp_path / "models", flags=local())
    for turn in range(2):
        for parameters in PARTS:
            infer(server, more=f', "parameters": {json.dumps(parameters)}')
        wait_for("the counts", lambda: counts(server) == (turn * len(PARTS), len(PARTS)))


def test_an_input_is_told_by_its_name(start_server, tmp_path):
    make_identity(tmp_path / "models", "m", "TYPE_INT32", more=CACHED + """
        input { name: "INPUT1" data_type: TYPE_INT32 dims: [ -1 ] } output { name: "OUTPUT1" data_type: TYPE_INT32 dims: [ -1 ] }""")
    server = start_server(tmp_path / "models", flags=local())

    def ask(**values):
        tensors = [{"name": name, "datatype": "INT32", "shape": [1, 2], "data": data} for name, data in values.items()]
        answer = json.loads(server.ask("/v2/models/m/infer", json.dumps({"inputs": tensors}).encode()).body)
        return {output["name"]: output["data"] for output in answer["outputs"]}

    for turn in range(2):
        assert ask(INPUT0=[1, 2], INPUT1=[3, 4]) == {"OUTPUT0": [1, 2], "OUTPUT1": [3, 4]}
        assert ask(INPUT0=[3, 4], INPUT1=[1, 2]) == {"OUTPUT0": [3, 4], "OUTPUT1": [1, 2]}
    assert ask(INPUT1=[1, 2], INPUT0=[3, 4]) == {"OUTPUT0": [3, 4], "OUTPUT1": [1, 2]}  # in any order
    wait_for("the counts", lambda: counts(server) == (3, 2))


TEXT = '{"inputs": [{"name": "IN", "datatype": "INT32", "shape": [1], "data": [%d]}]}'
ADDS = """
def execute(self, requests):
    return [answer(value(request) + %d) for request in requests]
"""


@pytest.mark.slow
def test_an_answer_is_that_of_the_files_that_were_loaded(start_server, tmp_path):
    """While four clients ask, the files change and are loaded again; those of before come back, and so do their entries."""
    models, added = tmp_path / "models", [0, 1000, 2000, 0, 1000, 3000, 1000, 0]
    make_python(models, "m", ADDS % added[0], more=CACHED)
    server = start_server(models, flags=[*local(), "--model-control-mode=explicit", "--load-model=m"])
    begun, ended, failures, stop = [1], [1], [], threading.Event()  # how many loads have
    asked = [0] * 4

    def client(number):
        while not stop.wait(0.002) and not failures:  # leaves the processor to the load
            asked[number] += 1
            given, before = asked[number] % 10, ended[0]
            answer = server.ask("/v2/models/m/infer", (TEXT % given).encode())
            after = begun[0]
            if answer.status != 200 or json.loads(answer.body)["outputs"][0]["data"][0] - given not in added[before - 1:after]:
                failures.append((answer.status, answer.text, given, before, after))

    clients = [threading.Thread(target=client, args=(number,)) for number in range(4)]
    for one in clients:
        one.start()
    try:
        for number in added[1:]:
            so_far = sum(asked)
            wait_for("requests", lambda: failures or sum(asked) >= so_far + 40)  # noqa: B023
            begun[0] += 1
            make_python(models, "m", ADDS % number, more=CACHED)
            assert server.ask("/v2/repository/models/m/load", b"{}").status == 200
            ended[0] += 1
    finally:
        stop.set()
        for one in clients:
            one.join()
    assert failures == []
    hits = counts(server)[0]
    for given in range(10):  # of 40 requests one client had each of these, when the files were as they are now
        answer = server.ask("/v2/models/m/infer", (TEXT % given).encode())
        assert json.loads(answer.body)["outputs"][0]["data"] == [given + added[-1]]
    assert counts(server)[0] == hits + 10
