# SPDX-License-Identifier: Apache-2.0
"""Implicit state, in nereid and in Triton 2.51 with the same backends: docs/sequences.md."""
import concurrent.futures
import json

import numpy as np
import pytest
from grpc_sides import tensor
from state_models import SIDES, STRATEGIES, ask, batching, client_of, controls, first, make_onnx, make_stateful, serve, state, step, told
from tritonclient.utils import InferenceServerException

ONE = np.int32(7).tobytes()
GOOD = {  # states of models: the first value of their sequences
    "zero": (state(more=first()), {}, 0),
    "from_file": (state(more=first('data_file: "seven"')), {"seven": ONE}, 7),
    "from_long_file": (state(more=first('data_file: "long"')), {"long": ONE + b"more"}, 7),
    "one_buffer": (state(more=first() + " use_same_buffer_for_input_output: true"), {}, 0),
    "one_buffer_from_file": (state(more=first('data_file: "seven"') + " use_same_buffer_for_input_output: true"), {"seven": ONE}, 7),
}
WRONG = {  # states of models: what both servers say
    "other_type": (state(more=first(kind="TYPE_FP32")), "The data type used for 'initial_state' field of state 'STATE_IN' does not match the state data type."),
    "no_name": (state(more=first(name="")), "Field 'name' must be set when using initial_state for state input 'STATE_IN'."),
    "other_rank": (state(more=first(dims="[ 1, 1 ]")), "Number of dimensions in 'initial_state' doesn't match the size of 'state' dimensions"),
    "open_dims": (state(dims="[ -1 ]", more=first(dims="[ -1 ]")), "'initial_state' field for state input name 'STATE_IN' contains variable dimensions."),
    "other_dims": (state(more=first(dims="[ 2 ]")), "'initial_state' dim for input name 'STATE_IN' doesn't match 'state' dim description. 2 != 1"),
    "no_data": (state(more=first("")), "initial_state setting expects state'STATE_IN' to have state_data set"),
    "two": (state(more=first() + " " + first()), "must contain exactly one or zero element. Found '2' elements."),
    "absent_file": (state(more=first('data_file: "absent"')), "failed to open text file for read"),
    "short_file": (state(more=first('data_file: "short"')), "initial_state setting expects 4 bytes, but the data provided from short"),
}
in_nereid = pytest.mark.parametrize("side", SIDES[:1], ids=["nereid"], indirect=True)
TEXT = b"\x02\x00\x00\x00hi"


def make(repository):
    for name, (of, files, _) in GOOD.items():
        make_stateful(repository, name, batching(of, controls()), files=files)
    for strategy, text in STRATEGIES.items():
        make_stateful(repository, f"{strategy}_4", batching(state(more=first()), controls(), strategy=text), max_batch_size=4)
        make_stateful(repository, f"{strategy}_grows", batching(state(dims="[ -1 ]", more=first()), strategy=text))
        make_onnx(repository, f"onnx_{strategy}", text)
        make_onnx(repository, f"onnx_{strategy}_4", text, max_batch_size=4)
        make_onnx(repository, f"onnx_{strategy}_grows", text, grows=True, more=first(kind="TYPE_FP32"))
        delay = text.replace("}", 'max_queue_delay_microseconds: 200000 }')
        make_onnx(repository, f"onnx_{strategy}_grow", delay, max_batch_size=4, grows=True, more=first(kind="TYPE_FP32"))
    make_onnx(repository, "onnx_shown", shown=True)
    make_stateful(repository, "texts", batching(state("TYPE_STRING", "[ -1 ]")), kind="TYPE_STRING")
    make_stateful(repository, "texts_from_file", batching(state("TYPE_STRING", more=first('data_file: "f"', "TYPE_STRING"))), kind="TYPE_STRING", files={"f": TEXT})
    make_stateful(repository, "no_state", batching(controls()))
    for name, (of, _) in WRONG.items():
        make_stateful(repository, f"wrong_{name}", batching(of), files={"short": b"12"})


@pytest.fixture(scope="module", params=SIDES, ids=[side.name for side in SIDES])
def side(request):
    return request.param


@pytest.fixture(scope="module")
def server(side, tmp_path_factory):
    yield from serve(side, make, tmp_path_factory, "--load-model=zero")


