# SPDX-License-Identifier: Apache-2.0
"""Sizes, shapes and names that do not fit together, and whose bytes come back (rows 19, 20 and 22)."""
import json
import random
import struct

import pytest
from conftest import ELEMENT_SIZES
from oracle import survives
from wire import CANARY_BODY, check_error, connect, receive_reply, request, send, talk

SIZED = {name: size for name, size in ELEMENT_SIZES.items() if size > 0}


class Client:
    """A connection that is kept from its first request on, and what its server should have counted."""

    def __init__(self, server, survival):
        self.server, self.connection, self.survival = server, None, survival

    def infer(self, model, body, *headers):
        self.connection = self.connection or connect(self.server)
        send(self.connection, request("POST", f"/v2/models/{model}/infer", body, headers))
        reply = receive_reply(self.connection)
        self.survival.count(model, reply.status)
        return reply

    def tensor(self, datatype, shape, data=None, binary=None, **more):
        """One input, as JSON or as bytes behind it."""
        tensor = {"name": "INPUT0", "shape": shape, "datatype": datatype}
        if binary is None:
            tensor["data"] = data
            return self.infer(f"t_{datatype.lower()}", json.dumps({"inputs": [tensor], **more}).encode())
        tensor["parameters"] = {"binary_data_size": more.pop("claimed", len(binary))}
        head = json.dumps({"inputs": [tensor], "parameters": {"binary_data_output": True}, **more}).encode()
        return self.infer(f"t_{datatype.lower()}", head + binary, f"Inference-Header-Content-Length: {len(head)}")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.connection:
            self.connection.close()


def binary_of(reply):
    return reply.body[int(reply.headers["inference-header-content-length"]) :]


@pytest.mark.parametrize("datatype", SIZED)
def test_cve_2025_23327_bytes_that_are_one_less_or_one_more(target, datatype):
    size = 5 * SIZED[datatype]
    zeros = bytes(size + 16)
    with survives(target) as survival, Client(target, survival) as client:
        reply = client.tensor(datatype, [1, 5], binary=zeros[:size])
        assert reply.status == 200 and binary_of(reply) == zeros[:size]
        for there in sorted({0, 1, size - SIZED[datatype], size - 1, size + 1, size + SIZED[datatype], size + 16} - {size}):
            for claimed in (there, size):
                reply = client.tensor(datatype, [1, 5], binary=zeros[:there], claimed=claimed)
                assert reply.status == 400, (there, claimed, reply)
                check_error(reply)
        if datatype not in ("FP16", "BF16"):
            for count in (4, 6, 0):
                assert client.tensor(datatype, [1, 5], [0 if datatype != "BOOL" else False] * count).status == 400


@pytest.mark.once
def test_cve_2025_23323_23324_23326_shapes_against_a_reference(target):
    """Random shapes of every type with a handful of bytes: taken iff they are exactly the shape's, by integers without end."""
    chance = random.Random(23323)
    edges = [0, 1, 2, 3, 4, 5, 7, 8, 255, 2**16, 2**31 - 1, 2**31, 2**32 - 1, 2**32, 2**33, 2**61, 2**62, 2**63 - 1, -1, -2, -(2**63), 2**63, 2**64]
    with survives(target) as survival, Client(target, survival) as client:
        taken = 0
        for _ in range(4000):
            datatype = chance.choice(list(SIZED))
            shape = [chance.choice([1, 1, 1, chance.randint(0, 9), chance.choice(edges)]), chance.choice([chance.randint(0, 6), chance.choice(edges)])]
            if chance.random() < 0.1:
                shape = [chance.choice(edges) for _ in range(chance.randint(0, 6))]
            there = chance.choice([0, 1, 4, 8, 24, max(0, min(480, shape[-1] * SIZED[datatype] if shape else 0))])
            fits = len(shape) == 2 and 1 <= shape[0] <= 8 and 0 <= shape[1] < 2**63 and shape[0] * shape[1] * SIZED[datatype] == there
            reply = client.tensor(datatype, shape, binary=bytes(there))
            assert reply.status == (200 if fits else 400), (datatype, shape, there, reply)
            if reply.status == 400:
                check_error(reply)
            taken += fits
        assert taken > 200


