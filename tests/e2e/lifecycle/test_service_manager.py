# SPDX-License-Identifier: Apache-2.0
"""What a service manager does for the daemon, and hears of it: listening sockets, states, credentials (docs/systemd.md)."""
import contextlib
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time

import proc
import pytest
from conftest import DEADLINE, PATIENCE, ROOT, make_identity, wait_for
from notify_socket import NotifySocket
from oracle import settle
from ports import free_port, is_refused
from python_models import make_python

BODY = b'{"inputs":[{"name":"INPUT0","shape":[1,1],"datatype":"FP32","data":[7]}]}'

# In the server's process before it is the server: gets the sockets of the test and puts them where systemd does.
RECEIVE = """
import fcntl, os, socket, sys
path, names, *command = sys.argv[1:]
link = socket.socket(socket.AF_UNIX)
link.connect(path)
_, given, _, _ = socket.recv_fds(link, 1, 16)
given = [fcntl.fcntl(fd, fcntl.F_DUPFD, 64) for fd in given]
for target, fd in enumerate(given, 3):
    os.dup2(fd, target)
os.closerange(3 + len(given), 128)
os.environ.update(LISTEN_PID=str(os.getpid()), LISTEN_FDS=str(len(given)), LISTEN_FDNAMES=names)
os.execv(command[0], command)
"""


class Manager:
    """Holds sockets by name while servers come and go."""

    def __init__(self, directory, *names):
        self.names, self.sockets = names, [socket.create_server(("127.0.0.1", 0)) for _ in names]
        self.path = str(directory / "manager")
        self.link = socket.socket(socket.AF_UNIX)
        self.link.bind(self.path)
        self.link.listen()
        self.wrapper = [sys.executable, "-c", RECEIVE, self.path, ":".join(names)]
        threading.Thread(target=self.give, daemon=True).start()

    def give(self):
        with contextlib.suppress(OSError):
            while True:
                client, _ = self.link.accept()
                with client:
                    socket.send_fds(client, [b"x"], [s.fileno() for s in self.sockets])

    def port(self, name):
        return self.sockets[self.names.index(name)].getsockname()[1]

    def close(self):
        for s in (self.link, *self.sockets):
            s.close()


@pytest.fixture
def manager(tmp_path):
    made = []

    def make(*names):
        made.append(Manager(tmp_path, *names))
        return made[-1]
    yield make
    for one in made:
        one.close()


def test_its_sockets_are_served(start_server, repository, manager):
    import tritonclient.grpc as grpc

    make_identity(repository, "m")
    sockets = manager("metrics", "grpc", "http", "strange")
    server = start_server(repository, wrapper=sockets.wrapper, flags=["--http-address=0.0.0.0"])
    assert f"Started HTTPService at 127.0.0.1:{sockets.port('http')}" in server.log
    assert server.http_port == sockets.port("http") and server.metrics_port == sockets.port("metrics")
    assert server.ask("/v2/models/m/infer", BODY).status == 200
    assert server.ask("/metrics", port=server.metrics_port).status == 200
    with contextlib.closing(grpc.InferenceServerClient(f"127.0.0.1:{sockets.port('grpc')}")) as client:
        assert client.is_model_ready("m")
    assert server.log.count("of the service manager is not used") == 1
    assert "the socket 'strange' of the service manager is not used: expected http, grpc" in server.log


def test_clients_wait_while_the_server_restarts(start_server, repository, manager):
    make_identity(repository, "m")
    sockets = manager("http")
    start_server(repository, wrapper=sockets.wrapper).stop()
    with contextlib.closing(socket.create_connection(("127.0.0.1", sockets.port("http")), timeout=PATIENCE)) as client:
        client.sendall(b"POST /v2/models/m/infer HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s" % (len(BODY), BODY))
        start_server(repository, wrapper=sockets.wrapper, flags=["--listen=ready"])
        assert client.recv(1 << 16).startswith(b"HTTP/1.1 200 ")