@pytest.fixture(scope="module")
def client(server):
    with client_of(server) as client:
        yield client


@pytest.fixture
def load(client):
    """Loads a model, if it is not; gives its name."""
    def loaded(name):
        if not client.is_model_ready(name):
            client.load_model(name)
        return name

    return loaded


def refused(ask_it, *arguments, **options):
    with pytest.raises(InferenceServerException) as problem:
        ask_it(*arguments, **options)
    return problem.value.message()


@pytest.mark.parametrize("name", GOOD)
def test_a_sequence_begins_with_the_first_state_and_goes_on(client, load, name):
    model, begin = load(name), GOOD[name][2]
    assert step(client, model, 5, 1, start=True) == [begin + 5]
    assert step(client, model, 7, 1) == [begin + 12]
    assert step(client, model, 1, 1) == [begin + 13]
    assert step(client, model, 2, 1, start=True) == [begin + 2]  # in the middle of it
    assert step(client, model, 3, 1, end=True) == [begin + 5]
    assert step(client, model, 4, 1, start=True, end=True) == [begin + 4]


@pytest.mark.parametrize("name", ["direct_4", "oldest_4"])
def test_each_sequence_has_its_own(client, load, name):
    model = load(name)
    for number in range(3):
        for sequence in range(1, 7):  # more than there are slots: the last ones wait for their turn
            if sequence <= 4:
                expected = sum(10 * sequence + n for n in range(number + 1))
                assert step(client, model, 10 * sequence + number, sequence, start=number == 0, end=number == 2, max_batch_size=4) == [expected]


@pytest.mark.parametrize("name", ["direct_grows", "oldest_grows"])
def test_a_state_may_grow(client, load, name):
    model = load(name)
    assert step(client, model, [1, 2], 1, start=True, do="grow") == [0, 1, 2]
    assert step(client, model, [3], 1, do="grow") == [0, 1, 2, 3]
    assert step(client, model, [1], 1, do="keep") == [0, 1, 2, 3]
    assert step(client, model, [1], 1) == [1, 2, 3, 4]
    assert step(client, model, [9], 1, start=True, end=True, do="grow") == [0, 9]


def test_texts_are_kept(client, load):
    model = load("texts")
    options = dict(datatype="BYTES", do="grow")
    assert step(client, model, [b"a", b"bc"], 1, start=True, **options) == [b"", b"a", b"bc"]
    assert step(client, model, [b"def"], 1, end=True, **options) == [b"", b"a", b"bc", b"def"]


def test_texts_come_from_a_file(client, load):
    model = load("texts_from_file")
    assert step(client, model, [b"a"], 1, start=True, end=True, datatype="BYTES", do="keep") == [b"hi"]


@pytest.mark.parametrize("way", ["keep", "lose"])
def test_what_is_not_updated_stays(client, load, way):
    model = load("zero")
    step(client, model, 5, 1, start=True)
    for _ in range(3):
        step(client, model, 9, 1, do=way)
    assert step(client, model, 1, 1, end=True) == [6]


def test_a_failed_request_leaves_the_state(client, load):
    model = load("zero")
    step(client, model, 5, 1, start=True)
    assert refused(step, client, model, 9, 1, do="unknown") == "state 'undefined_state' is not a valid state name."
    assert step(client, model, 1, 1, end=True) == [6]


def test_a_model_without_states_has_none(client, load):
    message = refused(step, client, load("no_state"), 9, 1, start=True, end=True, do="unknown")
    assert message == "unable to add state 'undefined_state'. State configuration is missing for model 'no_state'."


def test_states_and_controls_are_inputs_to_the_backend(client, load):
    answer = ask(client, load("zero"), [1], 1, start=True, end=True)
    assert told(answer, "inputs") == "CORRID END INPUT READY START STATE_IN"


def test_a_state_is_no_input_and_no_output_to_clients(client, load):
    model = load("zero")
    message = refused(ask, client, model, [1], 1, start=True, end=True, outputs=["STATE_OUT"])
    assert "unexpected inference output 'STATE_OUT' for model 'zero'" in message
    tensors = [tensor(np.zeros(1, np.int32), name=name) for name in ("INPUT", "STATE_IN")]
    message = refused(client.infer, model, tensors, sequence_id=1, sequence_start=True, sequence_end=True)
    assert "expected 1 inputs but got 2 inputs for model 'zero'" in message


