# SPDX-License-Identifier: Apache-2.0
"""What a Python model may do, with nereid's python backend and with Triton's: requests, tensors, calls, log, metrics, errors."""
import concurrent.futures
import json
import pathlib
import re
import socket

import proc
import pytest
from conftest import host_gpus, wait_for
from python_sides import MODELS, in_nereid, infer, output, python_backends, server, side, start_python  # noqa: F401

pytestmark = pytest.mark.long


def test_one_servers_code_is_in_the_process(server, side):
    libraries = set(re.findall(r"/\S*\.so\S*", proc.read(server.process.pid, "maps")))
    assert any(path.endswith("backends/python/libtriton_python.so") for path in libraries)
    assert [path for path in libraries if "libtritonserver" in path] == [str(side.core.resolve())]


def test_a_model_completes_its_configuration_and_answers(server):
    config = json.loads(server.ask("/v2/models/add_sub/config").body)
    assert [(i["name"], i["data_type"], i["dims"]) for i in config["input"]] == [
        ("INPUT0", "TYPE_FP32", [4]), ("INPUT1", "TYPE_FP32", [4])
    ]
    assert [o["name"] for o in config["output"]] == ["OUTPUT0", "OUTPUT1"]
    inputs = [
        {"name": name, "datatype": "FP32", "shape": [4], "data": data}
        for name, data in (("INPUT0", [1, 2, 3, 4]), ("INPUT1", [1, 1, 1, 0.5]))
    ]
    answer = server.ask("/v2/models/add_sub/infer", json.dumps({"inputs": inputs}).encode())
    assert output(answer, "OUTPUT0") == [2, 3, 4, 4.5]
    assert output(answer, "OUTPUT1") == [0, 1, 2, 3.5]


def test_texts_go_in_and_out(server):
    assert output(infer(server, "text", ["ä", "", "three"], "BYTES")) == ["three", "", "ä"]


def test_a_tensor_without_elements_is_a_tensor(server):
    assert output(infer(server, "text", [], "BYTES")) == []
    assert output(infer(server, "bls", [], parameters={"model": "ints"})) == []


def test_requests_that_wait_come_as_one_batch(server):
    with concurrent.futures.ThreadPoolExecutor(3) as clients:
        answers = list(clients.map(lambda n: infer(server, "batch", [n], shape=[1, 1]), range(3)))
    assert [output(answer) for answer in answers] == [[3], [3], [3]]

    def counted():
        stats = json.loads(server.ask("/v2/models/batch/stats").body)["model_stats"][0]
        return stats["inference_count"], stats["execution_count"]

    wait_for("the count, which Triton's backend may tell after the answers", lambda: min(counted()) > 0 and counted()[0] >= 3)
    assert counted() == (3, 1)


@pytest.mark.parametrize("count", [3, 20000])
def test_a_model_may_write_to_its_inputs_and_reaches_nobody_elses(server, count):
    def ask(n):
        return set(output(infer(server, "in_place", [n] * count, shape=[1, count])))

    with concurrent.futures.ThreadPoolExecutor(2) as clients:
        answers = list(clients.map(ask, (1, 2)))
    # the second of the batch got 20 more, the first 10
    assert answers in ([{22}, {44}], [{42}, {24}])


@pytest.mark.parametrize("count", [3, 20000])
def test_what_a_model_writes_stays_with_it(server, count):
    sent = list(range(count))
    doubled = [2 * value for value in sent]
    told = json.loads(output(infer(server, "writes", sent))[0])
    assert told == {
        "writeable": True, "same": True, "again": [7, *sent[1:]], "called": [doubled], "after": [7, *sent[1:]],
        "answers": [[1] * len(sent), doubled], "made": [199998, 99999],
    }


def test_a_model_asks_another(server):
    assert output(infer(server, "bls", [1, 2], parameters={"model": "ints"})) == [1, 2]


