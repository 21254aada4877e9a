# SPDX-License-Identifier: Apache-2.0
"""The same requests over HTTP to nereid and to Triton 2.51: status and body are alike.

What differs on purpose is in docs/compatibility.md and is not asked here.
"""
import concurrent.futures
import contextlib
import gzip
import json
import socket

import pytest
from grpc_sides import NEREID, TRITON, SideStarter, make_models, stop

CODES = ("UNKNOWN", "INTERNAL", "NOT_FOUND", "INVALID_ARG", "UNAVAILABLE", "UNSUPPORTED", "ALREADY_EXISTS", "CANCELLED")
BINARY = {"name": "INPUT0", "datatype": "INT32", "shape": [1, 2], "parameters": {"binary_data_size": 8}}


def infer(model="t_int32", data=(1, 2), shape=(1, 2), datatype="INT32", **more):
    tensor = {"name": "INPUT0", "datatype": datatype, "shape": list(shape), "data": list(data)}
    return f"/v2/models/{model}/infer", json.dumps({"inputs": [tensor], **more}).encode()


def infer_with(**members):
    """An input with more members, or others."""
    tensor = {"name": "INPUT0", "datatype": "INT32", "shape": [1, 2], "data": [1, 2], **members}
    return "/v2/models/t_int32/infer", json.dumps({"inputs": [{k: v for k, v in tensor.items() if v is not ...}]}).encode()


def output_with(**parameters):
    return infer(outputs=[{"name": "OUTPUT0", "parameters": parameters}])


def binary(*tensors, blob):
    head = json.dumps({"inputs": tensors}).encode()
    return "/v2/models/t_int32/infer", head + blob, {"Inference-Header-Content-Length": str(len(head))}


def generate(model, route="generate", **members):
    return f"/v2/models/{model}/{route}", json.dumps(members).encode()


def post(path, **members):
    return path, json.dumps(members).encode()


