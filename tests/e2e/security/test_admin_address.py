# SPDX-License-Identifier: Apache-2.0
"""The admin address: a Unix socket whose file says who is an operator (docs/security.md)."""
import json
import os
import signal
import socket
import stat
import subprocess
import tempfile

import pytest
import tritonclient.grpc as triton
from conftest import DEADLINE, make_identity, wait_for
from start_output import assert_refused
from test_posture import EXPLICIT, INDEX, SECURE, UPLOAD, ask, config, models  # noqa: F401 - fixtures
from test_restricted import CATEGORIES, KEY

LOAD = "/v2/repository/models/spare/load"


@pytest.fixture
def admin(tmp_path):
    return str(tmp_path / "admin.sock")


def curl(path, target, *arguments):
    command = ["curl", "-sS", "--unix-socket", path, f"http://localhost{target}", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=DEADLINE, check=True).stdout


FLAGS = {"default": EXPLICIT, "secure": SECURE, "keys": [*SECURE, f"--restricted-api={CATEGORIES}:the-key={KEY}"]}


@pytest.mark.parametrize("flags", FLAGS.values(), ids=FLAGS.keys())
def test_the_operator_does_everything_without_a_key(start_server, models, admin, flags):  # noqa: F811
    server = start_server(models, flags=[*flags, f"--admin-address=unix:{admin}"], ready=False)
    wait_for("the socket", lambda: f"Started admin HTTP service at unix:{admin}" in server.log)
    wait_for("readiness", lambda: ask(admin, None, "GET", "/v2/health/ready")[0] == 200)
    assert json.loads(curl(admin, "/v2/models/identity"))["name"] == "identity"
    assert curl(admin, LOAD, "-d", json.dumps({"parameters": {"config": config(max_batch_size=3)}})) == ""
    assert json.loads(curl(admin, "/v2/models/spare/config"))["max_batch_size"] == 3
    states = {model["name"]: model["state"] for model in json.loads(curl(admin, INDEX, "-d", ""))}
    assert states == {"identity": "READY", "spare": "READY"}
    assert json.loads(curl(admin, "/v2/logging", "-d", '{"log_verbose_level": 1}'))["log_verbose_level"] == 1
    assert "no_such" in curl(admin, LOAD, "-d", json.dumps({"parameters": {"config": config(backend="no_such")}}))  # tried
    for headers in ({"Host": "models.example"}, {"X-Forwarded-For": "10.0.0.1"}, {"Origin": "http://other.example"}):
        assert ask(admin, None, "POST", INDEX, b"{}", headers)[0] == 200  # who gets to the file is the operator
    assert ask(admin, None, "GET", "/v2/models/identity/ready")[0] == 200
    assert ask(admin, None, "DELETE", "/v2/logging")[0] == 405 and ask(admin, None, "GET", "/v2/none")[0] == 404
    assert f"Admin requests are taken at unix:{admin} from whoever may write to that file" in server.log
    assert KEY not in server.log
    server.stop()
    assert not os.path.exists(admin)


STRANGER = """
import os, socket, sys
os.setgroups([])
os.setgid(65534)
os.setuid(65534)
socket.socket(socket.AF_UNIX).connect(sys.argv[1])
"""


def test_the_file_is_open_to_only_its_owner(start_server, models):  # noqa: F811
    with tempfile.TemporaryDirectory() as directory:
        os.chmod(directory, 0o711)
        admin, grpc, metrics = (f"{directory}/{name}.sock" for name in ("admin", "grpc", "metrics"))
        flags = [f"--admin-address=unix:{admin}", f"--admin-grpc-address=unix:{grpc}", f"--metrics-address=unix:{metrics}"]
        server = start_server(models, flags=[*EXPLICIT, *flags, "--unix-socket-mode=666"], wait=False)  # which is for other sockets
        wait_for("the sockets", lambda: "Started Metrics Service" in server.log)
        assert [stat.S_IMODE(os.stat(path).st_mode) for path in (admin, grpc, metrics)] == [0o600, 0o600, 0o666]
        wait_for("readiness", lambda: ask(admin, None, "GET", "/v2/health/ready")[0] == 200)
        with triton.InferenceServerClient(f"unix:{grpc}") as operator:
            assert operator.is_model_ready("identity")
        for path in (admin, grpc, metrics) if os.geteuid() == 0 else ():  # somebody else on this machine
            done = subprocess.run(["python3", "-c", STRANGER, path], capture_output=True, text=True)
            assert ("PermissionError" in done.stderr) == (path != metrics) == (done.returncode == 1), f"{path}: {done.stderr}"
        server.stop()
        assert os.listdir(directory) == []


