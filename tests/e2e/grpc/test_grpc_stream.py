# SPDX-License-Identifier: Apache-2.0
"""ModelStreamInfer with Triton's unmodified client, on nereid and on Triton 2.51: order, decoupled models, errors, ends."""
import itertools

import grpc
import numpy as np
import pytest
from conftest import wait_for
from grpc_sides import DEADLINE, Answers, client, client_of, grpc_server, grpc_side, in_nereid, tensor  # noqa: F401 - fixtures
from tritonclient.grpc import service_pb2, service_pb2_grpc
from tritonclient.utils import InferenceServerException

UNKNOWN = "Request for unknown model: 'none' is not found"


def ints(*values, name="INPUT0"):
    return [tensor(np.array(values, np.int32), name=name)]


def parameters(result):
    """What the server says of a response."""
    return {name: p.bool_param for name, p in result.get_response().parameters.items() if name.startswith("triton_")}


@pytest.fixture
def stream(client):
    """An open stream; what it answers is in `answers`."""
    client.answers = Answers()
    client.start_stream(client.answers)
    yield client
    client.stop_stream(cancel_requests=True)


def test_answers_come_in_the_order_of_the_requests(stream):
    for i in range(100):
        stream.async_stream_infer("t_int32", [tensor(np.array([[i]], np.int32))], request_id=str(i))
    for i in range(100):
        result = stream.answers.result()
        assert result.get_response().id == str(i) and result.as_numpy("OUTPUT0").tolist() == [[i]]
        assert parameters(result) == {"triton_final_response": True}


def test_who_is_done_first_waits_for_its_turn(stream):
    """The second request's instance is done before the first's."""
    for i in (0, 1):
        stream.async_stream_infer("crossed", ints(i, name="IN"), request_id=str(i))
    assert [stream.answers.result().get_response().id for _ in range(2)] == ["0", "1"]


@pytest.mark.parametrize("values", [(), (7,), tuple(range(50))], ids=["none", "one", "many"])
@pytest.mark.parametrize("empty_final", [False, True])
def test_a_decoupled_model_answers_as_often_as_it_likes(stream, values, empty_final):
    """The end comes by itself, in a message of its own, for those who asked for it."""
    stream.async_stream_infer("repeat", ints(*values), request_id="r", enable_empty_final_response=empty_final)
    for value in values:
        result = stream.answers.result()
        assert (result.get_response().id, result.as_numpy("OUTPUT0").tolist()) == ("r", [value])
        assert parameters(result) == {"triton_final_response": False}
    if empty_final:
        result = stream.answers.result()
        assert parameters(result) == {"triton_final_response": True} and len(result.get_response().outputs) == 0
        response = result.get_response()
        assert (response.id, response.model_name) == ("r", "repeat")
    # nothing else came: the next answer is the next request's
    stream.async_stream_infer("t_int32", [tensor(np.array([[9]], np.int32))], request_id="next")
    assert stream.answers.result().get_response().id == "next"


@in_nereid  # Triton 2.51 dies of it
def test_decoupled_and_other_models_share_a_stream(stream):
    for i in range(20):
        stream.async_stream_infer("repeat", ints(i, i), request_id=f"r{i}")
        stream.async_stream_infer("t_int32", [tensor(np.array([[i]], np.int32))], request_id=f"t{i}")
    ids = [stream.answers.result().get_response().id for _ in range(60)]
    assert [id for id in ids if id[0] == "t"] == [f"t{i}" for i in range(20)]
    assert sorted(id for id in ids if id[0] == "r") == sorted([f"r{i}" for i in range(20)] * 2)


def test_an_error_between_responses_is_a_message(stream):
    """As Triton: it says which request it is of, is no end, and the stream lives on."""
    stream.async_stream_infer("repeat", ints(1, -2, 3), enable_empty_final_response=True)
    assert stream.answers.result().as_numpy("OUTPUT0").tolist() == [1]
    assert stream.answers.error().message() == "-2 is negative"
    assert stream.answers.result().as_numpy("OUTPUT0").tolist() == [3]
    assert parameters(stream.answers.result()) == {"triton_final_response": True}


def test_a_request_that_is_refused_ends_no_stream(stream):
    stream.async_stream_infer("none", ints(1), request_id="bad")
    assert stream.answers.error().message() == UNKNOWN
    stream.async_stream_infer("t_int32", ints(1), request_id="bad shape")
    assert "unexpected shape for input 'INPUT0' for model 't_int32'" in stream.answers.error().message()
    stream.async_stream_infer("t_int32", [tensor(np.array([[1]], np.int32))])
    assert stream.answers.result().as_numpy("OUTPUT0").tolist() == [[1]]


def messages(grpc_server, requests, metadata=()):
    """The raw messages of one stream, and the status that it ended with."""
    stub = service_pb2_grpc.GRPCInferenceServiceStub(grpc.insecure_channel(f"127.0.0.1:{grpc_server.grpc_port}"))
    got = []
    try:
        for message in stub.ModelStreamInfer(iter(requests), metadata=metadata, timeout=DEADLINE):
            got.append(message)
    except grpc.RpcError as error:
        return got, error.code(), error.details()
    return got, grpc.StatusCode.OK, ""