ALIKE = {
    # endpoints
    "live": ("/v2/health/live",),
    "ready": ("/v2/health/ready",),
    "a slash at the end": ("/v2/",),
    "no route": ("/nope",),
    "metadata": ("/v2/models/t_int32",),
    "of a version": ("/v2/models/t_int32/versions/1",),
    "of two versions": ("/v2/models/two_versions",),
    "of one of two versions": ("/v2/models/two_versions/versions/1",),
    "of the other of two versions": ("/v2/models/two_versions/versions/3",),
    "of an absent version": ("/v2/models/t_int32/versions/9",),
    "of no version": ("/v2/models/t_int32/versions/x",),
    "of an absent model": ("/v2/models/none",),
    "readiness": ("/v2/models/t_int32/ready",),
    "of an absent model, readiness": ("/v2/models/none/ready",),
    "of an absent version, readiness": ("/v2/models/t_int32/versions/9/ready",),
    "of an absent model, config": ("/v2/models/none/config",),
    "config": ("/v2/models/t_int32/config",),
    "config of a decoupled model": ("/v2/models/repeat/config",),
    "of an absent model, stats": ("/v2/models/none/stats",),
    "of an absent version, stats": ("/v2/models/t_int32/versions/9/stats",),
    "index": ("/v2/repository/index", b""),
    "index of what is ready": post("/v2/repository/index", ready=True),
    "index, by GET": ("/v2/repository/index",),
    "index of a repository": ("/v2/repository/r/index", b""),
    "load": ("/v2/repository/models/canary/load", b""),
    "load of a repository": ("/v2/repository/r/models/canary/load", b""),
    "unload of an absent model": ("/v2/repository/models/none/unload", b""),
    "logging": ("/v2/logging",),
    "logging, nothing new": post("/v2/logging", log_verbose_level=0),
    "logging, a file": post("/v2/logging", log_file="/x"),
    "logging, an unknown setting": post("/v2/logging", what=1),
    "tracing": ("/v2/trace/setting",),
    "tracing of a model": ("/v2/models/t_int32/trace/setting",),
    "tracing of an absent model": ("/v2/models/none/trace/setting",),
    "tracing, a file": post("/v2/trace/setting", trace_file="/x"),
    "tracing, no rate": post("/v2/trace/setting", trace_rate="x"),
    "tracing of a version": ("/v2/models/t_int32/versions/1/trace/setting",),
    "memory": ("/v2/systemsharedmemory/status",),
    "an unknown region": ("/v2/systemsharedmemory/region/r/status",),
    "memory of GPUs": ("/v2/cudasharedmemory/status",),
    "an unknown region of GPUs": ("/v2/cudasharedmemory/region/r/status",),
    # inferences
    "infer": infer(),
    "infer, by GET": ("/v2/models/t_int32/infer",),
    "an id": infer(id="x"),
    "parameters": infer(parameters={"a": 1, "b": "s", "c": True, "d": 0.5}),
    "parameters with a meaning": infer("tell", (1,), (1,), parameters={
        "sequence_id": 9, "sequence_start": True, "priority": 3, "timeout": 100, "mine": -5}),
    "an unknown member": infer(what=1),
    "null for an output's parameters": infer(outputs=[{"name": "OUTPUT0", "parameters": None}]),
    "null for an input's parameters": ("/v2/models/t_int32/infer", json.dumps({"inputs": [
        {"name": "INPUT0", "datatype": "INT32", "shape": [1, 2], "data": [1, 2], "parameters": None}]}).encode()),
    "nothing at all": ("/v2/models/t_int32/infer", b""),
    **{f"a model's error, {code}": infer("tell", (1,), (1,), parameters={"code": code}) for code in CODES},
    "an absent model, infer": infer("none"),
    "a decoupled model, infer": infer("repeat", shape=(2,)),
    "an empty list of inputs": ("/v2/models/t_int32/infer", b'{"inputs":[]}'),
    "another type": infer(datatype="FP32"),
    "another shape": infer(shape=(2,)),
    "nested data": infer(data=([1, 2],)),
    "booleans": infer("t_bool", (True, False), datatype="BOOL"),
    "FP64": infer("t_fp64", (0.1, 1e300), datatype="FP64"),
    "texts": infer("t_bytes", ("a", "ü"), datatype="BYTES"),
    "the largest number": infer("t_uint64", (2**64 - 1, 0), datatype="UINT64"),
    "an output": infer(outputs=[{"name": "OUTPUT0"}]),
    "an unknown output": infer(outputs=[{"name": "X"}]),
    "classes": infer("rows", (1, 2, 3), (1, 3), "FP32", outputs=[{"name": "OUTPUT0", "parameters": {"classification": 2}}]),
    "a binary output": infer(outputs=[{"name": "OUTPUT0", "parameters": {"binary_data": True}}]),
    "all outputs binary": infer(parameters={"binary_data_output": True}),
    "a listed output beside all binary": infer(outputs=[{"name": "OUTPUT0"}], parameters={"binary_data_output": True}),
    "a binary input": binary(BINARY, blob=b"\1\0\0\0\2\0\0\0"),
    "an output without bytes": ("/v2/models/t_int32/infer", b"", {"Inference-Header-Content-Length": "0"}),
    "nothing but bytes": ("/v2/models/t_int32/infer", b"\1\0\0\0", {"Inference-Header-Content-Length": "0"}),
    "a head longer than the body": ("/v2/models/t_int32/infer", b"{}", {"Inference-Header-Content-Length": "99"}),
    # what means nothing is passed over
    "a byte order mark": (infer()[0], b"\xef\xbb\xbf" + infer()[1]),
    "a zero at the end": (infer()[0], infer()[1] + b"\0"),
    "an output twice": infer(outputs=[{"name": "OUTPUT0"}] * 2),
    "an output twice, first binary": infer(outputs=[{"name": "OUTPUT0", "parameters": {"binary_data": True}}, {"name": "OUTPUT0"}]),
    "an input's parameters of another kind": infer_with(parameters=[1]),
    "an output's parameters of another kind": infer(outputs=[{"name": "OUTPUT0", "parameters": "x"}]),
    "an input's own parameters": infer_with(parameters={"mine": [1], "other": None}),
    "an output's own parameters": infer(outputs=[{"name": "OUTPUT0", "parameters": {"mine": {}}}]),
    "elements where there are none": infer("flat", (1, 2), (0,)),
    "elements where there are none in a row": infer(data=(1, 2), shape=(1, 0)),
    "no elements": infer("flat", (), (0,)),
    "no elements in a row": infer(data=(), shape=(1, 0)),
    "no elements, binary": binary({**BINARY, "shape": [1, 0], "parameters": {"binary_data_size": 0}}, blob=b""),
    "beyond FP32": infer("t_fp32", (1e39, -1e300), datatype="FP32"),
    "a parameter beyond 63 bits": infer("tell", (1,), (1,), parameters={"mine": 2**63}),
    "a parameter beyond 64 bits": infer("tell", (1,), (1,), parameters={"mine": 2**64, "other": -(2**63) - 1}),
    "texts of any bytes": ("/v2/models/t_bytes/infer", json.dumps({"what": "?", "inputs": [
        {"name": "INPUT0", "datatype": "BYTES", "shape": [1, 2], "data": ["?", "a?"]}]}).encode().replace(b"?", b"\xff")),
    "a load of no object": ("/v2/repository/models/canary/load", b"[]"),
    "a load with a byte order mark": ("/v2/repository/models/canary/load", b"\xef\xbb\xbf{}"),
    "an unload that cannot be read": ("/v2/repository/models/none/unload", b"{"),
    "an unload with parameters of another kind": post("/v2/repository/models/none/unload", parameters=[1]),
    "an unload of dependents, not said by a boolean": post("/v2/repository/models/none/unload", parameters={"unload_dependents": 1}),
    "index, of no object": ("/v2/repository/index", b"[]"),
    "generate with a byte order mark": ("/v2/models/t_int32/generate", b'\xef\xbb\xbf{"INPUT0":1}'),
    "generate, an empty list": generate("t_int32", INPUT0=[]),
    "generate, an empty list of texts": generate("t_bytes", INPUT0=[]),
    "generate, an empty list without batches": generate("flat", INPUT0=[]),
    "generate, texts of any bytes": ("/v2/models/t_bytes/generate", b'{"INPUT0":"\xff"}'),
    "gzip": (infer()[0], gzip.compress(infer()[1]), {"Content-Encoding": "gzip"}),
    "another coding": (*infer(), {"Content-Encoding": "br"}),
    # generate
    "generate": generate("t_int32", INPUT0=5),
    "generate with parameters": generate("t_int32", INPUT0=5, parameters={"x": 1}, id="g"),
    "generate with names that infer knows": generate("tell", INPUT0=1, priority=4, timeout=9, sequence_id=4, sequence_start=True,
                                                     triton_x=1, parameters={"sequence_end": True, "headers": "x"}),
    "generate, one response": generate("repeat", INPUT0=5),
    "generate, a stream": generate("repeat", "generate_stream", INPUT0=[5, 6]),
    "generate, a stream with an error": generate("repeat", "generate_stream", INPUT0=[5, -6]),
    "generate, an absent model": generate("none", INPUT0=5),
}