def test_a_client_that_has_just_connected_is_answered_by_a_server_that_stops(start_server, repository, manager):
    """It has two seconds to send its request; a test that is slower than that tries again."""
    make_identity(repository, "m")
    sockets = manager("http")

    def is_answered():
        server = start_server(repository, wrapper=sockets.wrapper)
        settle(server)
        before = len(proc.descriptors(server.process.pid))
        with contextlib.closing(socket.create_connection(("127.0.0.1", sockets.port("http")), timeout=PATIENCE)) as client:
            wait_for("its arrival", lambda: len(proc.descriptors(server.process.pid)) > before)
            server.process.send_signal(signal.SIGTERM)
            wait_for("the stop", lambda: "Signal (15) received" in server.log)
            time.sleep(0.3)  # clients without a request would be gone by now
            with contextlib.suppress(ConnectionError):
                client.sendall(b"GET /v2/health/live HTTP/1.1\r\nHost: x\r\n\r\n")
                return client.recv(1 << 16).startswith(b"HTTP/1.1 200 ")

    wait_for("an answer", is_answered)


def test_the_operators_sockets_are_files(start_server, repository, manager, tmp_path):
    server = start_server(repository, wrapper=manager("admin-http").wrapper, flags=[f"--admin-address=unix:{tmp_path}/admin"], wait=False)
    assert server.process.wait(PATIENCE) == 1
    assert "Invalid argument - the socket 'admin-http' of the service manager: expected a Unix one" in server.log


@pytest.mark.parametrize("count, text", [("-1", "LISTEN_FDS is '-1', expected a number from 0 to 64"), ("2x", "LISTEN_FDS is '2x'"),
                                         ("1", "LISTEN_FDS is 1, but descriptor 3: ")])
def test_variables_that_make_no_sense_end_the_start(start_server, repository, count, text):
    say = f'import os, sys; os.closerange(3, 128); os.environ.update(LISTEN_PID=str(os.getpid()), LISTEN_FDS="{count}"); os.execv(sys.argv[1], sys.argv[1:])'
    server = start_server(repository, wrapper=[sys.executable, "-c", say], wait=False)
    assert server.process.wait(PATIENCE) == 1
    assert f"error: taking the sockets of the service manager: Invalid argument - {text}" in server.log


def test_sockets_of_another_process_are_left_alone(start_server, repository):
    make_identity(repository, "m")
    server = start_server(repository, variables={"LISTEN_PID": "1", "LISTEN_FDS": "1", "LISTEN_FDNAMES": "http"})
    assert server.ask("/v2/models/m/infer", BODY).status == 200


# ---- --listen=ready ----

WAITS = """
def initialize(self, args):
    open({!r}).read()

def execute(self, requests):
    return []
"""


def test_ports_open_when_the_models_are_in(start_server, repository, tmp_path):
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    make_python(repository, "slow", WAITS.format(str(gate)))
    port = free_port()
    server = start_server(repository, flags=[f"--http-port={port}", "--listen=ready"], wait=False)
    server.await_ports(http=False)  # Prometheus sees the start
    with gate.open("w"):  # opens when the model is there to read
        assert is_refused(port) and "Started HTTPService" not in server.log
        assert "Started GRPCInferenceService" not in server.log
        other = start_server(repository, flags=[f"--http-port={port}", "--listen=ready"], wait=False)
        assert other.process.wait(PATIENCE) == 1 and f"Socket '127.0.0.1:{port}' already in use" in other.log
    server.await_ports()
    assert server.ask("/v2/health/ready").status == 200  # from the first connection on
    assert server.grpc_port > 0


# ---- what it hears ----


@pytest.mark.parametrize("process", ["its own", "unset", "another"])
def test_the_watchdog_is_fed_while_the_server_makes_progress(start_server, repository, tmp_path, process):
    """Where the variables are meant for another process, nobody listens. That a thread is stuck is played by unit tests."""
    make_identity(repository, "m")
    as_systemd = [sys.executable, "-c", "import os, sys; os.environ['WATCHDOG_PID'] = str(os.getpid()); os.execv(sys.argv[1], sys.argv[1:])"]
    with contextlib.closing(NotifySocket(tmp_path)) as manager:
        variables = manager.variables | {"WATCHDOG_USEC": "200000"} | ({"WATCHDOG_PID": "1"} if process == "another" else {})
        server = start_server(repository, wrapper=as_systemd if process == "its own" else [], variables=variables)
        said = [manager.hear() for _ in range(1 if process == "another" else 8)]
        assert set(said) == ({b"READY=1"} if process == "another" else {b"READY=1", b"WATCHDOG=1"})
        server.stop()
        rest = manager.hear_until(b"STOPPING=1")
    assert process != "another" or rest == [b"STOPPING=1"]