# ---- ONNX


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("rows", [0, 4])
def test_an_onnx_model_adds_up(client, load, strategy, rows):
    model = load(f"onnx_{strategy}" + ("_4" if rows else ""))
    options = dict(output="SUM", datatype="FP32", max_batch_size=rows)
    sequences = range(1, 4 if rows else 2)
    for number in range(4):
        for sequence in sequences:  # of four rows of a direct batch three are in use
            expected = sum(10 * sequence + n for n in range(number + 1))
            assert step(client, model, 10 * sequence + number, sequence, start=number == 0, end=number == 3, **options) == [expected]
    assert step(client, model, 1, 1, start=True, end=True, **options) == [1]


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_an_onnx_model_grows(client, load, strategy):
    model, options = load(f"onnx_{strategy}_grows"), dict(output="SUM", datatype="FP32")
    assert step(client, model, 1, 1, start=True, **options) == [0, 1]
    assert step(client, model, 2, 1, **options) == [0, 1, 2]
    assert step(client, model, 3, 1, end=True, **options) == [0, 1, 2, 3]


@in_nereid  # Triton runs such a batch, and the backend reads one sequence's state for another's, or fails
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_onnx_states_of_different_lengths_are_not_mixed(client, load, strategy):
    """Of 3, 2 and 4 elements: together what three of the first would have."""
    model, options = load(f"onnx_{strategy}_grow"), dict(output="SUM", datatype="FP32", max_batch_size=4)
    expected = {}
    for sequence, length in enumerate((3, 2, 4), 1):
        values = [10.0 * sequence + n for n in range(length - 1)]
        for n, value in enumerate(values):
            step(client, model, value, sequence, start=n == 0, **options)
        expected[sequence] = [0, *values, 7]
    with concurrent.futures.ThreadPoolExecutor(3) as pool:
        answers = pool.map(lambda sequence: step(client, model, 7, sequence, end=True, **options), expected)
    assert list(answers) == list(expected.values())


def test_an_onnx_state_is_an_output_where_it_is_listed(client, load):
    model = load("onnx_shown")
    options = dict(datatype="FP32", start=True, end=True)
    assert step(client, model, 3, 1, output="STATE_OUT", **options) == [3]
    assert step(client, model, 3, 1, output="STATE_OUT", outputs=["STATE_OUT"], **options) == [3]
    message = refused(step, client, load("onnx_direct"), 3, 1, outputs=["STATE_OUT"], **options)
    assert "unexpected inference output 'STATE_OUT' for model 'onnx_direct'" in message


# ---- loads


def test_a_state_of_which_nothing_is_said_begins_with_zeros(repository, start_server):
    make_stateful(repository, "m", batching(state()))
    with client_of(start_server(repository)) as client:
        assert step(client, "m", 5, 1, start=True, end=True) == [5]


@in_nereid  # Triton 2.51 ends with a signal when it loads one of these
@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_state_fails_the_load(server, name):
    answer = server.ask(f"/v2/repository/models/wrong_{name}/load", b"{}")
    assert answer.status >= 400
    assert WRONG[name][1] in json.loads(answer.body)["error"], answer.text


def test_growable_memory_wants_a_gpu(server, client):
    config = json.dumps({
        "backend": "stateful", "max_batch_size": 0, "input": [listed("INPUT")], "output": [listed("OUTPUT")],
        "sequence_batching": {"state": [{"input_name": "STATE_IN", "output_name": "STATE_OUT", "data_type": "TYPE_INT32", "dims": [1],
                                         "use_growable_memory": True, "use_same_buffer_for_input_output": True}]},
        "instance_group": [{"kind": "KIND_CPU"}],
    })
    client.load_model("zero", config=config)
    message = refused(step, client, "zero", 1, 1, start=True, end=True)
    assert "STATE_IN" in message
    assert "'use_growable_memory' can only work with KIND_GPU model instances right now." in server.log
    client.load_model("zero")


def listed(name):
    return {"name": name, "data_type": "TYPE_INT32", "dims": [-1]}