def bytes_element(size, data):
    return struct.pack("<I", size & 0xFFFFFFFF) + data


LIES = {
    "one too many": bytes_element(4, b"abc"),
    "one too few": bytes_element(2, b"abc"),
    "nothing behind": bytes_element(1, b""),
    "half a prefix": b"\x03\0",
    "no prefix": b"",
    "2^31": bytes_element(2**31, b"abc"),
    "2^32 - 1": bytes_element(2**32 - 1, b"abc"),
    "wraps to the next": bytes_element(2**32 - 4, b"") * 2,
    "minus the prefix": bytes_element(-4, b"abcd"),
    "two for one": bytes_element(1, b"a") * 2,
    "the last is cut": bytes_element(1, b"a") + bytes_element(5, b"a"),
    "prefixes that sum to 2^32": bytes_element(2**31, b"a") + bytes_element(2**31, b"b"),
}


def test_cve_2026_24173_24174_24210_prefixes_that_lie(target):
    with survives(target) as survival, Client(target, survival) as client:
        good = bytes_element(3, b"abc") + bytes_element(0, b"")
        reply = client.tensor("BYTES", [1, 2], binary=good)
        assert reply.status == 200 and binary_of(reply) == good
        for name, data in LIES.items():
            for count in (1, 2, 3, 2**30, 2**62):
                reply = client.tensor("BYTES", [1, count], binary=data)
                assert reply.status == 400 or (name == "two for one" and count == 2), (name, count, reply)
                if reply.status == 400:
                    check_error(reply)
        chance = random.Random(24173)
        for _ in range(1000):
            elements = [chance.randbytes(chance.randint(0, 9)) for _ in range(chance.randint(1, 5))]
            sizes = [len(e) + (chance.choice([-5, -1, 1, 2**16, 2**31]) if chance.random() < 0.2 else 0) for e in elements]
            data = b"".join(bytes_element(size, e) for size, e in zip(sizes, elements))
            fits = walk(data, len(elements))
            reply = client.tensor("BYTES", [1, len(elements)], binary=data)
            assert reply.status == (200 if fits else 400), (data, reply)
            assert not fits or binary_of(reply) == data


def walk(data, count):
    """Are these `count` elements and nothing else?"""
    for _ in range(count):
        if len(data) < 4:
            return False
        size = struct.unpack_from("<I", data)[0]
        if len(data) < 4 + size:
            return False
        data = data[4 + size :]
    return not data


INPUT = json.loads(CANARY_BODY)["inputs"][0]
WRONG = {
    "no inputs": {"inputs": []},
    "unknown input": {"inputs": [{**INPUT, "name": "INPUT1"}]},
    "one more input": {"inputs": [INPUT, {**INPUT, "name": "INPUT1"}]},
    "input twice": {"inputs": [INPUT, INPUT]},
    "unknown output": {"inputs": [INPUT], "outputs": [{"name": "OUTPUT1"}]},
    "an input as output": {"inputs": [INPUT], "outputs": [{"name": "INPUT0"}]},
    "empty names": {"inputs": [{**INPUT, "name": ""}]},
    "a name with a zero": {"inputs": [{**INPUT, "name": "INPUT0\0"}]},
    "a name of 256 bytes": {"inputs": [{**INPUT, "name": "I" * 256}]},
    "a name of 255 bytes": {"inputs": [{**INPUT, "name": "I" * 255}]},
    "a name of control bytes": {"inputs": [{**INPUT, "name": "".join(map(chr, range(1, 32))) * 8}]},
    "another type": {"inputs": [{**INPUT, "datatype": "INT32"}]},
    "no type": {"inputs": [{**INPUT, "datatype": "FP31"}]},
    "65 dimensions": {"inputs": [{**INPUT, "shape": [1] * 65}]},
    "64 dimensions": {"inputs": [{**INPUT, "shape": [1] * 64}]},
    "4096 unknown inputs": {"inputs": [{**INPUT, "name": f"I{i}"} for i in range(4096)]},
    "4097 inputs": {"inputs": [{**INPUT, "name": f"I{i}"} for i in range(4097)]},
    "4097 parameters": {"inputs": [INPUT], "parameters": {f"p{i}": i for i in range(4097)}},
    "a reserved parameter": {"inputs": [INPUT], "parameters": {"triton_final_response": True}},
    "priority below 0": {"inputs": [INPUT], "parameters": {"priority": -1}},
    "priority of text": {"inputs": [INPUT], "parameters": {"priority": "1"}},
    "timeout beyond 64 bits": {"inputs": [INPUT], "parameters": {"timeout": 2**64}},
    "binary size below 0": {"inputs": [{**INPUT, "parameters": {"binary_data_size": -1}}]},
    "binary size beyond 64 bits": {"inputs": [{**INPUT, "parameters": {"binary_data_size": 2**64}}]},
}


