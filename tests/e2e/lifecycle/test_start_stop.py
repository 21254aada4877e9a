# SPDX-License-Identifier: Apache-2.0
"""Starts that cannot succeed and stops under load (rows 50 and 51 of the scorecard)."""
import http.client
import json
import signal
import socket
import threading

import pytest
from conftest import DEADLINE, SANITIZER_REPORT, make_faulty, make_identity, wait_for
from faults import PAUSE, Faults
from ports import is_refused

BODY = b'{"inputs":[{"name":"INPUT0","shape":[1,1],"datatype":"FP32","data":[7]}]}'
INFER = "/v2/models/m/infer"
DELAY = 'parameters { key: "execute_delay_ms" value { string_value: "%d" } }'
ACCEPTED = f"HTTP request: POST {INFER}"  # of the verbose log: the request's headers are taken

# ---- stops ----


class Load:
    """Clients that infer again and again on connections that they keep, until the server does not want them any more."""

    def __init__(self, server, clients):
        self.server, self.answers, self.faults = server, [], []
        self.threads = [threading.Thread(target=self.run) for _ in range(clients)]
        for thread in self.threads:
            thread.start()

    def run(self):
        connection = http.client.HTTPConnection("127.0.0.1", self.server.http_port, timeout=DEADLINE)
        try:
            while True:
                try:
                    connection.request("POST", INFER, BODY)
                    reply = connection.getresponse()
                except (http.client.RemoteDisconnected, ConnectionError):
                    return  # closed before this request was accepted: the log must not have it
                try:
                    text = reply.read()
                    assert json.loads(text)["outputs"][0]["data"] == [7] if reply.status == 200 else False, text
                    self.answers.append(reply.status)
                except Exception as fault:  # noqa: B902 - told to whoever joins
                    self.faults.append(repr(fault))
                    return
        finally:
            connection.close()

    def join(self):
        for thread in self.threads:
            thread.join(DEADLINE)
            assert not thread.is_alive(), "a client hangs"
        assert self.faults == []


def count_accepted(server):
    return server.log.count(ACCEPTED)


@pytest.mark.parametrize("moment", [1, 3, 7, 16, 17, 31, 50, 90, 150, 250])
def test_a_stop_under_load_loses_nothing(start_server, repository, moment):
    """SIGTERM after so many answers: what the server took on is answered, idle clients do not delay it."""
    make_identity(repository, "m", more=DELAY % 2 + " instance_group { count: 4 } dynamic_batching { }")
    server = start_server(repository, flags=["--log-verbose=1"])
    idle = [socket.create_connection(("127.0.0.1", server.http_port)) for _ in range(100)]
    for connection in idle[:50]:  # these have been served once
        connection.sendall(b"GET /v2/health/live HTTP/1.1\r\nHost: x\r\n\r\n")
        assert connection.recv(4096).startswith(b"HTTP/1.1 200")
    load = Load(server, 16)
    wait_for("answers", lambda: len(load.answers) >= moment)
    server.stop(signal.SIGTERM)
    load.join()
    assert len(load.answers) == count_accepted(server)
    for connection in idle:
        assert connection.recv(1) == b""
        connection.close()


def kept_connection(server):
    """One that has been served once."""
    connection = http.client.HTTPConnection("127.0.0.1", server.http_port, timeout=DEADLINE)
    connection.request("GET", "/v2/health/live")
    assert connection.getresponse().read() == b""
    return connection


def expect_last_answer(connection):
    reply = connection.getresponse()
    assert reply.status == 200 and reply.headers["Connection"] == "close"
    assert json.loads(reply.read())["outputs"][0]["data"] == [7]


def test_a_request_that_came_before_the_stop_is_answered(start_server, repository, tmp_path):
    """The only loop is held in a reply, so the stop finds requests that nobody has read: on a connection that was idle, and
    on one that no loop has yet."""
    make_identity(repository, "m")
    faults = Faults(tmp_path / "faults")
    server = start_server(repository, flags=["--http-thread-count=1"], variables=faults.variables)
    idle, kept, busy = (kept_connection(server) for _ in range(3))
    faults.arm(["write"], at=1, error=PAUSE)
    busy.request("GET", "/v2/health/live")
    wait_for("the loop in its reply", lambda: faults.failed == 1)
    late = http.client.HTTPConnection("127.0.0.1", server.http_port, timeout=DEADLINE)
    for connection in (kept, late):
        connection.request("POST", INFER, BODY)
    server.process.send_signal(signal.SIGTERM)
    wait_for("the end of the listener", lambda: is_refused(server.http_port))
    faults.disarm()
    for connection in (kept, late):
        expect_last_answer(connection)
    assert idle.sock.recv(1) == b""
    server.stop(number=0)


def test_a_request_that_is_being_read_at_the_stop_is_answered(start_server, repository, tmp_path):
    """The loop is held behind reading a request, which nobody but libmicrohttpd knows of then."""
    make_identity(repository, "m")
    faults = Faults(tmp_path / "faults")
    server = start_server(repository, flags=["--http-thread-count=2"], variables=faults.variables)
    kept, idle = kept_connection(server), kept_connection(server)  # of different loops
    faults.arm(["read"], at=1, error=PAUSE)
    kept.request("POST", INFER, BODY)
    wait_for("the loop behind its read", lambda: faults.failed == 1)
    server.process.send_signal(signal.SIGTERM)
    assert idle.sock.recv(1) == b""  # by now the other loop knows of the stop
    faults.disarm()
    expect_last_answer(kept)
    server.stop(number=0)


