# SPDX-License-Identifier: Apache-2.0
"""Python models that do what the examples of Triton's documentation do, as those do it; and decoupled ones through generate_stream."""
import json

import pytest
from conftest import wait_for
from python_sides import SIDES, infer, output, put_model, python_backends, server, side, start_python  # noqa: F401
from streaming import Reader, events

pytestmark = pytest.mark.long


def numbers(name, values, shape=None):
    return {"name": name, "datatype": "FP32", "shape": shape or [len(values)], "data": values}


def ask(server, model, *inputs, **more):
    return server.ask(f"/v2/models/{model}/infer", json.dumps({"inputs": inputs, **more}).encode())


def test_a_configuration_that_is_half_there_is_completed(server):
    config = json.loads(server.ask("/v2/models/completed/config").body)
    assert [(i["name"], i["data_type"], i["dims"]) for i in config["input"]] == [
        ("INPUT0", "TYPE_FP32", [4]), ("INPUT1", "TYPE_FP32", [4])
    ]
    assert sorted((o["name"], o["data_type"]) for o in config["output"]) == [("OUTPUT0", "TYPE_FP32"), ("OUTPUT1", "TYPE_FP64")]
    assert config["max_batch_size"] == 4
    assert "dynamic_batching" in config
    answer = ask(server, "completed", numbers("INPUT0", [1, 2, 3, 4], [1, 4]), numbers("INPUT1", [1, 1, 1, 1], [1, 4]))
    assert output(answer, "OUTPUT0") == [2, 3, 4, 5]
    assert output(answer, "OUTPUT1") == [0, 1, 2, 3]


@pytest.mark.parametrize(
    "config, reason",
    [
        ("model_transaction_policy { decoupled: true }", "completed answers once"),
        ('input { name: "INPUT1" data_type: TYPE_FP32 dims: [ 3 ] }', "completed wants four numbers in INPUT1"),
    ],
)
def test_a_model_refuses_a_configuration(start_python, repository, config, reason):
    directory = put_model(repository, "completed")
    with (directory / "config.pbtxt").open("a") as file:
        file.write(config)
    server = start_python(repository)
    answer = server.ask("/v2/repository/models/completed/load", b"")
    assert answer.status == 400
    wait_for("the reason", lambda: reason in server.log)
    server.stop()
    start_python.clear_memory()


def test_finalize_is_the_end(start_python, repository):
    put_model(repository, "completed")
    server = start_python(repository, flags=["--load-model=completed"])
    assert server.ask("/v2/repository/models/completed/unload", b"").status == 200
    wait_for("finalize", lambda: "completed: the end" in server.log)


def name_to_ask(model):
    operands = [numbers("INPUT0", [1, 2, 3, 4]), numbers("INPUT1", [2, 2, 2, 2])]
    return [{"name": "MODEL_NAME", "datatype": "BYTES", "shape": [1], "data": [model]}, *operands]


def test_an_input_names_the_model_to_ask(server):
    answer = ask(server, "named", *name_to_ask("add_sub"))
    assert output(answer, "OUTPUT0") == [3, 4, 5, 6]
    assert output(answer, "OUTPUT1") == [-1, 0, 1, 2]
    answer = ask(server, "named", *name_to_ask("nobody"))
    assert answer.status == 500
    assert "Model 'nobody' is not ready" in answer.text


@pytest.mark.parametrize("times", [1, 5])
def test_decoupled_models_are_asked_at_once(server, side, times):
    assert output(infer(server, "sums", [1, 2, 3], parameters={"times": times})) == [6 * times]
    assert output(infer(server, "sums", [], parameters={"times": times})) == [0]
    if side is not SIDES["triton"]:  # Triton's library waits for ever for what follows an error, in Triton 2.51 too
        answer = infer(server, "sums", [1, -7, 3], parameters={"times": times})
        assert (answer.status, json.loads(answer.body)) == (500, {"error": "-7 is negative"})


def test_integers_of_another_width_are_sent_as_they_are(server):
    (tensor,) = json.loads(infer(server, "sums", [4], parameters={"times": 1}).body)["outputs"]
    assert (tensor["datatype"], tensor["data"]) == ("INT64", [4])


# ---- generate and generate_stream


def generate(server, model, route, **members):
    return server.ask(f"/v2/models/{model}/{route}", json.dumps(members).encode())


def test_responses_are_events(server):
    answer = generate(server, "repeat", "generate_stream", INPUT0=[3, 1, 2])
    assert (answer.status, answer.headers["Content-Type"]) == (200, "text/event-stream; charset=utf-8")
    assert [event["OUTPUT0"] for event in events(answer.text)] == [3, 1, 2]


def test_an_error_among_responses_is_an_event(server):
    parts = events(generate(server, "repeat", "generate_stream", INPUT0=[1, -2, 3]).text)
    assert [part.get("OUTPUT0", part.get("error")) for part in parts] == [1, "-2 is negative", 3]


def test_generate_is_for_one_response(server):
    assert json.loads(generate(server, "repeat", "generate", INPUT0=[9]).body)["OUTPUT0"] == 9
    assert "exactly 1 response" in generate(server, "repeat", "generate", INPUT0=[1, 2]).text
    assert json.loads(generate(server, "sums", "generate", INPUT0=[9, 1], times=2).body)["OUTPUT0"] == 20


def test_a_client_that_leaves_ends_the_models_work(server):
    # The one instance is busy until its client is gone: the second stream begins only then.
    for times in (1, 2):
        with Reader(server, "endless", INPUT0=[1]) as reader:
            assert reader.head()[0] == 200
            assert [reader.event()["OUTPUT0"] for _ in range(3)] == [0, 1, 2]
        wait_for("the end of the work", lambda: server.log.count("endless: given up") == times)
