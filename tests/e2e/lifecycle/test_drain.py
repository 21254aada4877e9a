# SPDX-License-Identifier: Apache-2.0
"""nereid status, drain and undrain: an operator takes a running server out of service, and back."""
import http.client
import json
import socket
import subprocess
import threading

import pytest
import tritonclient.grpc as triton
from conftest import DEADLINE, make_identity, wait_for
from python_models import ask, make_python
from test_python_faults import HOLDS

READY = "/v2/health/ready"
BODY = json.dumps({"inputs": [{"name": "INPUT0", "shape": [1, 1], "datatype": "FP32", "data": [1]}]}).encode()
STATUS = {"ready", "drained", "requests", "uptime_seconds"}


@pytest.fixture
def address(tmp_path):
    return f"unix:{tmp_path}/admin.sock"


@pytest.fixture
def run(nereid):
    """Runs nereid with these words; gives exit status, standard output and error."""
    def one(*words):
        done = subprocess.run([nereid, *words], capture_output=True, text=True, timeout=DEADLINE)
        return done.returncode, done.stdout, done.stderr

    return one


def test_a_drained_server_answers_and_says_that_it_is_not_ready(start_server, repository, address, run):
    make_identity(repository, "m")
    server = start_server(repository, flags=[f"--admin-address={address}"])
    flag = f"--admin-address={address}"
    status, out, _ = run("status", flag)
    assert status == 0 and out.startswith("ready, 0 requests inside, up for ")
    kept = http.client.HTTPConnection("127.0.0.1", server.http_port, timeout=DEADLINE)
    kept.request("GET", READY)
    answer = kept.getresponse()
    assert (answer.status, answer.headers["Connection"], answer.read()) == (200, None, b"")

    status, out, _ = run("drain", "--json", flag)
    told = json.loads(out)
    assert status == 0 and set(told) == STATUS and (told["ready"], told["drained"], told["requests"]) == (False, True, 0)
    kept.request("POST", "/v2/models/m/infer", BODY)
    answer = kept.getresponse()
    assert answer.status == 200 and answer.headers["Connection"] == "close" and answer.read()
    refused = server.ask(READY)
    assert refused.status == 503 and json.loads(refused.body)["error"] == "the server is drained (nereid undrain)"
    assert server.ask("/v2/health/live").status == 200 and server.ask("/v2/models/m/ready").status == 200
    with triton.InferenceServerClient(f"127.0.0.1:{server.grpc_port}") as client:
        assert client.is_server_live() and not client.is_server_ready()
        status, out, _ = run("status", flag)
        assert status == 1 and out.startswith("drained, 0 requests inside")
        status, out, _ = run("undrain", flag)
        assert status == 0 and out.startswith("ready, ")
        assert client.is_server_ready()
    again = http.client.HTTPConnection("127.0.0.1", server.http_port, timeout=DEADLINE)
    again.request("GET", READY)
    answer = again.getresponse()
    assert (answer.status, answer.headers["Connection"], answer.read()) == (200, None, b"")
    assert server.log.count("drained by an operator: not ready") == 1 and server.log.count("undrained by an operator") == 1


def test_it_waits_for_the_requests_inside(start_server, repository, address, tmp_path, run, nereid):
    directory = make_python(repository, "busy", HOLDS)
    server = start_server(repository, flags=[f"--admin-address={address}"])
    (directory / "entered").unlink(missing_ok=True)
    (directory / "hold").touch()
    asked = threading.Thread(target=ask, args=[server, "busy"])
    asked.start()
    try:
        wait_for("execute", (directory / "entered").exists)
        status, out, _ = run("drain", "--wait=1", f"--admin-address={address}")
        assert status == 1 and out.startswith("drained, 1 requests inside")
        assert run("drain", "--wait=0", f"--admin-address={address}")[0] == 0
        config = tmp_path / "nereid.yaml"
        config.write_text(f"admin-address: {address}\nhttp-port: 1\n")
        waiting = subprocess.Popen([nereid, "drain", "--wait=600", f"--config={config}"], stdout=subprocess.PIPE, text=True)
        (directory / "hold").unlink()
        out, _ = waiting.communicate(timeout=DEADLINE)
        assert waiting.returncode == 0 and out.startswith("drained, 0 requests inside")
    finally:
        (directory / "hold").unlink(missing_ok=True)
        asked.join()


def test_what_cannot_be_asked_is_named(start_server, repository, address, tmp_path, run):
    make_identity(repository, "m")
    config = tmp_path / "nereid.yaml"
    config.write_text("id: one\n")
    server = start_server(repository, flags=[f"--admin-address={address}"])
    for command in ("status", "drain", "undrain"):
        assert run(command) == (2, "", "error: expected --admin-address=unix:/<path>, the running server's, or --config=<file> with it\n")
        assert run(command, "--admin-address=localhost:8000") == (2, "", "error: --admin-address: 'localhost:8000', expected the running server's, unix:/<path>\n")
        assert run(command, f"--config={config}") == (2, "", f"error: '{config}' has no admin-address: a server can be asked at that address only, unix:/<path>\n")
        assert run(command, "--admin-address=unix:/no/such") == (2, "", "error: cannot connect to a server at 'unix:/no/such': No such file or directory; no server with this --admin-address runs\n")
        long = "unix:/" + "x" * 200
        assert run(command, f"--admin-address={long}")[0] == 2
    status, out, text = run("status", f"--admin-address={address}", "word")
    assert (status, out) == (2, "") and "word" in text
    for path, method in (("status", "GET"), ("drain", "POST"), ("undrain", "POST")):
        answer = server.ask(f"/v2/nereid/{path}", b"" if method == "POST" else None)
        assert answer.status == 403 and "at the admin address (--admin-address)" in answer.text
    assert server.ask(READY).status == 200


def test_another_program_at_the_address_is_told_apart(start_server, repository, tmp_path, run):
    make_identity(repository, "m")
    server = start_server(repository)
    for reply in (b"hello\n", b"HTTP/1.1 200 OK\r\n\r\n<html>", b"", b"x" * 100_000, b'HTTP/1.1 500 x\r\n\r\n{"error":3}'):
        path = tmp_path / f"other{len(reply)}"
        with socket.socket(socket.AF_UNIX) as listening:
            listening.bind(str(path))
            listening.listen()

            def serve():
                connection = listening.accept()[0]
                with connection:
                    connection.recv(4096)
                    connection.sendall(reply)

            thread = threading.Thread(target=serve)
            thread.start()
            status, out, text = run("status", f"--admin-address=unix:{path}")
            thread.join()
            assert (status, out) == (2, "") and text.startswith("error: the server ") and text.count("\n") == 1, text
