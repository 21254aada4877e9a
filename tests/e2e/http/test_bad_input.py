# SPDX-License-Identifier: Apache-2.0
"""Bad requests get a clear 4xx that names the thing, the value and what was expected; the server goes on."""
import gzip
import json
import socket

import pytest
from conftest import PATIENCE, make_identity

GOOD = {"name": "INPUT0", "shape": [1, 2], "datatype": "FP32", "data": [1, 2]}


def tensor(**changes):
    changed = {**GOOD, **changes}
    return {"inputs": [{k: v for k, v in changed.items() if v is not None}]}


CASES = {
    "blank": (b" ", 400, ["expected an object"]),
    "no JSON": (b"hello", 400, ["expected an object", "hello"]),
    "cut off": (json.dumps(tensor()).encode()[:-3], 400, ["the end of the text"]),
    "trailing": (json.dumps(tensor()).encode() + b" x", 400, ["expected the end of the text"]),
    "array": (b"[]", 400, ["expected an object"]),
    "no inputs": ({}, 400, ["inputs", "missing"]),
    "inputs no array": ({"inputs": 7}, 400, ["inputs", "expected an array", "7"]),
    "no name": (tensor(name=None), 400, ["inputs[0].name", "missing"]),
    "no shape": (tensor(shape=None), 400, ["inputs[0].shape", "missing"]),
    "no datatype": (tensor(datatype=None), 400, ["inputs[0].datatype", "missing"]),
    "no data": (tensor(data=None), 400, ["inputs[0]", "missing"]),
    "name no string": (tensor(name=1), 400, ["inputs[0].name", "expected a string"]),
    "wrong name": (tensor(name="INPUT7"), 400, ["unexpected inference input 'INPUT7'"]),
    "wrong datatype": (tensor(datatype="INT32"), 400, ["INT32", "FP32"]),
    "unknown datatype": (tensor(datatype="FP33"), 400, ["inputs[0].datatype", "FP33"]),
    "too few elements": (tensor(data=[1]), 400, ["expected 2 elements, got 1"]),
    "too many elements": (tensor(data=[1, 2, 3]), 400, ["expected 2 elements"]),
    "wrong rank": (tensor(shape=[2]), 400, ["shape", "INPUT0"]),
    "batch too large": (tensor(shape=[65, 1], data=list(range(65))), 400, ["65", "64"]),
    "negative dimension": (tensor(shape=[-1, 2]), 400, ["inputs[0].shape[0]", "-1"]),
    "fractional dimension": (tensor(shape=[1.5, 2]), 400, ["inputs[0].shape[0]", "1.5"]),
    "huge shape": (tensor(shape=[10**9, 10**9]), 400, ["inputs[0].data"]),
    "overflowing shape": (tensor(shape=[2**62, 2**62]), 400, ["exceed maximum size"]),
    "string for number": (tensor(data=[1, "x"]), 400, ["inputs[0].data[1]", "x"]),
    "null for number": (tensor(data=[1, None]), 400, ["inputs[0].data[1]", "null"]),
    "beyond FP64": (b'{"inputs":[{"name":"INPUT0","shape":[1,1],"datatype":"FP32","data":[1e309]}]}', 400, ["1e309"]),
    "deep nesting": (
        b'{"inputs":[{"name":"INPUT0","shape":[1,1],"datatype":"FP32","data":' + b"[" * 500 + b"]" * 500 + b"}]}",
        400, ["nesting depth exceeds"],
    ),
    "deep elsewhere": (b'{"x":' + b"[" * 100000 + b"}", 400, ["nesting depth exceeds"]),
    "name twice": ({"inputs": [GOOD, GOOD]}, 400, ["input 'INPUT0' already exists in request"]),
    "member twice": (b'{"inputs":[],"inputs":[]}', 400, ["inputs", "once"]),
    "no such output": ({**tensor(), "outputs": [{"name": "OUTPUT9"}]}, 400, ["OUTPUT9"]),
    "id no string": ({**tensor(), "id": 7}, 400, ["'id'", "expected a string"]),
    "parameter an object": ({**tensor(), "parameters": {"p": {}}}, 400, ["'p'", "invalid type"]),
    "reserved parameter": ({**tensor(), "parameters": {"triton_x": 1}}, 400, ["reserved for Triton"]),
    "negative timeout": ({**tensor(), "parameters": {"timeout": -1}}, 400, ["parameters.timeout"]),
    "binary without data": (tensor(data=None, parameters={"binary_data_size": 8}), 400, ["INPUT0", "8"]),
    "two kinds of data": (tensor(parameters={"binary_data_size": 8}), 400, ["more than one"]),
    "control character": (b'{"inputs":[{"name":"a\nb"}]}', 400, ["inputs[0].name"]),
    "broken UTF-8": (b'{"id":"\xff"}', 400, ["UTF-8"]),
    "lone surrogate": (rb'{"id":"\ud800"}', 400, ["lone surrogates"]),
    "shared memory": (
        tensor(data=None, parameters={"shared_memory_region": "r", "shared_memory_byte_size": 8}),
        404, ["Unable to find shared memory region: 'r'"],
    ),
    "classification below 0": (
        {**tensor(), "outputs": [{"name": "OUTPUT0", "parameters": {"classification": -1}}]},
        400, ["outputs[0].parameters.classification", "-1"],
    ),
    "sequence start no boolean": ({**tensor(), "parameters": {"sequence_start": 1}}, 400, ["parameters.sequence_start"]),
    "sequence end null": ({**tensor(), "parameters": {"sequence_end": None}}, 400, ["parameters.sequence_end"]),
    "sequence id below 0": ({**tensor(), "parameters": {"sequence_id": -1}}, 400, ["parameters.sequence_id"]),
    "sequence id a boolean": ({**tensor(), "parameters": {"sequence_id": True}}, 400, ["parameters.sequence_id"]),
    "priority with a fraction": ({**tensor(), "parameters": {"priority": 1.5}}, 400, ["parameters.priority"]),
    "timeout a string": ({**tensor(), "parameters": {"timeout": "1"}}, 400, ["parameters.timeout"]),
    "binary output a string": ({**tensor(), "parameters": {"binary_data_output": "true"}}, 400, ["binary_data_output"]),
    "headers an object": ({**tensor(), "parameters": {"headers": {"a": "b"}}}, 400, ["'headers'", "invalid type"]),
    "parameter an array": ({**tensor(), "parameters": {"p": [1]}}, 400, ["'p'", "invalid type"]),
    "parameter null": ({**tensor(), "parameters": {"p": None}}, 400, ["'p'", "invalid type"]),
}