def test_a_stop_with_a_delay_serves_on_and_is_not_ready(start_server, repository):
    make_identity(repository, "m")
    server = start_server(repository, flags=["--shutdown-delay-secs=6"])
    kept = http.client.HTTPConnection("127.0.0.1", server.http_port, timeout=DEADLINE)
    kept.request("GET", "/v2/health/ready")
    assert kept.getresponse().read() == b""
    server.process.send_signal(signal.SIGTERM)
    wait_for("the announcement", lambda: server.ask("/v2/health/ready").status == 503)
    scraper = http.client.HTTPConnection("127.0.0.1", server.metrics_port, timeout=DEADLINE)
    scraper.request("GET", "/metrics")
    metrics = scraper.getresponse()
    assert metrics.status == 200 and metrics.headers["Connection"] is None  # metrics stay to the end
    assert metrics.read()
    kept.request("POST", INFER, BODY)
    answer = kept.getresponse()
    assert answer.status == 200 and answer.headers["Connection"] == "close"
    assert server.ask("/v2/health/live").status == 200 and server.ask(INFER, BODY).status == 200
    assert server.process.poll() is None
    server.stop(number=0)


def test_a_client_that_does_not_read_does_not_hold_the_stop(start_server, repository):
    make_identity(repository, "m")
    server = start_server(repository, flags=["--http-write-timeout-ms=1000"])
    with socket.create_connection(("127.0.0.1", server.http_port)) as deaf:
        deaf.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        values = [0] * 2_000_000
        text = json.dumps({"inputs": [{"name": "INPUT0", "shape": [1, len(values)], "datatype": "FP32", "data": values}]})
        deaf.sendall(f"POST {INFER} HTTP/1.1\r\nHost: x\r\nContent-Length: {len(text)}\r\n\r\n{text}".encode())
        assert deaf.recv(1) == b"H"  # the reply is on its way
        server.stop(signal.SIGTERM)


# ---- starts ----


def taken_port():
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    listener.listen()
    return listener


@pytest.fixture
def taken():
    with taken_port() as listener:
        yield listener.getsockname()[1]


FAULTS = {  # flags, words of the one line
    "HTTP port taken": (["--http-port={taken}"], "127.0.0.1:{taken}' already in use"),
    "metrics port taken": (["--metrics-port={taken}"], "127.0.0.1:{taken}' already in use"),
    "address of another": (["--http-address=203.0.113.1"], "203.0.113.1"),
    "no address": (["--http-address=no such host"], "'no such host' is no address"),
    "no address of gRPC": (["--grpc-address=no such host"], "'no such host' is no address"),
    "no address of metrics": (["--metrics-address=no such host"], "'no such host' is no address"),
    "no repository": (["--model-repository={directory}/absent"], "{directory}/absent"),
    "a file as repository": (["--model-repository={directory}/file"], "{directory}/file"),
    "no directory for the access log": (["--access-log={directory}/absent/log"], "--access-log: "),
    "no level of traces": (["--trace-config=level=ALL"], "--trace-config: level: invalid value 'ALL'"),
    "an old flag of traces": (["--trace-rate=often"], "--trace-rate: rate: invalid value 'often'"),
    "no file of flags": (["--config={directory}/absent"], "{directory}/absent"),
    "bad backend setting": (["--backend-config=onnxruntime"], "--backend-config"),
    "bad value": (["--http-port=many"], "--http-port: invalid value 'many'"),
    "unknown flag": (["--htp-port=1"], "unrecognized option '--htp-port'"),
}


@pytest.mark.parametrize("case", FAULTS)
def test_a_start_that_cannot_be_ends_with_one_line(start_server, repository, tmp_path, taken, case):
    """Before any model loads."""
    make_identity(repository, "m")
    (tmp_path / "file").write_text("")
    fill = {"taken": taken, "directory": tmp_path}
    flags, words = FAULTS[case]
    before = sorted(tmp_path.rglob("*"))
    server = start_server(repository, flags=[flag.format(**fill) for flag in flags], wait=False)
    assert server.process.wait(DEADLINE) == 1, server.log
    errors = [line for line in server.log.splitlines() if line.startswith("error: ")]
    assert len(errors) == 1 and words.format(**fill) in errors[0], server.log
    assert "loading: m" not in server.log, server.log
    assert not SANITIZER_REPORT.search(server.log), server.log
    assert sorted(path for path in tmp_path.rglob("*") if path != server.log_path) == before


def test_a_start_without_the_backend_names_it(start_server, repository):
    directory = make_identity(repository, "m")
    text = (directory / "config.pbtxt").read_text()
    (directory / "config.pbtxt").write_text(text.replace('"identity"', '"absent"'))
    server = start_server(repository, wait=False)
    assert server.process.wait(DEADLINE) == 1
    assert "libtriton_absent.so" in server.log and "failed to load 'm'" in server.log


@pytest.mark.alone
def test_models_whose_backends_take_their_time_to_end_do_not_wait_for_each_other(start_server, repository):
    for n in range(32):
        make_faulty(repository, f"m{n}", fault="slow_model_finalize")  # a second each
    server = start_server(repository, flags=["--exit-timeout-secs=28"])
    server.stop()  # in time: its status is 0
    assert server.log.count("successfully unloaded") == 32