def test_wrong_tensors_are_refused(target):
    with survives(target) as survival, Client(target, survival) as client:
        for case, body in WRONG.items():
            reply = client.infer("t_fp32", json.dumps(body).encode())
            assert reply.status == 400, (case, reply)
            check_error(reply)


def test_cve_2026_24146_a_hundred_thousand_outputs(target):
    with survives(target) as survival, Client(target, survival) as client:
        for names in (["OUTPUT0"] * 100_000, [f"O{i}" for i in range(100_000)]):
            reply = client.infer("t_fp32", json.dumps({"inputs": [INPUT], "outputs": [{"name": n} for n in names]}).encode())
            assert reply.status == 400, reply
            check_error(reply)


def test_cve_2025_23321_class_counts(target):
    """Each count of each type: strings of numbers, a refusal of the rest, and never a division by the size of nothing."""
    with survives(target) as survival, Client(target, survival) as client:
        for datatype in ELEMENT_SIZES:
            size = ELEMENT_SIZES[datatype] * 3
            data = bytes(size) if size else bytes_element(1, b"a") * 3
            for count in (0, 1, 3, 4, 10**6 + 1, 2**32, 2**63, 2**64 - 1, 2**64, -1, "1", 1.5, True):
                outputs = [{"name": "OUTPUT0", "parameters": {"classification": count, "binary_data": False}}]
                reply = client.tensor(datatype, [1, 3], binary=data, outputs=outputs)
                can = count == 0 or datatype not in ("BOOL", "BYTES")
                good = isinstance(count, int) and not isinstance(count, bool) and 0 <= count < 2**64 and can
                assert reply.status == (200 if good else 400), (datatype, count, reply)
                if good and count:
                    output = json.loads(reply.body)["outputs"][0]
                    assert output["datatype"] == "BYTES" and output["shape"] == [1, min(3, count)] and len(output["data"]) == min(3, count)
                elif not good:
                    check_error(reply)
        survival.successes = {}  # outputs that cannot be classified are refused when the model is done with them
        survival.sent = {}


def test_cve_2026_24146_classes_of_a_million_and_one(target):
    with survives(target) as survival, Client(target, survival) as client:
        for count, status in ((10**6, 200), (10**6 + 1, 400)):
            outputs = [{"name": "OUTPUT0", "parameters": {"classification": 2}}]
            reply = client.tensor("UINT8", [1, count], binary=bytes(count), outputs=outputs)
            assert reply.status == status, reply
            if status == 400:
                assert check_error(reply) == "classification output tensor too large"
        survival.successes = {}
        survival.sent = {}


def test_no_reply_has_a_byte_of_another_request(target):
    """One model is asked for the same and for other sizes again and again: each reply is its own request's bytes."""
    chance = random.Random(22)
    sizes = [0, 1, 3, 16, 63, 64, 65, 1023, 1024, 1025, 4096, 65_536, 70_000, 300_000]
    with survives(target) as survival, Client(target, survival) as one, Client(target, survival) as two:
        for i in range(2000):
            client = chance.choice((one, two))
            size = chance.choice(sizes[:11]) if i % 20 else chance.choice(sizes)
            data = bytes([i % 251]) * size
            reply = client.tensor("UINT8", [1, size], binary=data)
            assert reply.status == 200 and (size == 0 or binary_of(reply) == data), (i, size)
            if size and size <= 1025:
                reply = client.tensor("UINT8", [1, size], list(data))
                assert json.loads(reply.body)["outputs"][0]["data"] == list(data), (i, size)


