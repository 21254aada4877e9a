# SPDX-License-Identifier: Apache-2.0
"""Large bodies for models on GPUs are received into pinned memory, from where they are copied: which ones, how much of the pool clients
can hold, and that each model reads the bytes of its own request. The driver is played (gpus.py)."""
import contextlib
import gzip
import http.client
import json
import re
import socket
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import tritonclient.grpc as grpc
from conftest import make_identity, wait_for
from gpus import fake_gpus
from http2 import END_STREAM, OK, Connection, infer_request, message
from python_models import make_python
from test_gpu_identity import ALLOCATIONS, MIB, ON_GPU, client_of, echoes, first_look, in_stream, noise, tensor
from wire import chunked, connect, request, send, take_reply

LEAST = 256 << 10  # of tensors
POOL = 64 * MIB
FLAGS = [f"--pinned-memory-pool-byte-size={POOL}", "--http-body-timeout-ms=0", "--http-write-timeout-ms=0"]  # on a loaded machine
BODIES, REPLIES = POOL // 2, POOL // 8 * 3  # the shares
OFF = "optimization { input_pinned_memory { enable: false } }"
PYTHON = """
def execute(self, requests):
    return [pb_utils.InferenceResponse([pb_utils.Tensor("OUTPUT0", r.inputs()[0].as_numpy())]) for r in requests]
"""


@pytest.fixture
def gpus(tmp_path):
    return fake_gpus(tmp_path)


@pytest.fixture
def server(start_server, repository, gpus):
    make_identity(repository, "m", "TYPE_UINT8", more=ON_GPU)
    make_identity(repository, "cpu", "TYPE_UINT8")
    make_identity(repository, "off", "TYPE_UINT8", more=ON_GPU + OFF)
    return start_server(repository, variables=gpus.variables, flags=FLAGS)


def pool_used(server):
    text = server.ask("/metrics", port=server.metrics_port).text
    return int(float(re.search(r"^nv_pinned_memory_pool_used_bytes (\S+)", text, re.MULTILINE)[1]))


def answered(server):
    text = server.ask("/metrics", port=server.metrics_port).text
    return sum(int(count) for count in re.findall(r"^nv_inference_request_success\{.*\} (\d+)", text, re.MULTILINE))


def binary(data, announced=None):
    """(JSON part, tensor) of a request for the tensor as it is."""
    head = {"inputs": [{"name": "INPUT0", "shape": list(data.shape), "datatype": "UINT8", "parameters": {"binary_data_size": announced or data.size}}],
            "parameters": {"binary_data_output": True}}
    return json.dumps(head).encode(), data.tobytes()


def post(data, model="m", headers=(), **more):
    head, tensor = binary(data, **more)
    return request("POST", f"/v2/models/{model}/infer", head + tensor, [f"Inference-Header-Content-Length: {len(head)}", *headers])


def receive(connection):
    """The next reply; there is none behind it."""
    reply = http.client.HTTPResponse(connection)
    reply.begin()
    reply.body = reply.read()
    return reply


def tensor_of(reply):
    """The output of a reply in binary."""
    assert reply.status == 200, reply.body[:300]
    return reply.body[int(reply.headers["inference-header-content-length"]):]


@contextlib.contextmanager
def begun(server, text):
    """(a connection that has sent the headers of the request `text`, which were looked at; the rest of it)"""
    head, end, body = text.partition(b"\r\n\r\n")
    with connect(server) as connection:
        send(connection, head + b"\r\nExpect: 100-continue" + end)
        assert connection.recv(100).startswith(b"HTTP/1.1 100")
        yield connection, body