REGION = {"shared_memory_region": "r", "shared_memory_byte_size": 8}
REGISTER = "/v2/systemsharedmemory/region/r/register"
LOAD = "/v2/repository/models/canary/load"
CONFIG = json.dumps({"backend": "identity", "max_batch_size": 4, "input": [{"name": "INPUT0", "data_type": "TYPE_FP32", "dims": [-1]}],
                     "output": [{"name": "OUTPUT0", "data_type": "TYPE_FP32", "dims": [-1]}]})

# What both refuse: nereid begins with Triton's words. The status of a client's mistake is 400, where Triton also says 500.
WORDS = {
    "no inputs": ("/v2/models/t_int32/infer", b"{}"),
    "a list": ("/v2/models/t_int32/infer", b"[]"),
    "null": ("/v2/models/t_int32/infer", b"null"),
    "inputs of another kind": ("/v2/models/t_int32/infer", b'{"inputs":{}}'),
    "an input of another kind": ("/v2/models/t_int32/infer", b'{"inputs":[1]}'),
    **{f"an input without {key}": infer_with(**{key: ...}) for key in ("name", "datatype", "shape", "data")},
    **{f"an input with {key} of another kind": infer_with(**{key: {}}) for key in ("name", "datatype", "shape", "data")},
    "an unknown type": infer(datatype="INT33"),
    "a type in small letters": infer(datatype="int32"),
    **{f"a dimension that is {text}": infer_with(shape=[1, json.loads(text)]) for text in ('"2"', "1.5", "-1", "true", "[2]", str(2**64))},
    "too few elements": infer(data=(1,)),
    "too many elements": infer(data=(1, 2, 3)),
    "a text for a number": infer(data=("a", 2)),
    "a fraction for an integer": infer(data=(1.5, 2)),
    "null for a number": infer(data=(None, 2)),
    "below 0 for unsigned": infer("t_uint8", (-1, 2), datatype="UINT8"),
    "beyond 64 bits": infer("t_int64", (2**63, 2), datatype="INT64"),
    "a text for FP32": infer("t_fp32", ("a", 2), datatype="FP32"),
    "a number for a boolean": infer("t_bool", (1, 0), datatype="BOOL"),
    "a number for a text": infer("t_bytes", (1, "a"), datatype="BYTES"),
    "too few texts": infer("t_bytes", ("a",), datatype="BYTES"),
    "too many texts": infer("t_bytes", ("a", "b", "c"), datatype="BYTES"),
    "no rows": infer(data=(), shape=(0, 2)),
    "no rows, with an id": infer(data=(), shape=(0, 2), id="x"),
    "no rows, but elements": infer(data=(1, 2), shape=(0, 2)),
    "no rows of texts": infer("t_bytes", (), (0, 2), "BYTES"),
    "no rows, binary": binary({**BINARY, "shape": [0, 2], "parameters": {"binary_data_size": 0}}, blob=b""),
    "no rows of another shape": infer(data=(), shape=(0, 2, 1)),
    "an input twice": ("/v2/models/t_int32/infer", json.dumps({"inputs": [json.loads(infer()[1])["inputs"][0]] * 2}).encode()),
    "a batch too large": infer(data=[1] * 9, shape=(9, 1)),
    "another shape": infer(data=(1, 2), shape=(1, 2, 1)),
    "outputs of another kind": infer(outputs={}),
    "an output of another kind": infer(outputs=[1]),
    "an output without a name": infer(outputs=[{}]),
    "an output's name of another kind": infer(outputs=[{"name": 1}]),
    **{f"an output with {parameters}": output_with(**parameters) for parameters in (
        {"binary_data": 1}, {"classification": "1"}, {"classification": -1}, {"shared_memory_region": 1}, REGION,
        {**REGION, "shared_memory_byte_size": "8"}, {**REGION, "classification": 1}, {**REGION, "binary_data": True})},
    **{f"an input with {parameters}": infer_with(data=..., parameters=parameters) for parameters in (
        {"binary_data_size": 8}, {"binary_data_size": "8"}, {"binary_data_size": -8}, {"shared_memory_region": 1}, REGION,
        {"shared_memory_byte_size": 8}, {**REGION, "shared_memory_byte_size": "8"}, {**REGION, "binary_data_size": 8})},
    **{f"data and {parameters}": infer_with(parameters=parameters) for parameters in (
        {"binary_data_size": 8}, REGION, {**REGION, "binary_data_size": 8})},
    **{f"parameters of {text}": infer(parameters=json.loads(text)) for text in ("[]", "null", "1")},
    **{f"a request with {parameters}": infer(parameters=parameters) for parameters in (
        {"sequence_id": -1}, {"sequence_id": 1.5}, {"sequence_id": True}, {"sequence_id": "s" * 129}, {"sequence_start": 1},
        {"sequence_end": "true"}, {"priority": "1"}, {"priority": -1}, {"timeout": 1.5}, {"timeout": -1}, {"timeout": 2**64},
        {"binary_data_output": 1}, {"triton_x": 1}, {"mine": [1]}, {"mine": None})},
    "an id of another kind": infer(id=1),
    "fewer bytes than are told": binary(BINARY, blob=bytes(7)),
    "more bytes than are told": binary(BINARY, blob=bytes(9)),
    "bytes nobody told of": binary({**BINARY, "parameters": {}, "data": [1, 2]}, blob=bytes(4)),
    "other bytes than the shape's": binary({**BINARY, "parameters": {"binary_data_size": 4}}, blob=bytes(4)),
    "a head below 0": (*infer(), {"Inference-Header-Content-Length": "-1"}),
    "a head beyond 64 bits": (*infer(), {"Inference-Header-Content-Length": "9" * 20}),
    "a version beyond 64 bits": ("/v2/models/t_int32/versions/99999999999999999999/infer", infer()[1]),
    "generate, a list": ("/v2/models/t_int32/generate", b"[]"),
    **{f"generate with {value}": generate("t_int32", INPUT0=value) for value in ("x", 1.5, None, {}, [1, "x"])},
    "generate with a text": generate("t_bytes", INPUT0=1),
    "generate, an input twice": ("/v2/models/t_int32/generate", b'{"INPUT0":1,"INPUT0":2}'),
    **{f"generate with a parameter {value}": generate("t_int32", INPUT0=1, mine=value) for value in ([1], {"a": 1}, None)},
    "generate, parameters of another kind": generate("t_int32", INPUT0=1, parameters=1),
    "generate, a parameter in parameters": generate("t_int32", INPUT0=1, parameters={"a": [1]}),
    "generate, an id of another kind": generate("t_int32", INPUT0=1, id=1),
    "a load of an absent model": ("/v2/repository/models/none/load", b""),
    "a load with parameters of another kind": post(LOAD, parameters=1),
    **{f"a load with {parameters}": post(LOAD, parameters=parameters) for parameters in (
        {"what": "x"}, {"config": 1}, {"config": "x"}, {"config": ""}, {"config": '{"what":1}'}, {"file:1/x": "YQ=="}, {"file:1/x": 1},
        {"config": CONFIG, "file:../x": "YQ=="}, {"config": CONFIG, "file:": "YQ=="})},
    "index, ready of another kind": post("/v2/repository/index", ready=1),
    **{f"a region with {members}": post(REGISTER, **members) for members in (
        {}, {"key": 1}, {"key": "/k"}, {"byte_size": 8}, {"key": "/k", "byte_size": "8"}, {"key": "/k", "byte_size": -8},
        {"key": "/k", "byte_size": 8, "offset": "1"}, {"key": "/none", "byte_size": 8}, {"key": "", "byte_size": 8},
        {"key": "/a/b", "byte_size": 8})},
    "a region of no object": (REGISTER, b"[]"),
}


