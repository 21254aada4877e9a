# SPDX-License-Identifier: Apache-2.0
"""Row 10: what a request makes of its bytes. 300 shapes, one after the other on release servers, its peak of memory measured.

The measure is the largest of the body, the tensors that it describes and the reply it asks for: JSON of two bytes an element
describes FP64 of eight, and a byte that is answered as JSON has up to five. NEREID_AMPLIFICATION=print shows all of them, and
NEREID_LARGEST is the size of the largest (4 MiB).
"""
import gzip
import json
import os
import re
import struct

import pytest
from conftest import ELEMENT_SIZES, EVERYTHING
from oracle import MIB, peak, reset_peak, rss, survives
from wire import CANARY_BODY, connect, receive_reply, request, send

pytestmark = [pytest.mark.slow, pytest.mark.long]

MOST = 5
FREE = {  # bytes that are not counted; what is counted by number has a bound that does not grow with the request
    "configuration": 24 * MIB,  # 65,536 values, on a route that only administrators need
    "inputs": 4 * MIB,  # 4,096
}
SMALL = [64 << 10, 256 << 10]
LARGEST = int(os.environ.get("NEREID_LARGEST", 4 * MIB))
SHOW = os.environ.get("NEREID_AMPLIFICATION") == "print"


def infer(datatype, shape, data, **more):
    return (b'{"inputs":[{"name":"INPUT0","shape":%s,"datatype":"%s","data":%s}]' % (json.dumps(shape).encode(), datatype.encode(), data)
            + b"".join(b',"%s":%s' % (k.encode(), v) for k, v in more.items()) + b"}")


def binary(datatype, count, data, reply="binary", **more):
    tensor = {"name": "INPUT0", "shape": [1, count], "datatype": datatype, "parameters": {"binary_data_size": len(data)}}
    head = json.dumps({"inputs": [tensor], "parameters": {"binary_data_output": reply == "binary"}, **more}).encode()
    return head + data, [f"Inference-Header-Content-Length: {len(head)}"]


ELEMENTS = {  # as JSON
    "BOOL": [b"true", b"false"], "BYTES": [b'""', b'"\\u0000"', b'"' + b"a" * 100 + b'"'],
    **{t: [b"0", b"100"] for t in ELEMENT_SIZES if "INT" in t}, **{t: [b"0", b"1.5", b"1e-5"] for t in ("FP16", "BF16", "FP32", "FP64")},
}
PATTERNS = {"zeros": b"\0", "ones": b"\1", "high": b"\x7f", "all": b"\xff"}