def test_a_large_body_is_copied_to_the_gpu_from_where_it_was_received(server, gpus):
    """9 MiB that are put into pinned memory first are copied by 4 MiB."""
    first_look(gpus)
    data = noise(9 * MIB)

    def raw():
        text = request("POST", "/v2/models/m/infer", data.tobytes(), ["Inference-Header-Content-Length: 0"])
        with connect(server) as connection:
            send(connection, text)
            assert tensor_of(receive(connection)) == data.tobytes()

    def unary():
        with grpc.InferenceServerClient(f"127.0.0.1:{server.grpc_port}") as client:
            given = grpc.InferInput("INPUT0", data.shape, "UINT8").set_data_from_numpy(data)
            assert np.array_equal(client.infer("m", [given], model_version="1").as_numpy("OUTPUT0"), data)

    def stream():
        found = in_stream(server, "m", [data, data[:, ::-1]])
        assert np.array_equal(found[0], data) and np.array_equal(found[1], data[:, ::-1])

    with client_of(server) as client:
        def ask():
            assert echoes(client, data)

        ask()
        for way, count in (ask, 1), (raw, 1), (unary, 1), (stream, 2):
            wait_for("the pool", lambda: pool_used(server) == 0)  # else it may be too small for two ways
            before = gpus.counters()
            way()
            asked = gpus.counters().since(before)
            assert (asked["copies_to_device"], asked["bytes_to_device"]) == (count, count * data.size), way
            assert asked["pageable_copies"] == asked["syncs"] == 0, way
            assert {name: asked[name] for name in ALLOCATIONS} == dict.fromkeys(ALLOCATIONS, 0), way
        before = gpus.counters()
        assert echoes(client, data, "off")
        assert gpus.counters().since(before)["copies_to_device"] == 3
    wait_for("the pool", lambda: pool_used(server) == 0)


def test_only_large_bodies_of_a_known_length_for_models_on_gpus_are_in_pinned_memory(server):
    large = noise(LEAST + 1000)
    head, tensor_bytes = binary(large)
    length = f"Inference-Header-Content-Length: {len(head)}"
    infer = "/v2/models/%s/infer"
    text = json.dumps({"inputs": [{"name": "INPUT0", "shape": list(large.shape), "datatype": "UINT8", "data": large.tolist()[0]}]}).encode()
    for name, sent, pinned in (
        ("large", post(large), True),
        ("version", post(large).replace(b"/m/", b"/m/versions/1/", 1), True),
        ("least", post(noise(LEAST)), True),
        ("smaller", post(noise(LEAST - 1)), False),
        ("CPU", post(large, "cpu"), False),
        ("not wanted", post(large, "off"), False),
        ("no tensors", request("POST", infer % "m", text), False),
        ("packed", request("POST", infer % "m", gzip.compress(head + tensor_bytes, 1), [length, "Content-Encoding: gzip"]), False),
        ("chunked", chunked("POST", infer % "m", [head, tensor_bytes[:LEAST], tensor_bytes[LEAST:]], [length]), False),
    ):
        with begun(server, sent) as (connection, rest):
            assert (pool_used(server) > 0) == pinned, name
            send(connection, rest)
            reply = receive(connection)
            assert reply.status == 200, (name, reply.body[:300])
            data = bytes(json.loads(reply.body)["outputs"][0]["data"]) if name == "no tensors" else tensor_of(reply)
            assert data == (large if len(data) == large.size else noise(len(data))).tobytes(), name
        wait_for("the pool", lambda: pool_used(server) == 0)