@contextlib.contextmanager
def start_both(tmp_path_factory, *flags, make=make_models, backends_of=None):
    """nereid and Triton, with the same models; backends_of(side, directory) lays out the backends."""
    models = make(tmp_path_factory.mktemp("models"))
    backends_of = backends_of or (lambda side, directory: side.backends(directory))
    starters = [SideStarter(side, backends_of(side, tmp_path_factory.mktemp("backends")), tmp_path_factory.mktemp(side.name))
                for side in (NEREID, TRITON)]
    try:
        with concurrent.futures.ThreadPoolExecutor() as threads:
            yield list(threads.map(lambda start: start(models, flags=["--load-model=*", *flags]), starters))
    finally:
        for starter in starters:
            stop(starter)


@pytest.fixture(scope="module")
def both(tmp_path_factory):
    with start_both(tmp_path_factory) as servers:
        yield servers


@pytest.fixture(scope="module")
def servers(request, tmp_path_factory):
    """The two by their sides, with the models that the test's module makes."""
    with start_both(tmp_path_factory, make=request.module.make) as servers:
        yield dict(zip((NEREID, TRITON), servers))


@pytest.fixture(params=(NEREID, TRITON), ids=lambda side: side.name)
def side(request):
    return request.param


def answer(server, path, body=None, headers=None):
    reply = server.ask(path, body, headers=headers)
    try:
        content = json.loads(reply.body)
    except ValueError:
        content = reply.body
    return reply.status, "Inference-Header-Content-Length" in reply.headers, content