def test_states_are_told(start_server, repository, tmp_path):
    make_identity(repository, "m")
    with contextlib.closing(NotifySocket(tmp_path)) as manager:
        server = start_server(repository, variables=manager.variables)
        assert manager.hear() == b"READY=1"
        server.process.send_signal(signal.SIGHUP)
        name, stamp = manager.hear().decode().splitlines()
        assert name == "RELOADING=1" and int(stamp.removeprefix("MONOTONIC_USEC=")) > 0
        assert manager.hear() == b"READY=1"
        server.stop()
        assert manager.hear() == b"STOPPING=1"


# ---- credentials ----


def test_keys_are_credentials(start_server, repository, tmp_path):
    (tmp_path / "admin-key").write_text("secret\n")
    flag = "--restricted-api=model-repository:admin-key=cred:admin-key"
    server = start_server(repository, flags=[flag], variables={"CREDENTIALS_DIRECTORY": str(tmp_path)})
    index = "/v2/repository/index"
    assert server.ask(index, b"{}").status == 403
    assert server.ask(index, b"{}", headers={"admin-key": "secret"}).status == 200


@pytest.mark.parametrize("name, variables, text", [
    ("key", {}, "there is no credential 'key': CREDENTIALS_DIRECTORY is not set (expected: LoadCredential=key:<path> in the unit)"),
    ("../key", {"CREDENTIALS_DIRECTORY": "/tmp"}, "'../key' is no name of a credential"),
    ("not-there", {"CREDENTIALS_DIRECTORY": "/tmp"}, "/tmp/not-there"),
])
def test_credentials_that_are_not_there_end_the_start(start_server, repository, name, variables, text):
    server = start_server(repository, flags=[f"--restricted-api=model-repository:admin-key=cred:{name}"], variables=variables, wait=False)
    assert server.process.wait(DEADLINE) == 1
    wait_for("the reason", lambda: text in server.log)


# ---- the units ----


def test_the_units_are_right_and_expose_little(nereid, tmp_path):
    units = tmp_path / "units"
    shutil.copytree(ROOT / "deploy/systemd", units)
    service = units / "nereid.service"
    service.write_text(service.read_text().replace("/usr/bin/nereid", str(nereid)))
    for dropped in (None, *sorted((units / "drop-ins").glob("*.conf"))):
        if dropped is not None:
            (units / "nereid.service.d").mkdir(exist_ok=True)
            shutil.copy(dropped, units / "nereid.service.d")
        found = subprocess.run(["systemd-analyze", "verify", "--man=no", *units.glob("nereid*.s*[et]")], capture_output=True, text=True, timeout=PATIENCE)
        assert found.returncode == 0 and "nereid" not in found.stderr, found.stderr
    shutil.rmtree(units / "nereid.service.d")
    rated = subprocess.run(["systemd-analyze", "security", "--offline=true", "--no-pager", service], capture_output=True, text=True, timeout=PATIENCE)
    level = re.search(r"Overall exposure level for nereid.service: ([\d.]+)", rated.stdout)
    assert level and float(level[1]) <= 1.5, rated.stdout + rated.stderr


# ---- what it may hide ----


HIDES = {"subset=pid": "mount -t proc -o subset=pid proc /proc", "nothing": "mount -t tmpfs none /proc"}


@pytest.mark.parametrize("what", HIDES)
def test_a_hidden_proc_costs_metrics_and_none_is_told(start_server, repository, what):
    if subprocess.run(["unshare", "-m", "sh", "-c", HIDES[what]], capture_output=True).returncode != 0:
        pytest.skip("this process may not mount")
    make_identity(repository, "m")
    # Where /proc is gone the loader does not find what lies beside the program.
    library = """LD_LIBRARY_PATH=$(dirname $(ldd "$1" | awk '/libtritonserver/ {print $3}')) && export LD_LIBRARY_PATH"""
    hidden = ["unshare", "-m", "sh", "-c", f'{library} && {HIDES[what]} && exec "$@"', "sh"]
    if what == "nothing":
        server = start_server(repository, wrapper=hidden, wait=False)
        assert server.process.wait(PATIENCE) == 1
        assert "'/proc/self/fd' is not there: nereid needs /proc" in server.log
        return
    server = start_server(repository, wrapper=hidden)
    assert server.ask("/v2/models/m/infer", BODY).status == 200
    assert "CPU metrics may not be available: cannot read stat in /proc" in server.log
