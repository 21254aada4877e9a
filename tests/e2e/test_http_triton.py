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


@contextlib.contextmanager
def start_both(tmp_path_factory, *flags, make=make_models, backends_of=None):
    """nereid and Triton, with the same models; backends_of(side, folder) lays out the backends."""
    models = make(tmp_path_factory.mktemp("models"))
    backends_of = backends_of or (lambda side, folder: side.backends(folder))
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