@pytest.mark.parametrize("case", CASES)
def test_a_bad_request_is_refused_by_name(server, case):
    body, status, words = CASES[case]
    if not isinstance(body, bytes):
        body = json.dumps(body).encode()
    answer = server.ask("/v2/models/identity/infer", body)
    assert answer.status == status, answer.text
    assert answer.headers["Content-Type"] == "application/json"
    message = json.loads(answer.body)["error"]
    for word in words:
        assert word in message
    assert server.ask("/v2/models/identity/infer", json.dumps(tensor()).encode()).status == 200


HEADERS = {
    "no number": ({"Inference-Header-Content-Length": "x"}, "Unable to parse Inference-Header-Content-Length, got: x"),
    "negative": ({"Inference-Header-Content-Length": "-1"}, "inference header size should be in range"),
    "too large": ({"Inference-Header-Content-Length": "1000000"}, "inference header size should be in range"),
    "out of range": ({"Inference-Header-Content-Length": "9" * 30}, "inference header size should be in range"),
    "surplus": ({"Inference-Header-Content-Length": str(len(json.dumps(tensor())))}, "unexpected additional input data"),
    "not gzip": ({"Content-Encoding": "gzip"}, "not valid gzip"),
}


@pytest.mark.parametrize("case", HEADERS)
def test_bad_headers_are_refused_by_name(server, case):
    headers, words = HEADERS[case]
    answer = server.ask("/v2/models/identity/infer", json.dumps(tensor()).encode() + b"1234", headers=headers)
    assert answer.status == 400 and words in json.loads(answer.body)["error"]


def test_unknown_things_are_named(server):
    body = json.dumps(tensor()).encode()
    assert server.ask("/v2/models/nope/infer", body).text == '{"error":"Request for unknown model: \'nope\' is not found"}'
    assert server.ask("/v2/models/identity/versions/x/infer", body).status in (400, 404)
    assert server.ask("/v2/nowhere").status == 404
    wrong_method = server.ask("/v2/models/identity/infer", method="GET")
    assert wrong_method.status == 405 and wrong_method.headers["Allow"] == "POST"
    assert server.ask("/v2/health/live", b"{}").status == 405


@pytest.mark.parametrize("compressed", [False, True])
def test_a_body_over_the_limit_is_refused_before_it_is_read(start_server, repository, compressed):
    make_identity(repository, "m")
    server = start_server(repository, flags=["--http-max-input-size=100000"])
    body = json.dumps(tensor(data=[0] * 200000)).encode()
    headers = {}
    if compressed:
        body, headers = gzip.compress(body), {"Content-Encoding": "gzip"}
    answer = server.ask("/v2/models/m/infer", body, headers=headers)
    assert answer.status == 413 and "100000" in answer.text and "--http-max-input-size" in answer.text
    assert server.ask("/v2/models/m/infer", json.dumps(tensor()).encode()).status == 200


RAW = {
    "no request": b"\x00\x01\x02\r\n\r\n",
    "two lengths": b"POST /v2/models/identity/infer HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello",
    "length and chunks": b"POST /v2/models/identity/infer HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "negative length": b"POST /v2/models/identity/infer HTTP/1.1\r\nHost: x\r\nContent-Length: -5\r\n\r\nhello",
}


@pytest.mark.parametrize("case", RAW)
def test_broken_framing_is_refused(server, case):
    with socket.create_connection(("localhost", server.http_port), timeout=PATIENCE) as connection:
        connection.sendall(RAW[case])
        connection.shutdown(socket.SHUT_WR)
        reply = b""
        while chunk := connection.recv(4096):
            reply += chunk
    assert reply == b"" or reply.startswith(b"HTTP/1.1 400") or reply.startswith(b"HTTP/1.0 400"), reply
    assert server.ask("/v2/health/live").status == 200
