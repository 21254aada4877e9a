# SPDX-License-Identifier: Apache-2.0
"""Clients, and the requests that they send."""
import concurrent.futures
import contextlib
import dataclasses
import json
import os
import pathlib
import re
import secrets
import subprocess
import sys
import urllib.request

import numpy

POST = pathlib.Path(__file__).with_name("post.lua")


@dataclasses.dataclass
class Request:
    model: str
    body: pathlib.Path
    json_size: int = 0  # bytes of JSON before binary tensors
    rows: int = 1  # in its batch
    grpc: str = ""  # the method, for requests over gRPC
    streams: bool = False  # the method takes any number of messages
    sequences: int = 0  # live at once
    pause_ms: int = 0  # that a connection makes between two requests, on average: so servers are asked at one rate
    distinct: bool = False  # no two are the same, in this run or another


def json_request(directory, model, array, binary_out=False):
    data = [float(str(x)) for x in array.ravel()]  # the shortest decimal of a float32
    content = {"inputs": [dict(tensor(array), data=data)]}
    if binary_out:
        content["parameters"] = {"binary_data_output": True}
    body = directory / f"{model}.json"
    body.write_text(json.dumps(content))
    return Request(model, body, rows=len(array))


def distinct_request(directory, model, array):
    """The first three numbers of the tensor are another request's than the others'."""
    content = {"inputs": [dict(tensor(array), data=["%DISTINCT%", *array.ravel()[3:].tolist()])]}
    body = directory / f"{model}.distinct"
    body.write_text(json.dumps(content).replace('"%DISTINCT%"', "%DISTINCT%"))
    return Request(model, body, rows=len(array), distinct=True)


def sequence_request(directory, model, array, sequences, pause_ms=0):
    content = {"parameters": "%PARAMETERS%", "inputs": [dict(tensor(array), data=array.ravel().tolist())]}
    body = directory / f"{model}.sequence"
    body.write_text(json.dumps(content).replace('"%PARAMETERS%"', "%PARAMETERS%"))
    return Request(model, body, rows=len(array), sequences=sequences, pause_ms=pause_ms)


@contextlib.contextmanager
def live_sequences(url, request):
    """Starts them, and ends them afterwards."""
    text = request.body.read_text() if request.sequences else ""

    def tell(who, **flags):
        body = text.replace("%PARAMETERS%", json.dumps(dict(sequence_id=who, **flags))).encode()
        with urllib.request.urlopen(url, body, timeout=60) as reply:
            reply.read()

    def tell_all(**flags):
        with concurrent.futures.ThreadPoolExecutor(100) as threads:
            list(threads.map(lambda who: tell(who, **flags), range(1, request.sequences + 1)))

    tell_all(sequence_start=True)
    yield
    tell_all(sequence_start=True, sequence_end=True)  # some have ended already, with the requests that wrk gave up


def binary_request(directory, model, array, binary_out=True):
    content = {"inputs": [dict(tensor(array), parameters={"binary_data_size": array.nbytes})],
               "parameters": {"binary_data_output": binary_out}}
    head = json.dumps(content).encode()
    body = directory / f"{model}.binary"
    body.write_bytes(head + array.tobytes())
    return Request(model, body, len(head), rows=len(array))


def tensor(array):
    assert array.dtype == numpy.float32
    return {"name": "INPUT0", "datatype": "FP32", "shape": array.shape}


def wrk(url, request, connections, seconds):
    """Requests, requests a second, percentiles in microseconds."""
    environment = dict(os.environ, NEREID_BENCH_BODY=str(request.body))
    if request.json_size:
        environment["NEREID_BENCH_JSON"] = str(request.json_size)
    if request.sequences:
        environment["NEREID_BENCH_SEQUENCES"] = str(request.sequences)
    if request.pause_ms:
        environment["NEREID_BENCH_PAUSE"] = str(request.pause_ms)
    if request.distinct:
        environment["NEREID_BENCH_DISTINCT"] = str(secrets.randbelow(1 << 24))  # FP32 holds it
    command = ["wrk", f"-t{min(2, connections)}", f"-c{connections}", f"-d{seconds}s", "--timeout", "30s", "-s", str(POST), url]
    output = subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout
    requests, duration, errors, p50, p99, _ = map(float, re.search(r"RESULT (.*)", output).group(1).split())
    if errors or not requests:
        sys.exit(f"{url}: {errors:.0f} errors\n{output}")
    return {"requests": requests, "rps": requests / (duration / 1e6), "p50": p50, "p99": p99}


def grpc_request(directory, model, array, method="ModelInfer", shared=None):
    """The message with its prefix, as it goes over the wire. `shared`: parameters for a tensor in shared memory, by its offset."""
    from tritonclient.grpc import service_pb2  # for those who measure gRPC
    message = service_pb2.ModelInferRequest(model_name=model)
    given = message.inputs.add(name="INPUT0", datatype="FP32", shape=array.shape)
    if shared:
        output = message.outputs.add(name="OUTPUT0")
        for place, parameters in ((given, shared(0)), (output, shared(array.nbytes))):
            for name, value in parameters.items():
                setattr(place.parameters[name], "string_param" if isinstance(value, str) else "int64_param", value)
    else:
        message.raw_input_contents.append(array.tobytes())
    content = message.SerializeToString()
    body = directory / f"{model}.{method}"
    body.write_bytes(b"\0" + len(content).to_bytes(4, "big") + content)
    return Request(model, body, rows=len(array), grpc=f"/inference.GRPCInferenceService/{method}", streams="Stream" in method)


def grpc(program, port, request, load, seconds):
    """As wrk. `load`: connections, and calls or messages that each keeps in flight."""
    connections, in_flight = load
    command = [program, port, request.grpc, request.body, connections, in_flight, seconds, *(["stream"] if request.streams else [])]
    output = subprocess.run(list(map(str, command)), capture_output=True, text=True, check=True).stdout
    requests, duration, errors, p50, p99 = map(float, output.split()[1:])
    if errors or not requests:
        sys.exit(f"gRPC, port {port}: {errors:.0f} errors\n{output}")
    return {"requests": requests, "rps": requests / (duration / 1e6), "p50": p50, "p99": p99}


def curl(url, request):
    """Milliseconds of one large request; the reply is read and dropped."""
    command = ["curl", "-s", "-o", "/dev/null", "-w", "%{http_code} %{time_total}", "--data-binary", f"@{request.body}",
               "-H", "Expect:", "-H", "Content-Type: application/octet-stream"]
    if request.json_size:
        command += ["-H", f"Inference-Header-Content-Length: {request.json_size}"]
    status, seconds = subprocess.run([*command, url], capture_output=True, text=True, check=True).stdout.split()
    if status != "200":
        sys.exit(f"{url}: status {status}")
    return {"ms": float(seconds) * 1000}
