# SPDX-License-Identifier: Apache-2.0
"""generate: members become inputs and parameters, outputs become members, and there is exactly one response."""
import gzip
import json
import socket

import pytest

from conftest import DEADLINE, EVERYTHING, Starter, make_identity, wait_for
from streaming import ask, make_streaming

MANY = ("generate expects model to produce exactly 1 response, use generate stream for model that generates various "
        "number of responses")


@pytest.fixture(scope="module")
def server(nereid, backends, tmp_path_factory):
    repository = tmp_path_factory.mktemp("models")
    make_streaming(repository)
    make_identity(repository, "numbers", "TYPE_INT32")
    make_identity(repository, "texts", "TYPE_STRING", max_batch_size=0)
    make_identity(repository, "truths", "TYPE_BOOL")
    (repository / "square/1").mkdir(parents=True)
    (repository / "square/config.pbtxt").write_text("""
        backend: "identity"
        input { name: "INPUT0" data_type: TYPE_FP32 dims: [ -1, 2 ] }
        output { name: "OUTPUT0" data_type: TYPE_FP32 dims: [ -1, 2 ] }""")
    starter = Starter(nereid, backends, tmp_path_factory.mktemp("generate"))
    yield starter(repository, flags=EVERYTHING)
    starter.stop_all()


def answer(server, model, **members):
    reply = ask(server, model, "generate", **members)
    assert reply.status == 200, reply.text
    assert reply.headers["Content-Type"] == "application/json"
    return reply.text


def refusal(server, model, status=400, body=None, **members):
    reply = (ask(server, model, "generate", **members) if body is None
             else server.ask(f"/v2/models/{model}/generate", body))
    assert reply.status == status, reply.text
    assert reply.headers["Content-Type"] == "application/json"
    return json.loads(reply.text)["error"]


def test_a_scalar_comes_back_as_a_scalar_and_members_are_sorted(server):
    parameters = '"param0":"an example string parameter","param1":42,"param2":false,"param3":123.123'
    for value in (7, [7]):
        assert answer(server, "numbers", INPUT0=value) == (
            '{"OUTPUT0":7,"model_name":"numbers","model_version":"1",%s}' % parameters)
    assert answer(server, "texts", INPUT0="ä\n", id="an id") == (
        '{"OUTPUT0":"ä\\n","id":"an id","model_name":"texts","model_version":"1",%s}' % parameters)


def test_a_list_comes_back_as_a_list(server):
    assert json.loads(answer(server, "numbers", INPUT0=[3, -2, 1]))["OUTPUT0"] == [3, -2, 1]
    assert json.loads(answer(server, "texts", INPUT0=["a", "", "c"]))["OUTPUT0"] == ["a", "", "c"]
    assert json.loads(answer(server, "truths", INPUT0=[True, False]))["OUTPUT0"] == [True, False]


def test_elements_fill_the_fixed_dimensions_first(server):
    assert json.loads(answer(server, "square", INPUT0=[1, 2, 3, 4, 5, 6]))["OUTPUT0"] == [1, 2, 3, 4, 5, 6]
    assert refusal(server, "square", INPUT0=[1, 2, 3]) == (
        "The schema can not convert input 'INPUT0' to tensor with proper shape")


def test_inputs_and_parameters_may_stand_in_parameters(server):
    got = json.loads(answer(server, "streaming", parameters={"INPUT": "hi", "bytes": 3}))
    assert (got["OUTPUT"], got["index"]) == ("xxx", 0)
    assert refusal(server, "streaming", parameters=3).startswith("Expected JSON object for keyword: 'parameters'")
    assert "Converting keyword: 'parameters'" in refusal(server, "streaming", parameters={"INPUT": 3})


