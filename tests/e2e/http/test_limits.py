# SPDX-License-Identifier: Apache-2.0
"""What is refused when the server holds all that it may: connections (reserved ones) and bytes."""
import contextlib
import http.client
import json
import resource
import socket
import threading

import numpy as np
import proc
import pytest
import tritonclient.grpc as grpcclient
from conftest import DEADLINE, EVERYTHING, PATIENCE, make_identity, wait_for

INFER = "/v2/models/m/infer"


def body_of(count):
    tensor = {"name": "INPUT0", "shape": [1, count], "datatype": "FP32", "data": [0] * count}
    return json.dumps({"inputs": [tensor]}).encode()


SMALL = body_of(1)


class Client(http.client.HTTPConnection):
    """A connection that is kept open."""

    def __init__(self, server):
        super().__init__("127.0.0.1", server.http_port, timeout=PATIENCE)

    def ask(self, method, path, body=None):
        self.request(method, path, body)
        answer = self.getresponse()
        return answer.status, answer.read().decode(), answer.headers


def test_connections_beyond_the_limit_are_for_health_and_admin(start_server, repository):
    make_identity(repository, "m")
    server = start_server(repository, flags=["--http-max-connections=4", "--model-control-mode=explicit", "--load-model=m"])
    # Those that ask for readiness when the server starts are closed by now or soon.
    held = [Client(server) for _ in range(4)]
    wait_for("four connections with room", lambda: all(c.ask("POST", INFER, SMALL)[0] == 200 for c in held))
    late = Client(server)
    assert late.ask("GET", "/v2/health/ready")[0] == 200
    assert late.ask("POST", "/v2/repository/index", b"")[0] == 200
    status, text, headers = late.ask("POST", INFER, SMALL)
    assert status == 503 and "as many connections as it may (4)" in text
    assert headers["Connection"] == "close"
    late.close()
    assert held[0].ask("POST", INFER, SMALL)[0] == 200  # whoever was there goes on
    held.pop().close()

    def room_again():
        with_room = Client(server)
        status = with_room.ask("POST", INFER, SMALL)[0]
        with_room.close()
        return status == 200

    wait_for("room", room_again)
    for client in held:
        client.close()


FEW = ["prlimit", "--nofile=256:256"]  # of which clients may have 192, all ports together


def ask_over_grpc(server):
    with grpcclient.InferenceServerClient(f"localhost:{server.grpc_port}") as client:
        tensor = grpcclient.InferInput("INPUT0", [1, 1], "FP32").set_data_from_numpy(np.array([[7]], np.float32))
        return client.infer("m", [tensor], client_timeout=DEADLINE).as_numpy("OUTPUT0")[0, 0]


def test_few_descriptors_lower_the_limit_of_connections(start_server, repository):
    """Of those who are served, all ports together; operators have their own."""
    make_identity(repository, "m")
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    server = start_server(repository, flags=[*EVERYTHING], wrapper=FEW)
    assert "HTTP: at most 192 connections, not 10000: the process may open 256 descriptors, which all ports share" in server.log
    assert "gRPC: at most 192 connections, not 10000" in server.log
    open_now = len(proc.descriptors(server.process.pid))
    held = [Client(server) for _ in range(192 - open_now + 8)]
    served = [client.ask("GET", "/v2/health/live")[0] for client in held]
    assert set(served) == {200}
    statuses = [client.ask("POST", INFER, SMALL)[0] for client in held]
    assert statuses[:100] == [200] * 100 and statuses[-1] == 503
    assert server.ask("/metrics", port=server.metrics_port).status == 200
    assert server.ask("/v2/repository/models/m/load", b"{}").status == 200
    for client in held:
        client.close()
    assert resource.getrlimit(resource.RLIMIT_NOFILE) == (soft, hard)
    wait_for("room", lambda: server.ask(INFER, SMALL).status == 200)
    assert ask_over_grpc(server) == 7


@pytest.mark.parametrize("where", ["http", "grpc", "metrics", "all"])
def test_connections_that_never_sent_a_byte_give_way(start_server, repository, where):
    """More than there are descriptors, at one port or three."""
    make_identity(repository, "m")
    server = start_server(repository, flags=[*EVERYTHING, "--http-header-timeout-ms=0", "--grpc-handshake-timeout-ms=0"], wrapper=FEW)
    ports = {"http": server.http_port, "grpc": server.grpc_port, "metrics": server.metrics_port}
    ports = ports.values() if where == "all" else [ports[where]]
    with contextlib.ExitStack() as stack:
        for port in [port for port in ports for _ in range(200 if where == "all" else 400)]:
            silent = stack.enter_context(socket.socket())
            silent.setblocking(False)
            silent.connect_ex(("127.0.0.1", port))
        assert server.ask("/v2/health/live").status == 200
        assert server.ask("/metrics", port=server.metrics_port).status == 200
        assert ask_over_grpc(server) == 7
        wait_for("inference", lambda: server.ask(INFER, SMALL).status == 200)
        assert server.ask("/v2/repository/models/m/load", b"{}").status == 200


def test_bytes_beyond_the_budget_are_refused(start_server, repository):
    """Bodies and the tensors that come out of JSON are counted together; small requests go on."""
    slow = 'parameters { key: "execute_delay_ms" value { string_value: "2000" } }'
    make_identity(repository, "slow", more=slow)
    make_identity(repository, "m")
    server = start_server(repository, flags=["--http-max-inflight-bytes=1000000"])
    large = body_of(150_000)  # 450 kB of text and 600 kB of FP32
    status, text, _ = Client(server).ask("POST", INFER, large)
    assert status == 503 and "as many bytes of requests as it may" in text
    held = body_of(80_000)  # 240 kB and 320 kB: one fits
    answers = []
    threads = [
        threading.Thread(target=lambda: answers.append(Client(server).ask("POST", "/v2/models/slow/infer", held)[0]))
        for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for _ in range(20):
        assert Client(server).ask("POST", INFER, SMALL)[0] == 200
    for thread in threads:
        thread.join()
    assert set(answers) == {200, 503}
    for _ in range(2):  # all of it is given back, a moment after the client has its reply
        wait_for("room", lambda: Client(server).ask("POST", INFER, held)[0] == 200)


def test_long_replies_count_too(start_server, repository):
    """An index of 160 KB, where answers may hold 64 KiB; who scrapes is not meant."""
    for i in range(800):
        make_identity(repository, f"{i:04}" + "x" * 150)
    server = start_server(repository, flags=["--model-control-mode=explicit", "--http-max-inflight-bytes=32768"])
    answer = server.ask("/v2/repository/index", b"")
    assert answer.status == 503 and "as many bytes of answers as it may" in answer.text
    assert server.ask("/v2/health/ready").status == 200
    assert server.ask("/metrics", port=server.metrics_port).status == 200
