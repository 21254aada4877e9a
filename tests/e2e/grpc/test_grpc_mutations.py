# SPDX-License-Identifier: Apache-2.0
"""Mutated conversations over gRPC: frames, HPACK, messages and protobuf of any method with bytes changed, cut, doubled.

NEREID_GRPC_MUTATIONS says how many (5,000), NEREID_SEED which. Conversation `i` of a seed is always the same.
"""
import gzip
import os
import random

import pytest
from conftest import PATIENCE, wait_for
from http2 import (
    ACK, CONTINUATION, END_HEADERS, END_STREAM, INITIAL_WINDOW_SIZE, MAX_FRAME_SIZE, PING, PREFACE, PRIORITY, RST_STREAM,
    SERVICE, SETTINGS, Connection, data, frame, headers, infer_request, message, pending, request_block, reset_stream,
    settings, window_update,
)
from oracle import survives
from safety import on_threads
from tritonclient.grpc import service_pb2

pytestmark = pytest.mark.slow

MUTATIONS = int(os.environ.get("NEREID_GRPC_MUTATIONS", 5000))
SEED = int(os.environ.get("NEREID_SEED", 1))
WORKERS = 4
METHODS = [
    "ModelInfer", "ModelInfer", "ModelInfer", "ModelStreamInfer", "ModelStreamInfer", "ServerLive", "ServerReady", "ModelReady",
    "ServerMetadata", "ModelMetadata", "ModelConfig", "ModelStatistics", "RepositoryIndex", "SystemSharedMemoryStatus",
    "SystemSharedMemoryRegister", "SystemSharedMemoryUnregister", "CudaSharedMemoryStatus", "TraceSetting", "LogSettings", "x",
]
NAMED = service_pb2.ModelReadyRequest(name="t_fp32", version="1").SerializeToString()
TYPED = service_pb2.ModelInferRequest(model_name="t_int32")
TYPED.inputs.add(name="INPUT0", datatype="INT32", shape=(1, 4)).contents.int_contents.extend([1, -2, 3, 1 << 30])
PAYLOADS = [
    infer_request(), infer_request(id="x"), infer_request("t_bytes", (1, 1), [b"\4\0\0\0abcd"], "BYTES"), TYPED.SerializeToString(),
    NAMED, b"", service_pb2.SystemSharedMemoryRegisterRequest(name="a", key="/b", byte_size=9).SerializeToString(),
]
FIELDS = [("grpc-timeout", "100m"), ("grpc-timeout", "1n"), ("grpc-encoding", "gzip"), ("grpc-encoding", "deflate"), ("x-bin", "AAAA"),
          ("grpc-accept-encoding", "gzip,deflate"), ("content-length", "9"), ("triton_grpc_error", "true"), ("te", "gzip")]


def part(chance, stream):
    """Something honest on a stream: a call, or a frame of any kind."""
    if chance.random() < 0.7:
        payload = chance.choice(PAYLOADS)
        packed = chance.random() < 0.2
        body = message(gzip.compress(payload) if packed else payload, int(packed)) * chance.choice([1, 1, 1, 3])
        fields = chance.sample(FIELDS, chance.choice([0, 0, 1, 2]))
        block = request_block(SERVICE + chance.choice(METHODS), *fields)
        cut = chance.randrange(len(block)) if chance.random() < 0.2 else len(block)
        begin = [headers(stream, block[:cut], END_HEADERS if cut == len(block) else 0)]
        if cut < len(block):
            begin.append(frame(CONTINUATION, END_HEADERS, stream, block[cut:]))
        return b"".join(begin) + data(stream, body, chance.choice([END_STREAM, END_STREAM, 0]), chance.choice([7, 50, 16384]))
    return chance.choice([
        settings([(INITIAL_WINDOW_SIZE, chance.randrange(1 << 16)), (MAX_FRAME_SIZE, 1 << 14)]), frame(SETTINGS, ACK),
        frame(PING, payload=bytes(8)), window_update(chance.randrange(1, 1 << 20), chance.choice([0, stream])), reset_stream(stream),
        frame(PRIORITY, 0, stream, bytes(5)), frame(RST_STREAM, 0, 0, bytes(4)), frame(chance.randrange(256), 0, stream, bytes(9)),
    ])


def mutated(i):
    chance = random.Random(SEED << 40 | i)
    talk = b"".join(part(chance, 2 * k + 1) for k in range(chance.choice([1, 2, 4, 8])))
    for _ in range(chance.choice([0, 1, 1, 1, 2, 3, 5, 9])):
        at = chance.randrange(len(talk) + 1)
        size = chance.randint(1, 40)
        talk = chance.choice([
            talk[:at] + bytes([chance.randrange(256)]) + talk[at + 1 :],
            talk[:at] + talk[at + size :],
            talk[: at + size] + talk[at : at + size] * chance.choice([1, 2, 50]) + talk[at + size :],
            talk[:at] + chance.randbytes(size) + talk[at:],
            talk[:at] + chance.choice([b"\xff" * 4, b"\0" * 4, b"\x7f\xff\xff\xff", b"\x80\0\0\0"]) + talk[at + 4 :],
            talk[:at] + part(chance, 2 * chance.randrange(8) + 1) + talk[at:],
        ])
    return talk


def converse(server, i):
    begin = random.Random(i).random() < 0.9
    with Connection(server, begin=begin) as connection:
        connection.send(b"" if begin else PREFACE + settings()[: i % 9], mutated(i))
        end = 20
        while not connection.closed and end > 0 and connection.socket_has_input(0.005):
            connection._read()  # decodes: what the server sends are frames, and its fields HPACK's
            end -= 1


def test_mutated_conversations_are_survived(target):
    with survives(target):
        on_threads(WORKERS, lambda worker: [converse(target, i) for i in range(worker, MUTATIONS, WORKERS)], deadline=2 * PATIENCE)
        wait_for("nothing in flight", lambda: pending(target) == 0)
