# SPDX-License-Identifier: Apache-2.0
"""Long messages, which workers unpack and read, with one loop for all clients. What the loop does while a worker has one is shown step
by step by tests/unit/frontend/grpc/grpc_work_test.c; here workers come when they like."""
import functools
import gzip
import random

import pytest
from client_memory import mapped, region, register, unregister
from conftest import DEADLINE, EVERYTHING, make_identity, wait_for
from http2 import END_STREAM, INFER, OK, STREAM_INFER, Connection, infer_request, message, reset_stream
from oracle import survives
from tritonclient.grpc import service_pb2

ONE_LOOP = ("--grpc-infer-thread-count=1",)
COUNT = 1 << 19  # numbers of one byte each: 512 KiB become 4 MiB
ROUNDS = 60
GZIP = [("grpc-encoding", "gzip")]


def long_request(id):
    """Typed contents: 0, 1, 2, 3, 0, …"""
    request = service_pb2.ModelInferRequest(model_name="t_int64", id=id)
    tensor = request.inputs.add(name="INPUT0", datatype="INT64", shape=(1, COUNT))
    tensor.contents.int64_contents.extend(i % 4 for i in range(COUNT))
    return request.SerializeToString()


@functools.cache
def long_plain():
    return message(long_request("long"))


@functools.cache
def long_packed():
    return message(gzip.compress(long_request("long"), 1), flag=1)


EXPECTED = b"".join((i % 4).to_bytes(8, "little") for i in range(4)) * (COUNT // 4)
SHORT = infer_request("t_fp32", raw=[bytes(range(16))], id="short")


@pytest.fixture
def repository(repository):
    make_identity(repository, "canary")
    make_identity(repository, "t_fp32")
    make_identity(repository, "t_int64", "TYPE_INT64")
    return repository


def answers(path, result):
    """Id and output of each answer."""
    assert result.status == OK, result
    kind = service_pb2.ModelStreamInferResponse if path == STREAM_INFER else service_pb2.ModelInferResponse
    read = [kind.FromString(text) for _, text in result.messages]
    read = [r.infer_response for r in read] if path == STREAM_INFER else read
    return [(r.id, r.raw_output_contents[0]) for r in read]


@pytest.mark.slow
def test_clients_that_leave_a_worker_with_their_message_harm_nobody(start_server, repository):
    """Each round one client sends a long message and then stays, resets or leaves; another one is answered all the while."""
    server = start_server(repository, flags=(*EVERYTHING, *ONE_LOOP))
    r = random.Random(7)
    with survives(server, singing=False), Connection(server) as other:
        for number in range(ROUNDS):
            packed, path = number % 2 == 0, (INFER, STREAM_INFER)[number // 2 % 2]
            more = [*(GZIP if packed else []), *([("grpc-timeout", f"{r.randrange(1, 30)}m")] if number % 5 == 4 else [])]
            with Connection(server) as client:
                stream = client.call(path, [long_packed() if packed else long_plain()], more)
                assert answers(INFER, other.ask(messages=[message(SHORT)])) == [("short", bytes(range(16)))]
                way = r.choice(["stay", "reset", "leave"])
                if way == "reset":
                    client.send(reset_stream(stream))
                    client.ping()
                elif way == "stay" and number % 5 != 4:
                    assert answers(path, client.result(stream)) == [("long", EXPECTED)]


def test_a_stream_keeps_its_order_around_long_messages(start_server, repository):
    server = start_server(repository, flags=(*EVERYTHING, *ONE_LOOP))
    sent = [("long", long_packed()), ("short", message(SHORT)), ("long", long_plain()), ("long", long_packed()), ("short", message(SHORT))] * 3
    with Connection(server) as client:
        stream = client.call(STREAM_INFER, more=GZIP, end=False)
        client.upload(stream, b"".join(text for _, text in sent), END_STREAM)
        got = answers(STREAM_INFER, client.result(stream))
        assert got == [(name, EXPECTED if name == "long" else bytes(range(16))) for name, _ in sent]


def test_long_inputs_in_shared_memory(start_server, repository):
    """Workers copy them, between reading the request and running it. Clients that leave meanwhile leave nothing in use."""
    server = start_server(repository, flags=(*EVERYTHING, *ONE_LOOP, "--allow-client-shm=true"))
    with region(len(EXPECTED)) as made, survives(server, singing=False):
        made.memory[:] = EXPECTED
        assert register(server, "r", made.key, made.size).status == 200
        request = service_pb2.ModelInferRequest(model_name="t_int64", id="shared")
        tensor = request.inputs.add(name="INPUT0", datatype="INT64", shape=(1, COUNT))
        tensor.parameters["shared_memory_region"].string_param = "r"
        tensor.parameters["shared_memory_byte_size"].int64_param = made.size
        shared = message(request.SerializeToString())
        sent = [("shared", shared), ("short", message(SHORT)), ("long", long_plain()), ("shared", shared)] * 3
        with Connection(server) as client:
            assert answers(INFER, client.ask(messages=[shared])) == [("shared", EXPECTED)]
            got = answers(STREAM_INFER, client.ask(STREAM_INFER, [text for _, text in sent]))
            assert got == [(name, bytes(range(16)) if name == "short" else EXPECTED) for name, _ in sent]
        for number in range(ROUNDS):
            with Connection(server) as client:
                stream = client.call((INFER, STREAM_INFER)[number % 2], [shared])
                if number % 4 < 2:
                    client.send(reset_stream(stream))
                    client.ping()
        assert unregister(server, "r").status == 200
        wait_for("the end of the mapping", lambda: mapped(server, made) == 0)


def test_a_server_that_stops_finishes_the_long_messages_it_has(start_server, repository):
    server = start_server(repository, flags=ONE_LOOP)
    with Connection(server) as client:
        streams = [client.call(path, [long_packed()], GZIP) for path in (INFER, STREAM_INFER) * 4]
        client.ping()  # the server has them all
        server.process.terminate()
        for number, stream in enumerate(streams):
            assert answers((INFER, STREAM_INFER)[number % 2], client.result(stream)) == [("long", EXPECTED)]
    server.process.wait(DEADLINE)
    server.stop()