def test_which_messages_are_in_pinned_memory_their_first_bytes_decide(server):
    large, small = noise(2 * MIB), noise(LEAST // 2)

    def proto(model, data=large, **more):
        return infer_request(model, data.shape, [data.tobytes()], "UINT8", **more)

    def sent(connection, payload, first, packed=False):
        """The stream of a call with so many bytes of the message."""
        stream = connection.call(messages=[message(payload, packed)[:first]], more=[("grpc-encoding", "gzip")], end=False)
        connection.ping()
        return stream

    for name, payload, packed, first, pinned, answer in (
        ("large", proto("m"), False, 200, True, large),
        ("version", proto("m", model_version="1"), False, 200, True, large),
        ("another version", proto("m", model_version="7"), False, 200, False, None),
        ("no version", proto("m", model_version="x"), False, 200, False, None),
        ("no such model", proto("x" * 1000), False, 2000, False, None),
        ("small", proto("m", small), False, 200, False, small),
        ("CPU", proto("cpu"), False, 200, False, large),
        ("packed", gzip.compress(proto("m"), 1), True, 200, False, large),
        ("a part of the name", proto("m"), False, 7, False, large),  # 5 are before it
    ):
        with Connection(server) as connection:
            stream = sent(connection, payload, first, packed)
            assert (pool_used(server) > 0) == pinned, name
            connection.upload(stream, message(payload, packed)[first:], END_STREAM)
            result = connection.result(stream)
            assert (result.status == OK) == (answer is not None), (name, result)
            assert answer is None or result.messages[0][1].endswith(answer.tobytes()), name
        wait_for("the pool", lambda: pool_used(server) == 0)
    with Connection(server) as connection:  # who leaves in the middle
        sent(connection, proto("m"), MIB)
        assert pool_used(server) > 0
    wait_for("the pool", lambda: pool_used(server) == 0)


def test_a_python_model_that_reads_on_the_host_takes_nothing_of_the_pool(start_server, repository, gpus):
    config = 'backend: "python"\nmax_batch_size: 8\ninput { name: "INPUT0" data_type: TYPE_UINT8 dims: [ -1 ] }\n' \
             'output { name: "OUTPUT0" data_type: TYPE_UINT8 dims: [ -1 ] }\n' + ON_GPU
    make_python(repository, "m", PYTHON, config=config)
    server = start_server(repository, variables=gpus.variables, flags=FLAGS)
    data = noise(MIB)
    with begun(server, post(data)) as (connection, rest):
        assert pool_used(server) == 0
        send(connection, rest)
        assert tensor_of(receive(connection)) == data.tobytes()


def test_who_announces_and_sends_nothing_has_a_share_of_the_pool(server, gpus):
    """Others go on, on the heap, and their copies through what is left of the pool. Announcing all of it at once gives nothing."""
    first_look(gpus)
    data = noise(5 * MIB)
    with client_of(server) as client, contextlib.ExitStack() as stack:
        assert echoes(client, data)
        wait_for("the pool", lambda: pool_used(server) == 0)
        stack.enter_context(begun(server, post(noise(BODIES))))
        assert pool_used(server) == 0
        for _ in range(8):
            stack.enter_context(begun(server, post(noise(6 * MIB))))
        held = pool_used(server)
        assert 5 * 6 * MIB < held <= BODIES
        before = gpus.counters()
        assert echoes(client, data)
        asked = gpus.counters().since(before)
        assert asked["copies_to_device"] == 2 and asked["pageable_copies"] == 0
        wait_for("the pool", lambda: pool_used(server) == held)
        stack.close()
        wait_for("the pool", lambda: pool_used(server) == 0)
        before = gpus.counters()
        assert echoes(client, data)
        assert gpus.counters().since(before)["copies_to_device"] == 1


def test_who_does_not_read_has_a_share_of_the_pool(server, gpus):
    first_look(gpus)
    size = 7 * MIB
    with client_of(server) as client, contextlib.ExitStack() as stack:
        assert echoes(client, noise(size))
        wait_for("the pool, and the count", lambda: pool_used(server) == 0 and answered(server) >= 1)
        before, slow = answered(server), []
        for i in range(6):
            slow.append(stack.enter_context(connect(server, receive_buffer=4096)))
            send(slow[-1], post(noise(size, i)))
            wait_for("the answer", lambda: answered(server) == before + i + 1)
        held = BODIES // size * size, REPLIES // size * size
        assert sum(held) <= pool_used(server) <= BODIES + REPLIES
        before = gpus.counters()
        assert echoes(client, noise(size))
        asked = gpus.counters().since(before)
        assert asked["copies_to_device"] == 2 and asked["pageable_copies"] == 0
        for i, connection in enumerate(slow):
            assert tensor_of(receive(connection)) == noise(size, i).tobytes()
        wait_for("the pool", lambda: pool_used(server) == 0)


def test_a_body_that_ends_early_is_nobodys(server, gpus):
    """Nor is what another one left in that memory: neither behind a body, nor in place of what did not come."""
    secret, data = np.full((1, 2 * MIB), 0xA5, np.uint8), noise(MIB)
    with connect(server) as connection:
        send(connection, post(secret))
        assert tensor_of(receive(connection)) == secret.tobytes()
    wait_for("the pool", lambda: pool_used(server) == 0)
    before = gpus.counters()
    with connect(server) as connection:  # longer than what is announced of it
        send(connection, post(data, announced=2 * MIB))
        reply = receive(connection)
        assert reply.status == 400 and b"\xa5" not in reply.body, reply.body[:300]
    for end in range(3):
        with begun(server, post(secret)) as (connection, rest):
            assert pool_used(server) > 2 * MIB
            send(connection, rest[: end * MIB])
            connection.shutdown(socket.SHUT_WR)
            assert b"200 OK" not in connection.recv(1000)
        wait_for("the pool", lambda: pool_used(server) == 0)
    assert gpus.counters().since(before)["copies_to_device"] == 0
    with connect(server) as connection:
        send(connection, post(data))
        assert tensor_of(receive(connection)) == data.tobytes()


def receive_next(connection, data):
    """(the next reply, what came behind it)"""
    while True:
        reply, data = take_reply(data)
        if reply is not None:
            return reply, data
        data += connection.recv(MIB)


def test_requests_one_behind_the_other_get_their_own(server):
    sizes = (MIB, 10, 3 * MIB + 1, LEAST, 2 * MIB, LEAST - 1)
    rest = b""
    with connect(server) as connection:
        for i in range(len(sizes) + 1):  # two of them are on the way at any time
            if i < len(sizes):
                send(connection, post(noise(sizes[i], i)))
            if i > 0:
                reply, rest = receive_next(connection, rest)
                assert tensor_of(reply) == noise(sizes[i - 1], i - 1).tobytes(), i
    assert rest == b""


def test_many_at_once_get_their_own_while_the_pool_is_full_and_empty(start_server, repository, gpus):
    make_identity(repository, "m", "TYPE_UINT8", more=ON_GPU)
    server = start_server(repository, variables=gpus.variables, flags=[f"--pinned-memory-pool-byte-size={4 * MIB}"])

    def ask(seed):
        sizes = np.random.default_rng(seed).integers(LEAST // 2, 6 * LEAST, 8)
        with client_of(server) as client:
            assert all(echoes(client, noise(size, seed + i)) for i, size in enumerate(sizes))
        requests = [noise(size, seed - i) for i, size in enumerate(sizes)]
        found = in_stream(server, "m", requests)
        assert all(np.array_equal(found[i], data) for i, data in enumerate(requests)), found.get("errors")

    with ThreadPoolExecutor(6) as threads:
        list(threads.map(ask, range(100, 700, 100)))
    wait_for("the pool", lambda: pool_used(server) == 0)


def test_text_in_a_body_for_a_gpu_is_text(start_server, repository, gpus):
    """Strings, whose lengths the core reads, and a second tensor that is small, out of the same body."""
    (repository / "m/1").mkdir(parents=True)
    (repository / "m/config.pbtxt").write_text("""
        backend: "identity"
        input [ { name: "INPUT0" data_type: TYPE_STRING dims: [ -1 ] }, { name: "INPUT1" data_type: TYPE_UINT8 dims: [ -1 ] } ]
        output [ { name: "OUTPUT0" data_type: TYPE_STRING dims: [ -1 ] }, { name: "OUTPUT1" data_type: TYPE_UINT8 dims: [ -1 ] } ]
    """ + ON_GPU)
    server = start_server(repository, variables=gpus.variables, flags=FLAGS)
    words = np.array([b"", b"x" * MIB, "ä".encode() * 1000], dtype=object)
    bytes_ = noise(3)[0]
    with client_of(server) as client:
        answer = client.infer("m", [tensor(words), tensor(bytes_, "INPUT1")])
        assert np.array_equal(answer.as_numpy("OUTPUT0"), words) and np.array_equal(answer.as_numpy("OUTPUT1"), bytes_)


def test_a_body_may_outlive_its_model(start_server, repository, gpus):
    """Its memory stays until it is answered, that it has nobody to go to."""
    make_identity(repository, "m", "TYPE_UINT8", more=ON_GPU)
    server = start_server(repository, variables=gpus.variables, flags=[*FLAGS, "--model-control-mode=explicit", "--load-model=m"])
    data = noise(MIB)
    with client_of(server) as client:
        with begun(server, post(data)) as (connection, rest):
            assert pool_used(server) > 0
            client.unload_model("m")
            wait_for("the model's end", lambda: not client.is_model_ready("m"))
            send(connection, rest)
            assert receive(connection).status >= 400
        client.load_model("m")
        assert echoes(client, data)
        wait_for("the pool", lambda: pool_used(server) == 0)
        client.unload_model("m")
    wait_for("the pinned memory", lambda: gpus.counters()["host_bytes"] == 0)