def test_a_model_asks_itself(server):
    assert output(infer(server, "bls", [1, 2], parameters={"model": "ints", "depth": 2})) == [1 + 1 + 2, 2 + 1 + 2]


def test_a_model_asks_others_at_once(server):
    assert output(infer(server, "bls_async", [1, 2])) == [3, 6]


def test_a_model_gets_all_responses_of_a_decoupled_one(server):
    assert output(infer(server, "bls", [4, 5, 6], parameters={"model": "repeat", "decoupled": True})) == [4, 5, 6]
    assert output(infer(server, "bls", [9], parameters={"model": "repeat", "decoupled": True})) == [9]


def test_a_model_that_asks_a_missing_one_hears_so(server):
    answer = infer(server, "bls", [1], parameters={"model": "nobody"})
    assert answer.status == 500
    assert "Model 'nobody' is not ready" in answer.text


def test_a_model_is_told_about_itself_and_the_request(server):
    answer = infer(
        server, "tell", [1], id="seven", outputs=[{"name": "OUTPUT0"}],
        parameters={"timeout": 5000000, "sequence_id": 0, "priority": 0, "text": "t", "number": 7, "truth": True},
    )
    told = json.loads(output(answer)[0])
    assert told["request_id"] == "seven"
    assert told["requested_output_names"] == ["OUTPUT0"]
    assert told["timeout"] == 5000000
    assert told["flags"] == 0
    assert {key: told["parameters"][key] for key in ("text", "number", "truth")} == {"text": "t", "number": 7, "truth": True}
    arguments = told["arguments"]
    assert (arguments["model_name"], arguments["model_version"]) == ("tell", "1")
    assert (arguments["model_instance_kind"], arguments["model_instance_device_id"]) == ("GPU" if host_gpus() else "CPU", "0")
    assert arguments["model_repository"] == str(MODELS / "tell")
    config = json.loads(arguments["model_config"])
    assert config["parameters"] == {"colour": {"string_value": "blue"}}


@pytest.mark.parametrize(
    "code,status",
    [
        ("UNKNOWN", 400), ("INTERNAL", 500), ("NOT_FOUND", 404), ("INVALID_ARG", 400), ("UNAVAILABLE", 503),
        ("UNSUPPORTED", 501), ("ALREADY_EXISTS", 400), ("CANCELLED", 400),
    ],
)
def test_an_error_keeps_its_code_and_text(server, code, status):
    answer = infer(server, "tell", [1], parameters={"code": code})
    assert (answer.status, json.loads(answer.body)) == (status, {"error": "as you wish"})


def test_an_exception_is_the_requests_error(server):
    answer = infer(server, "tell", [1], parameters={"raise": "out of cheese"})
    assert answer.status == 500
    assert "ValueError: out of cheese" in answer.text


def test_what_a_model_logs_is_in_the_servers_log(server):
    assert infer(server, "tell", [1], parameters={"log": "hello"}).status == 200
    for level, letter in (("info", "I"), ("warn", "W"), ("error", "E"), ("verbose", "I")):
        wait_for(level, lambda: re.search(rf'^{letter}\d{{4}} .*model.py:\d+\] "log_{level}: hello"', server.log, re.M))


def test_a_model_keeps_metrics(server):
    assert output(infer(server, "count", [5])) == [1, 5]
    assert output(infer(server, "count", [20])) == [2, 20]
    text = server.ask("/metrics", port=server.metrics_port).text
    for line in (
        "# TYPE asked_times counter", "# TYPE asked_last gauge", "# TYPE asked_values histogram",
        'asked_times{model="count"} 2', 'asked_last{model="count"} 20',
        'asked_values_bucket{model="count",le="1"} 0', 'asked_values_bucket{model="count",le="10"} 1',
        'asked_values_bucket{model="count",le="+Inf"} 2', 'asked_values_sum{model="count"} 25',
        'asked_values_count{model="count"} 2',
    ):
        assert line in text.splitlines()