def test_another_mode_can_be_asked_for(start_server, models, admin):  # noqa: F811
    start_server(models, flags=[*SECURE, f"--admin-address=unix:{admin}", "--admin-socket-mode=660"])
    assert stat.S_IMODE(os.stat(admin).st_mode) == 0o660


def test_it_serves_without_the_other_listeners(start_server, models, admin):  # noqa: F811
    flags = [*SECURE, f"--admin-address=unix:{admin}", "--allow-http=false", "--allow-grpc=false", "--allow-metrics=false"]
    server = start_server(models, flags=flags, wait=False)
    wait_for("readiness", lambda: os.path.exists(admin) and "Started admin HTTP service" in server.log
             and ask(admin, None, "GET", "/v2/health/ready")[0] == 200)
    assert ask(admin, None, "POST", LOAD, b"{}")[0] == 200


def test_a_socket_that_a_killed_server_left_is_replaced_and_nothing_else(start_server, models, admin):  # noqa: F811
    flags = [*SECURE, f"--admin-address=unix:{admin}"]
    killed = start_server(models, flags=flags)
    killed.process.send_signal(signal.SIGKILL)
    killed.process.wait(DEADLINE)
    assert stat.S_ISSOCK(os.stat(admin).st_mode)
    killed.process = start_server(models, flags=flags).process
    assert ask(admin, None, "POST", INDEX, b"{}")[0] == 200
    second = start_server(models, flags=flags, wait=False)
    assert second.process.wait(DEADLINE) == 1
    assert f"error: failed to start admin service: Unavailable - Socket 'unix:{admin}' already in use" in second.log
    second.process = killed.process  # which ends well
    assert ask(admin, None, "POST", INDEX, b"{}")[0] == 200
    file = f"{admin}.txt"
    open(file, "w").write("mine")
    third = start_server(models, flags=[*SECURE, f"--admin-address=unix:{file}"], wait=False)
    assert third.process.wait(DEADLINE) == 1 and open(file).read() == "mine"
    third.process = killed.process


def test_the_admin_socket_answers_while_clients_fill_the_server(start_server, models, admin):  # noqa: F811
    """Its connections are its own."""
    server = start_server(models, flags=[*SECURE, f"--admin-address=unix:{admin}", "--http-max-connections=4"])
    crowd = [socket.create_connection(("127.0.0.1", server.http_port)) for _ in range(100)]
    try:
        assert ask(admin, None, "POST", INDEX, b"{}")[0] == 200
    finally:
        for client in crowd:
            client.close()


LONG = "/tmp/" + "x" * 200
MISTAKES = {
    "a port": (["--admin-address=127.0.0.1:9000"], "--admin-address: invalid value '127.0.0.1:9000', expected unix:/<path>"),
    "a path alone": (["--admin-address=/run/nereid.sock"], "expected unix:/<path>"),
    "a name": (["--admin-address=unix:@nereid"], "--admin-address: invalid value 'unix:@nereid', expected unix:/<path>"),
    "a relative path": (["--admin-address=unix:admin.sock"], "expected unix:/<path>"),
    "gRPC": (["--admin-grpc-address=0.0.0.0"], "--admin-grpc-address: invalid value '0.0.0.0', expected unix:/<path>"),
    "twice": (["--admin-address=unix:/tmp/a", "--admin-grpc-address=unix:/tmp/a"], "are both 'unix:/tmp/a', expected two sockets"),
    "HTTP's": (["--http-address=unix:/tmp/a", "--metrics-address=127.0.0.1", "--admin-address=unix:/tmp/a"],
               "--admin-address: 'unix:/tmp/a' is another listener's address too"),
    "the metrics'": (["--metrics-address=unix:/tmp/a", "--admin-grpc-address=unix:/tmp/a"], "is another listener's address too"),
    "mode": (["--admin-socket-mode=rw-------"], "--admin-socket-mode: invalid value 'rw-------', expected three octal digits"),
    "no mode": (["--admin-socket-mode="], "--admin-socket-mode: invalid value ''"),
    "a long path": ([f"--admin-address=unix:{LONG}", "--http-port=0", "--grpc-port=0", "--metrics-port=0"],
                    f"'unix:{LONG}' is no address to listen on: expected a path or @<name> of less than 108 bytes, it has 205"),
}


@pytest.mark.parametrize("case", MISTAKES)
def test_a_mistake_is_named(nereid, tmp_path, case):
    assert_refused(nereid, tmp_path, *MISTAKES[case])
