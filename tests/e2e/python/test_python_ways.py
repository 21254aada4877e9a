# SPDX-License-Identifier: Apache-2.0
"""Whose values are in an answer: the ways of tests/python_ways to make, keep, reuse and hand on arrays, with several clients at once.

Each input tells its client, the number of the request and, by a pattern over all of it, whether it is whole. What comes back must be
that. Triton's backend is asked the same.
"""
import ast

import numpy as np
import pytest
import tritonclient.http as triton
from conftest import ROOT
from python_models import make_python, tensor
from python_sides import SideStarter, in_nereid, python_backends, side, start_python  # noqa: F401
from safety import on_threads

WAYS = (ROOT / "tests/python_ways/model.py").read_text()
# float32 on both sides of 16 KiB (what is named), 64 KiB (what lies in the shared region), 256 KiB (copies without the GIL).
COUNTS = (3, 4096, 16383, 16385, 50000, 65537)
LENGTHS = (5, 9000, 70000)

INPUTS = 'backend: "python" input { name: "IN" data_type: %s dims: [ -1 ] } '
OUTPUTS = 'output [ { name: "OUT" data_type: %s dims: [ -1 ] }, { name: "OUT1" data_type: %s dims: [ -1 ] } ] '
KINDS = {
    "plain": "instance_group { count: 1 kind: KIND_CPU }",
    "batches": "max_batch_size: 8 dynamic_batching { max_queue_delay_microseconds: 200 } instance_group { count: 1 kind: KIND_CPU }",
    "three": "instance_group { count: 3 kind: KIND_CPU }",
    "decoupled": "model_transaction_policy { decoupled: true } instance_group { count: 1 kind: KIND_CPU }",
}
ECHO = """
def execute(self, requests):
    return [answer(value(request)) for request in requests]
"""
# Over HTTP no decoupled model is asked: this one asks it.
RELAY = """
def execute(self, requests):
    answers = []
    for request in requests:
        asked = pb_utils.InferenceRequest(
            model_name=self.model, request_id=request.request_id(), inputs=request.inputs(), requested_output_names=["OUT", "OUT1"])
        responses = list(asked.exec(decoupled=True))
        for response in responses:
            assert not response.has_error(), response.error().message()
        tensors = [tensor for response in responses for tensor in response.output_tensors()]
        answers.append(pb_utils.InferenceResponse([pb_utils.Tensor(t.name(), np.array(t.as_numpy())) for t in tensors]))
    return answers
def initialize(self, args):
    self.model = "decoupled" + args["model_name"][len("relay"):]
"""


ENDS_TRITON = ("dlpack",)  # the stub of 2.51 crashes when NumPy gives a capsule's memory back


def ways_of(kind, side):
    """Names of the functions of `x` of a class that a side can serve."""
    node = next(node for node in ast.parse(WAYS).body if isinstance(node, ast.ClassDef) and node.name == kind)
    functions = [way for way in node.body if isinstance(way, ast.FunctionDef)]
    names = [way.name for way in functions if "x" in [a.arg for a in way.args.args] and way.name != "filled"]
    return [name for name in names if side.heals or name not in ENDS_TRITON]


def put_models(repository):
    for suffix, datatype in (("", "TYPE_FP32"), ("_text", "TYPE_STRING")):
        config = INPUTS % datatype + OUTPUTS % (datatype, datatype)
        for name, more in KINDS.items():
            directory = make_python(repository, name + suffix, config=config + more)
            (directory / "1/model.py").write_text(WAYS)
        make_python(repository, "echo" + suffix, ECHO, kind=datatype)
        make_python(repository, "echo_rows" + suffix, ECHO, kind=datatype, max_batch_size=8)
        make_python(repository, "relay" + suffix, RELAY, config=config + "instance_group { count: 2 kind: KIND_CPU }")


def numbers(client, number):
    count = COUNTS[number % len(COUNTS)]
    return (np.arange(count) % 89 + 100 * (100 * client + number)).astype(np.float32)


def texts(client, number):
    return np.array([b"%d.%d " % (client, number) + b"x" * LENGTHS[number % len(LENGTHS)], b"second"], np.object_)