@pytest.mark.parametrize("name", ALIKE)
def test_both_answer_alike(both, name):
    ours, theirs = (answer(server, *ALIKE[name]) for server in both)
    if isinstance(theirs[-1], list):  # models and versions have no order
        ours, theirs = ((*rest, sorted(map(str, rows))) for *rest, rows in (ours, theirs))
    assert ours == theirs


def test_both_name_the_same_extensions(both):
    ours, theirs = (json.loads(server.ask("/v2").body) for server in both)
    assert ours["extensions"] == theirs["extensions"]


INFER, JSON = infer("t_int32")
LENGTH = f"Content-Length: {len(JSON)}"
CHUNKED = b"%x\r\n%s\r\n0\r\n\r\n" % (len(JSON), JSON)


def head(*fields, line=f"POST {INFER} HTTP/1.1", host="Host: x", body=JSON):
    return "\r\n".join([line, *([host] if host else []), *fields]).encode() + b"\r\n\r\n" + body


def got(target="/v2/models/t_int32", method="GET", version="1.1", **more):
    return head(line=f"{method} {target} HTTP/{version}", body=b"", **more)


HEADS = {  # as old, odd and careless clients write them
    "no Host": head(LENGTH, host=None),
    "an empty Host": head(LENGTH, host="Host:"),
    "another Host": head(LENGTH, host="Host: elsewhere.example:8000"),
    "HTTP/1.0": head(LENGTH, line=f"POST {INFER} HTTP/1.0", host=None),
    "HTTP/1.0 in chunks": head("Transfer-Encoding: chunked", line=f"POST {INFER} HTTP/1.0", body=CHUNKED),
    "a whole URL": head(LENGTH, line=f"POST http://elsewhere:80{INFER} HTTP/1.1"),
    "a whole URL, https": got("HTTPS://x/v2/models/t_int32"),
    "a whole URL without a path": got("http://x"),
    "a query": got("/v2/models/t_int32?a=b&c"),
    "an empty query": got("/v2/models/t_int32?"),
    "a fragment": got("/v2/models/t_int32#x"),
    "an authority": got("x:80", method="CONNECT"),
    "a slash more at the end": got("/v2/models/t_int32/"),
    "two slashes": got("//v2/models/t_int32"),
    "two slashes inside": got("/v2//models/t_int32"),
    "dots": got("/v2/../v2/models/t_int32"),
    "a percent in a word": got("/v2/m%6fdels/t_int32"),
    "bytes beyond ASCII": got("/v2/models/\u00fc"),
    "quotes and braces": got('/v2/models/"{x}"'),
    "a body in GET": head(LENGTH, line="GET /v2/models/t_int32 HTTP/1.1"),
    "no length in POST": got("/v2/models/t_int32/infer", method="POST"),
    "PUT": head(LENGTH, line=f"PUT {INFER} HTTP/1.1"),
    "OPTIONS": got(method="OPTIONS"),
    "DELETE": got(method="DELETE"),
    "chunks": head("Transfer-Encoding: chunked", body=CHUNKED),
    "chunks with a trailer": head("Transfer-Encoding: chunked", body=CHUNKED[:-2] + b"X: y\r\n\r\n"),
    "a length with zeroes": head("Content-Length: 000%d" % len(JSON)),
    "an offer to wait": head(LENGTH, "Expect: 100-continue"),
    "an offer of another protocol": got(host="Host: x\r\nConnection: Upgrade\r\nUpgrade: h2c"),
    "blanks in the line": head(LENGTH, line=f"POST   {INFER} HTTP/1.1"),
    "300 fields": head(LENGTH, *[f"X{i}: y" for i in range(300)]),
    "a field of 8000 bytes": head(LENGTH, "X: " + "y" * 8000),
    "bytes beyond ASCII in a value": head(LENGTH, "X: \u00fc"),
    "credentials and cookies": head(LENGTH, "Authorization: Basic YTpi", 'Cookie: a=b; c="d'),
    "pipelined": head(LENGTH) * 3,
}