@pytest.mark.parametrize("members,text", [
    ({}, "expected 1 inputs but got 0"),
    ({"other": 1}, "expected 1 inputs but got 0"),
    ({"INPUT": 123}, "attempt to access JSON non-string as string"),
    ({"INPUT": {"a": 1}}, "attempt to access JSON non-string as string"),
    ({"INPUT": "a", "x": {"y": 1}}, "parameter 'x' has invalid type"),
    ({"INPUT": "a", "x": None}, "parameter 'x' has invalid type"),
    ({"INPUT": "a", "id": 5}, "Unable to parse 'id'"),
    ({"INPUT": "a", "parameters": {"INPUT": "b"}}, "input 'INPUT' already exists in request"),
])
def test_what_does_not_fit_the_model_is_refused(server, members, text):
    assert text in refusal(server, "streaming", **members)


def test_a_body_may_be_empty_but_not_be_no_object(server):
    assert "expected 1 inputs but got 0" in refusal(server, "streaming", body=b"")
    assert "attempt to get members for non-object" in refusal(server, "streaming", body=b"[]")
    for body in (b"{", b'{"INPUT":"a"', b'{"INPUT":"a"}}', b"nonsense"):
        assert "JSON" in refusal(server, "streaming", body=body)


def test_a_model_or_a_version_that_is_not_there(server):
    assert "unknown model: 'none'" in refusal(server, "none", 404)
    assert "unknown model: 'numbers' version 7" in json.loads(
        server.ask("/v2/models/numbers/versions/7/generate", b"{}").text)["error"]


def test_a_packed_body_is_refused(server):
    reply = server.ask("/v2/models/numbers/generate", gzip.compress(b'{"INPUT0":1}'),
                       headers={"Content-Encoding": "gzip"})
    assert reply.status == 400
    assert json.loads(reply.text)["error"] == "Unsupported content-encoding, only 'identity' is supported."


@pytest.mark.parametrize("method,status", [("GET", 405), ("HEAD", 405), ("PUT", 405)])
def test_only_post_is_taken(server, method, status):
    for route in ("generate", "generate_stream"):
        assert server.ask(f"/v2/models/numbers/{route}", method=method).status == status


def test_exactly_one_response_is_a_reply(server):
    assert json.loads(answer(server, "streaming", INPUT="hi", count=1))["OUTPUT"] == "hi"
    assert json.loads(answer(server, "streaming", INPUT="hi", count=1, early=True))["OUTPUT"] == "hi"
    for count in (0, 2, 100):
        for early in (False, True):
            assert refusal(server, "streaming", 500, INPUT="hi", count=count, early=early) == MANY


def test_a_second_response_cancels_the_rest(server):
    assert refusal(server, "streaming", 500, INPUT="hi", count=10**9, early=True) == MANY
    assert wait_for("cancellation", lambda: "of 1000000000, cancelled 1" in server.log)


def test_an_error_of_the_model_is_the_reply(server):
    assert refusal(server, "streaming", 503, INPUT="hi", fail_at=0) == "as was asked for"


def test_a_client_that_leaves_cancels(server):
    """Also what is already released by its backend."""
    for n, early in ((77, False), (78, True)):
        body = json.dumps({"INPUT": "hi", "count": n, "delay_us": 10**5, "early": early}).encode()
        with socket.create_connection(("127.0.0.1", server.http_port), timeout=DEADLINE) as client:
            client.sendall(b"POST /v2/models/streaming/generate HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n%s"
                           % (len(body), body))
            wait_for("the request", lambda: f'began {n}"' in server.log)
        wait_for("cancellation", lambda: f"of {n}, cancelled 1" in server.log)


def test_inputs_may_have_as_many_bytes_as_a_body(server, start_server, tmp_path):
    """The text describes four times its own size."""
    repository = tmp_path / "small"
    make_identity(repository, "numbers", "TYPE_FP64")
    small = start_server(repository, flags=["--http-max-input-size=4096"])
    assert len(json.loads(answer(small, "numbers", INPUT0=[1] * 512))["OUTPUT0"]) == 512
    text = refusal(small, "numbers", INPUT0=[1] * 513)
    assert "input 'INPUT0' of size 4104 bytes exceeds the maximum allowed input size of 4096" in text