def ask_all(server, model, way, client, rounds):
    """As many requests, one after the other; what comes back must be what was sent."""
    is_text = model.endswith("_text")
    with triton.InferenceServerClient(server.url) as http:
        for number in range(rounds):
            sent = (texts if is_text else numbers)(client, number)
            sent = sent.reshape(1, -1) if model.startswith("batches") else sent
            reply = http.infer(model, [tensor(sent, "BYTES" if is_text else "FP32")], request_id=f"{way}/{client}.{number}")
            names = [output["name"] for output in reply.get_response()["outputs"]]
            assert names
            for name in names:
                found = reply.as_numpy(name)
                assert np.array_equal(found, sent), f"{model}, {way}: client {client}, request {number}, {name}: {found.reshape(-1)[[0, -1]]}"


@pytest.fixture(scope="module")
def ways_server(side, python_backends, tmp_path_factory):
    repository = tmp_path_factory.mktemp("ways")
    put_models(repository)
    starter = SideStarter(side, python_backends, tmp_path_factory.mktemp("server"))
    # As many executions ahead as there can be, however slow the machine is.
    ahead = [] if not side.heals else ["--backend-config=python,hand-ahead-us=600000000"]
    try:
        yield starter(repository, flags=["--load-model=*", *ahead])
    finally:
        starter.stop_all()
    assert starter.left_in_memory() == []


@in_nereid
@pytest.mark.parametrize("clients", (2, pytest.param(6, marks=pytest.mark.slow)))
@pytest.mark.parametrize("model", ("plain", "batches", "three", "relay"))
def test_each_client_gets_its_own_numbers(ways_server, side, model, clients):
    for way in ways_of("Ways", side):
        on_threads(clients, lambda client: ask_all(ways_server, model, way, client, len(COUNTS)))


@in_nereid
@pytest.mark.parametrize("clients", (2, 6))
@pytest.mark.parametrize("model", ("plain", "batches", "three", "relay"))
def test_each_client_gets_its_own_texts(ways_server, side, model, clients):
    for way in ways_of("Texts", side):
        on_threads(clients, lambda client: ask_all(ways_server, model + "_text", way, client, len(LENGTHS)))


ODD = """
def execute(self, requests):
    said = []
    try:
        pb_utils.Tensor("OUT", np.ma.masked_array([1.0, 2.0], [False, True]))
    except Exception as problem:
        said.append("refused")
    array = np.array([np.bytes_(b"plain")], np.object_)
    said.append(self.echoed("echo_text", array)[0].decode())
    numbers = np.zeros(1, np.float32)
    request = pb_utils.InferenceRequest(
        model_name="echo", requested_output_names=["OUT"], inputs=[pb_utils.Tensor("IN", numbers)])
    for number in (1, 2):
        numbers[0] = number
        said.append(str(pb_utils.get_output_tensor_by_name(request.exec(), "OUT").as_numpy()[0]))
    return [answer(np.array(said, np.object_)) for request in requests]
def echoed(self, model, array):
    request = pb_utils.InferenceRequest(
        model_name=model, requested_output_names=["OUT"], inputs=[pb_utils.Tensor("IN", array)])
    return pb_utils.get_output_tensor_by_name(request.exec(), "OUT").as_numpy()
"""


@in_nereid
def test_what_is_told_of_arrays_in_the_list_of_differences(start_python, repository, side):
    """docs/python.md, "Differences to Triton"."""
    make_python(repository, "odd", ODD, kind="TYPE_STRING")
    for suffix, datatype in (("", "TYPE_FP32"), ("_text", "TYPE_STRING")):
        make_python(repository, "echo" + suffix, ECHO, kind=datatype)
    server = start_python(repository, flags=["--load-model=*"])
    with triton.InferenceServerClient(server.url) as http:
        said = http.infer("odd", [tensor(np.array([b"x"], np.object_), "BYTES")]).as_numpy("OUT").tolist()
    assert said == ([b"refused", b"plain", b"1.0", b"2.0"] if side.heals else [b"refused", b"b'plain'", b"1.0", b"1.0"])