def raw_request(model, *values, **more):
    request = service_pb2.ModelInferRequest(model_name=model, **more)
    request.inputs.add(name="INPUT0", datatype="INT32", shape=[len(values)])
    request.raw_input_contents.append(np.array(values, np.int32).tobytes())
    return request


def test_an_error_says_whose_it_is(grpc_server):
    got, code, _ = messages(grpc_server, [raw_request("none", 1, id="bad"), raw_request("repeat", 5, -6, id="half")])
    assert code == grpc.StatusCode.OK
    assert {m.infer_response.id: m.error_message for m in got if m.error_message} == {"bad": UNKNOWN, "half": "-6 is negative"}


def about(message):
    """What a message says of its request, and whether it is the last of it."""
    response = message.infer_response
    return response.id, response.model_name, response.model_version, response.parameters["triton_final_response"].bool_param


def test_an_error_between_responses_is_not_the_last_message(grpc_server):
    request = raw_request("repeat", 1, -2, 3, id="r")
    request.parameters["triton_enable_empty_final_response"].bool_param = True
    got, code, _ = messages(grpc_server, [request])
    assert code == grpc.StatusCode.OK and [m.error_message for m in got] == ["", "-2 is negative", "", ""]
    assert [about(m) for m in got] == [
        ("r", "repeat", "1", False), ("r", "repeat", "", False), ("r", "repeat", "1", False), ("r", "repeat", "", True),
    ]


@in_nereid  # Triton says no more than the id
def test_a_request_that_is_refused_is_named_as_it_was_sent(grpc_server):
    reserved = raw_request("repeat", 1, id="a")
    reserved.parameters["triton_x"].bool_param = True
    got, code, _ = messages(grpc_server, [reserved, raw_request("repeat", 1, id="b", model_version="7")])
    assert code == grpc.StatusCode.OK and all(m.error_message for m in got)
    assert [about(m) for m in got] == [("a", "repeat", "", True), ("b", "repeat", "7", True)]


@in_nereid  # Triton 2.51 dies of it
@pytest.mark.parametrize("model, values, code, text", [
    ("none", (1,), "NOT_FOUND", UNKNOWN),
    ("repeat", (-3,), "INTERNAL", "-3 is negative"),
])
def test_who_wants_statuses_gets_them(grpc_server, model, values, code, text):
    """triton_grpc_error: the first error ends the stream."""
    got, status, details = messages(grpc_server, [raw_request(model, *values)], [("triton_grpc_error", "true")])
    assert (got, status, details) == ([], grpc.StatusCode[code], text)


@in_nereid  # Triton 2.51 dies of it
def test_the_client_s_header_for_statuses(client):
    answers = Answers()
    client.start_stream(answers, headers={"triton_grpc_error": "true"})
    client.async_stream_infer("repeat", ints(1, -2, 3))
    assert answers.result().as_numpy("OUTPUT0").tolist() == [1]
    error = answers.error()
    assert (error.status(), error.message()) == ("StatusCode.INTERNAL", "-2 is negative")
    client.stop_stream()


def test_compressed_streams(client):
    answers = Answers()
    client.start_stream(answers, compression_algorithm="gzip")
    for i in range(10):
        client.async_stream_infer("t_int32", [tensor(np.full((1, 10_000), i, np.int32))])
    for i in range(10):
        assert (answers.result().as_numpy("OUTPUT0") == i).all()
    client.stop_stream()


def test_a_stream_without_requests_ends_well(grpc_server):
    assert messages(grpc_server, []) == ([], grpc.StatusCode.OK, "")


def test_all_that_was_asked_is_answered_before_the_end(grpc_server):
    """The client half-closes at once."""
    got, code, _ = messages(grpc_server, [raw_request("repeat", *range(20), id=str(i)) for i in range(5)])
    assert code == grpc.StatusCode.OK
    by_id = {str(i): [] for i in range(5)}
    for message in got:
        by_id[message.infer_response.id].append(np.frombuffer(message.infer_response.raw_output_contents[0], np.int32)[0])
    assert all(values == list(range(20)) for values in by_id.values())


# ---- the client gives up ----

def begin_endless(grpc_server, client, **options):
    answers = Answers()
    client.start_stream(answers, **options)
    before = grpc_server.log.count("endless: given up")
    client.async_stream_infer("endless", ints(1))
    for value in range(3):
        assert answers.result().as_numpy("OUTPUT0").tolist() == [value]
    return answers, before


def await_given_up(grpc_server, before):
    wait_for("what the model sees", lambda: grpc_server.log.count("endless: given up") == before + 1)


def last_error(answers):
    return next(error for _, error in (answers.next() for _ in itertools.count()) if error is not None)


def test_a_stream_is_cancelled(grpc_server):
    with client_of(grpc_server) as client:
        answers, before = begin_endless(grpc_server, client)
        client.stop_stream(cancel_requests=True)
        await_given_up(grpc_server, before)
        assert last_error(answers).status() == "StatusCode.CANCELLED"


def test_a_stream_s_deadline_cancels(grpc_server):
    with client_of(grpc_server) as client:
        answers, before = begin_endless(grpc_server, client, stream_timeout=8)
        await_given_up(grpc_server, before)
        error = last_error(answers)
        assert isinstance(error, InferenceServerException) and error.status() == "StatusCode.DEADLINE_EXCEEDED"
        client.stop_stream()