@in_nereid  # Triton's HTTP server does not notice before the response
def test_a_model_sees_that_its_client_left(server):
    body = b'{"id": "left", "inputs": [{"name": "INPUT0", "datatype": "INT32", "shape": [1], "data": [1]}]}'
    with socket.create_connection(("127.0.0.1", server.http_port)) as client:
        client.sendall(b"POST /v2/models/patient/infer HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body))
        wait_for("the model's start", lambda: "patient: began left" in server.log)
    wait_for("the cancel", lambda: "patient: cancelled left" in server.log)


NAMED = '''
import numpy as np
import triton_python_backend_utils as pb_utils
import {neighbour}


class TritonPythonModel:
    def execute(self, requests):
        told = np.array([__name__, {neighbour}.TEXT], np.object_)
        return [pb_utils.InferenceResponse([pb_utils.Tensor("OUTPUT0", told)]) for _ in requests]
'''
# default_model_filename, the file that it means below the model, what the model may import, its module
NAMED_FILES = {
    "version": ("code.py", "1/code.py", "1/beside.py", "1.code"),
    "below": ("src/model.py", "1/src/model.py", "1/src/beside.py", "src.model"),
    "deeper": ("a/b/model.py", "1/a/b/model.py", "1/a/above.py", "b.model"),
    "shared": ("../common/model.py", "common/model.py", "common/beside.py", "common.model"),
    "other": ("../../library/model.py", "../library/model.py", "../library/beside.py", "library.model"),
}


def test_a_models_file_may_lie_in_another_directory(start_python, tmp_path):
    for name, (given, file, neighbour, _) in NAMED_FILES.items():
        model = tmp_path / "models" / name
        (model / "1").mkdir(parents=True)
        (model / "config.pbtxt").write_text(
            f'backend: "python"\ndefault_model_filename: "{given}"\ninstance_group {{ kind: KIND_CPU }}\n'
            'input { name: "INPUT0" data_type: TYPE_INT32 dims: [ -1 ] }\noutput { name: "OUTPUT0" data_type: TYPE_STRING dims: [ -1 ] }\n')
        for part, text in ((file, NAMED.format(neighbour=pathlib.Path(neighbour).stem)), (neighbour, f"TEXT = {name!r}\n")):
            (model / part).parent.mkdir(parents=True, exist_ok=True)
            (model / part).write_text(text)
    server = start_python(tmp_path / "models", flags=[f"--load-model={name}" for name in NAMED_FILES])
    assert {name: output(infer(server, name, [1])) for name in NAMED_FILES} == {
        name: [module, name] for name, (*_, module) in NAMED_FILES.items()}


WHICH = '''
import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        given = [np.array([tensor.name() for tensor in request.inputs()], np.object_) for request in requests]
        return [pb_utils.InferenceResponse([pb_utils.Tensor("OUTPUT0", names)]) for names in given]
'''


def test_as_many_inputs_as_are_required_suffice_whichever_they_are(start_python, tmp_path):
    model = tmp_path / "models/which"
    (model / "1").mkdir(parents=True)
    (model / "config.pbtxt").write_text(
        'backend: "python"\ninstance_group { kind: KIND_CPU }\noutput { name: "OUTPUT0" data_type: TYPE_STRING dims: [ -1 ] }\n'
        'input { name: "NEEDED" data_type: TYPE_INT32 dims: [ 1 ] }\ninput { name: "INPUT0" data_type: TYPE_INT32 dims: [ 1 ] optional: true }\n')
    (model / "1/model.py").write_text(WHICH)
    server = start_python(tmp_path / "models", flags=["--load-model=which"])
    assert output(infer(server, "which", [1])) == ["INPUT0"]
    answer = server.ask("/v2/models/which/infer", b'{"inputs": []}')
    assert answer.status == 400 and "missing required input(s) ['NEEDED']" in answer.text