def said(server, vector):
    """(status, body) of each reply; the server's next one would come at once."""
    with socket.create_connection(("127.0.0.1", server.http_port), 30) as connection:
        connection.sendall(vector)
        found = []
        reader = connection.makefile("rb")
        while len(found) < (3 if vector.count(b"POST") == 3 else 1):
            status = reader.readline().split()[1]
            fields = dict(line.lower().split(b": ", 1) if b": " in line else (line, b"") for line in iter(reader.readline, b"\r\n"))
            if status != b"100":
                found.append((status, reader.read(int(fields[b"content-length"]))))
        return found


@pytest.mark.parametrize("name", HEADS)
def test_both_take_heads_alike(both, name):
    ours, theirs = (said(server, HEADS[name]) for server in both)
    assert ours == theirs


def test_both_take_a_large_binary_input(both):
    """Beyond 64 MiB, with default flags: --http-max-input-size is about other bodies."""
    blob = bytes(72 << 20)
    tensor = {**BINARY, "shape": [1, len(blob) // 4], "parameters": {"binary_data_size": len(blob)}}
    path, body, headers = binary(tensor, blob=blob)
    body = body.replace(b'"inputs"', b'"parameters":{"binary_data_output":true},"inputs"', 1)
    # urllib says that it is a form, of which Triton's HTTP library takes less
    headers |= {"Inference-Header-Content-Length": str(len(body) - len(blob)), "Content-Type": "application/octet-stream"}
    ours, theirs = (server.ask(path, body, headers=headers) for server in both)
    assert ours.status == theirs.status == 200 and ours.body == theirs.body and len(ours.body) > len(blob)


@pytest.mark.parametrize("name", WORDS)
def test_nereid_begins_with_tritons_words(both, name):
    ours, theirs = (answer(server, *WORDS[name]) for server in both)
    assert ours[-1]["error"].startswith(theirs[-1]["error"])
    assert ours[0] == theirs[0] or (ours[0] == 400 and theirs[0] == 500)