def json_tensors(size):
    for datatype, elements in ELEMENTS.items():
        for element in elements:
            count = size // (len(element) + 1)
            described = count * (ELEMENT_SIZES[datatype] or 4)
            data = b"[" + b",".join([element] * count) + b"]"
            yield f"JSON {datatype} {element[:8]!r}", f"t_{datatype.lower()}", infer(datatype, [1, count], data), [], described
    count = size // 2
    ones = b",".join([b"1"] * count)
    yield "JSON nested", "t_fp32", infer("FP32", [1, count], b"[[" + ones + b"]]"), [], 4 * count
    yield "JSON each in an array", "t_fp32", infer("FP32", [1, count // 2], b"[" + b",".join([b"[1]"] * (count // 2)) + b"]"), [], 2 * count
    yield "JSON late", "t_fp64", (b'{"inputs":[{"data":[' + ones + b'],"name":"INPUT0","shape":[1,%d],"datatype":"FP64"}]}' % count), [], 8 * count
    yield "JSON to binary", "t_fp64", infer("FP64", [1, count], b"[" + ones + b"]", parameters=b'{"binary_data_output":true}'), [], 8 * count
    yield "JSON wrong", "t_fp64", infer("FP64", [1, count + 1], b"[" + ones + b"]"), [], 8 * count


def binary_tensors(size):
    for datatype, width in ELEMENT_SIZES.items():
        for pattern, byte in PATTERNS.items():
            if datatype == "BYTES" and pattern != "zeros" or datatype == "BOOL" and byte > b"\1":
                continue
            count = size // (width or 4)
            data = byte * (count * (width or 4))
            yield f"binary {datatype} {pattern}", f"t_{datatype.lower()}", *binary(datatype, count, data), 0
            yield f"binary {datatype} {pattern} to JSON", f"t_{datatype.lower()}", *binary(datatype, count, data, "json"), 0
    long = struct.pack("<I", size) + bytes(size)
    yield "one long element of BYTES to JSON", "t_bytes", *binary("BYTES", 1, long, "json"), 0
    body, headers = binary("FP32", size // 4, bytes(size))
    yield "binary, packed reply", "t_fp32", body, [*headers, "Accept-Encoding: gzip"], 0
    yield "packed", "t_fp32", gzip.compress(body, 1), [*headers, "Content-Encoding: gzip"], len(body)
    yield "raw", "t_fp32", bytes(size), ["Inference-Header-Content-Length: 0"], 0
    yield "raw, wrong", "t_fp32", bytes(size + 1), ["Inference-Header-Content-Length: 0"], 0


def around(size):
    """Bytes in the JSON that are no tensor."""
    fill = {"strings": b'"",', "numbers": b"0,", "arrays": b"[],", "objects": b"{},", "nested": b"[[[]]],"}
    for name, unit in fill.items():
        value = b"[" + unit * (size // len(unit)) + b"0]"
        yield f"unknown member of {name}", "t_fp32", CANARY_BODY[:-1] + b',"x":' + value + b"}", [], 0
        yield f"control JSON of {name}", "/v2/repository/index", b'{"x":' + value + b"}", [], 0
        config = json.dumps({"parameters": {"config": '{"input":' + value.decode() + "}"}}).encode()
        yield f"configuration of {name}", "/v2/repository/models/t_int8/load", config, [], 0
    for name, value in {
        "id": b'"' + b"a" * size + b'"', "id of escapes": b'"' + b"\\n" * (size // 2) + b'"', "id of unicode": b'"' + b"\\u00e4" * (size // 6) + b'"',
    }.items():
        yield name, "t_fp32", CANARY_BODY[:-1] + b',"id":' + value + b"}", [], 0
    pairs = {
        "parameters": b'"":0,', "parameters of text": b'"":"",', "long parameters": b'"a":"' + b"x" * 1000 + b'",', "one name": b'"' + b"n" * size + b'":0,',
        "one value": b'"v":"' + b"n" * size + b'",',
    }
    for name, unit in pairs.items():
        value = b"{" + unit * max(1, size // len(unit)) + b'"z":0}'
        yield name, "t_fp32", CANARY_BODY[:-1] + b',"parameters":' + value + b"}", [], 0
        yield f"{name} of an input", "t_fp32", CANARY_BODY.replace(b'"data"', b'"parameters":' + value + b',"data"'), [], 0
        yield f"{name} of an output", "t_fp32", CANARY_BODY[:-1] + b',"outputs":[{"name":"OUTPUT0","parameters":' + value + b"}]}", [], 0
        yield f"{name} of a load", "/v2/repository/models/t_int8/load", b'{"parameters":' + value + b"}", [], 0
    for name, unit in {"inputs": b'{"name":"%d","shape":[],"datatype":"FP32","data":[1]},', "inputs without elements": b'{"name":"%d","shape":[0],"datatype":"FP32"},'}.items():
        rows = b"".join(unit % i for i in range(min(4096, size // len(unit))))
        yield name, "t_fp32", b'{"inputs":[' + rows[:-1] + b"]}", [], 0
    rows = b"".join(b'{"name":"%d"},' % i for i in range(min(4096, size // 14)))
    yield "outputs", "t_fp32", CANARY_BODY[:-1] + b',"outputs":[' + rows[:-1] + b"]}", [], 0
    yield "long names", "t_fp32", CANARY_BODY.replace(b"INPUT0", b"I" * size), [], 0
    yield "blanks", "t_fp32", b" " * size + CANARY_BODY, [], 0
    yield "dimensions", "t_fp32", CANARY_BODY.replace(b"[1,4]", b"[" + b"1," * (size // 2) + b"4]"), [], 0
    yield "digits", "t_fp32", infer("FP32", [1, 1], b"[0." + b"3" * size + b"]"), [], 0
    yield "nesting", "t_fp32", infer("FP32", [1, 1], b"[" * size), [], 0
    yield "no JSON", "t_fp32", b"x" * size, [], 0
    yield "no model", "none", b"x" * size, [], 0


def shapes(size, *kinds):
    for name, target, body, headers, described in (shape for kind in kinds for shape in kind(size)):
        path = target if target.startswith("/") else f"/v2/models/{target}/infer"
        yield f"{name}, {size >> 10} KiB", path, body, headers, described


def send_one(server, path, body, headers=()):
    with connect(server) as connection:
        send(connection, request("POST", path, body, headers))
        return receive_reply(connection)


def measure(server, free, name, path, body, headers, described):
    """(times the measure beyond what is free, times the body, status, name)"""
    before = rss(server)
    reset_peak(server)
    reply = send_one(server, path, body, headers)
    grown = peak(server) - before
    free = max(free, FREE.get(re.match("[a-z]*", name)[0], 0))
    return (grown - free) / max(len(body), described, len(reply.body)), grown / len(body), reply.status, name


def test_no_request_makes_much_of_its_bytes(start_release, targets):
    """Large shapes get a fresh server each: one that ran before has blocks at hand for a moment."""
    server = start_release(targets, flags=EVERYTHING)
    with survives(server, singing=False):
        rows = [measure(server, MIB, *shape) for size in SMALL for shape in shapes(size, json_tensors, binary_tensors, around)]
    for shape in shapes(LARGEST, json_tensors, around):
        server = start_release(targets, flags=EVERYTHING)
        send_one(server, "/v2/models/canary/infer", CANARY_BODY)  # the code's own pages
        rows.append(measure(server, MIB, *shape))
        server.stop()
    rows.sort(reverse=True)
    for factor, of_body, status, name in rows if SHOW else rows[:5]:
        print(f"{factor:6.2f} times its measure, {of_body:6.2f} times its body: {name} ({status})")
    assert len(rows) >= 300
    assert rows[0][0] <= MOST, rows[0]
    assert sum(row[2] == 200 for row in rows) >= 150  # they are not just refused