# --- names

def test_cve_2026_47480_names_in_paths(target):
    names = ["%00", "a%00b", "%0a", "%7f", "%2f", "%2e%2e", "..", ".", "%ff%fe", "%c0%af", "a" * 256, "%41" * 300, "a" * 8000, "%", "%4", "%gg", "%25",
             "%252e", "\x80", "a%0d%0aX: y", "%20", "+", ";", "a;b", "a?b", "%3f", "%23", "'", "%22", "<", "%3cscript%3e"]
    with survives(target):
        for name in names:
            for path in (f"/v2/models/{name}", f"/v2/models/{name}/ready", f"/v2/models/{name}/versions/1/config", f"/v2/models/{name}/stats",
                         f"/v2/models/t_fp32/versions/{name}", f"/v2/systemsharedmemory/region/{name}/status"):
                check_refused(target, request("GET", path, headers=["Connection: close"]))
            for path in (f"/v2/models/{name}/infer", f"/v2/repository/models/{name}/load", f"/v2/repository/models/{name}/unload"):
                check_refused(target, request("POST", path, b"{}", headers=["Connection: close"]))


def check_refused(server, vector):
    (reply,) = talk(server, vector)
    # Unloading a model that does not exist is no error, as in Triton; /v2/models/. and the like are no routes.
    if reply.status == 200:
        assert b"/unload " in vector.splitlines()[0] or b"a?b" in vector.splitlines()[0], (vector, reply)
    else:
        assert reply.status in (400, 404, 405, 500, 501), (vector, reply)
        if reply.body.startswith(b"{"):
            check_error(reply)


def test_cve_2026_47629_versions_are_numbers(target):
    with survives(target):
        for text in ["0", "-1", "+1", "1a", "0x1", "1.0", "1e0", "9223372036854775807", "9223372036854775808", "18446744073709551616", "9" * 200, "%31a", "%2b1"]:
            (reply,) = talk(target, request("GET", f"/v2/models/t_fp32/versions/{text}/config", headers=["Connection: close"]))
            assert reply.status in (400, 404), (text, reply)
            check_error(reply)


def test_cve_2024_0095_no_request_writes_a_line_of_its_own(start_server, targets):
    """Every byte in a name, an id, a header and a parameter: each line of the log begins as lines do, and is printable."""
    server = start_server(targets, flags=["--log-verbose=2", "--model-control-mode=explicit", "--load-model=canary"])
    forged = "E1121 00:00:00.000000 1 forged.cc:1] forged"
    with survives(server, singing=False):
        for byte in range(256):
            raw = bytes([byte])
            escaped = f"%{byte:02x}"
            body = json.dumps({**json.loads(CANARY_BODY), "id": f"a{chr(byte)}{forged}", "parameters": {f"p{chr(byte)}{forged}": f"v{chr(byte)}{forged}"}})
            vectors = [
                request("GET", f"/v2/models/a{escaped}{forged.replace(' ', '%20')}", headers=["Connection: close"]),
                b"GET /v2/models/a" + raw + forged.replace(" ", "_").encode() + b" HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n",
                b"G" + raw + b"ET /v2 HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n",
                b"GET /v2 HTTP/1.1\r\nHost: x\r\nConnection: close\r\nX: a" + raw + forged.encode() + b"\r\n\r\n",
                request("POST", "/v2/models/none/infer", body.encode(), headers=["Connection: close"]),
                request("POST", f"/v2/repository/models/a{escaped}b/load", b"{}", headers=["Connection: close"]),
                request("POST", "/v2/repository/models/none/load", json.dumps({"parameters": {"config": f"{chr(byte)}\n{forged}"}}).encode(), headers=["Connection: close"]),
            ]
            for vector in vectors:
                with connect(server) as connection:
                    send(connection, vector)
                    while connection.recv(65536):
                        pass
    tables = [line for line in server.log.split("\n") if line and line[0] in "+|"]
    for line in server.log.split("\n"):
        if line == "" or line in tables:
            continue
        assert not line.startswith("E1121 00:00:00.000000"), line
        assert line[0] in "IWE" and line[1:5].isdigit() and "] " in line, line
        assert all(c.isprintable() for c in line), line
