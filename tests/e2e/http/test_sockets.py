# SPDX-License-Identifier: Apache-2.0
"""Where the listeners listen: Unix sockets, IPv6, shared ports, and what is said when a place is taken."""
import http.client
import json
import os
import select
import signal
import socket
import stat
import subprocess

import pytest
from conftest import DEADLINE, make_identity, wait_for
from safety import on_threads
from start_output import assert_refused
from streaming import make_streaming
from wire import CANARY_BODY, receive_all, receive_reply, replies, request, send


class UnixConnection(http.client.HTTPConnection):
    def __init__(self, path):
        super().__init__("localhost", timeout=DEADLINE)
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(DEADLINE)
        self.sock.connect(self.path)


def ask(path, method, target, body=None, headers=None):
    connection = UnixConnection(path)
    try:
        connection.request(method, target, body, headers or {})
        answer = connection.getresponse()
        return answer.status, answer.read()
    finally:
        connection.close()


def is_ready(path):
    try:
        return ask(path, "GET", "/v2/health/ready")[0] == 200
    except (FileNotFoundError, ConnectionRefusedError):
        return False


def start(start_server, repository, path, *flags):
    """A server on the Unix socket `path`; its metrics stay on TCP unless the flags say otherwise."""
    address = path.replace("\0", "@") if path.startswith("\0") else path
    server = start_server(repository, flags=["--metrics-address=127.0.0.1", f"--http-address=unix:{address}", *flags], wait=False)
    wait_for("readiness", lambda: server.process.poll() is not None or is_ready(path))
    assert server.process.poll() is None, server.log
    return server


@pytest.fixture
def models(repository):
    make_identity(repository, "canary")
    make_identity(repository, "bytes", type="TYPE_STRING", max_batch_size=0)
    return repository


@pytest.fixture
def path(tmp_path):
    return str(tmp_path / "http.sock")


def test_curl_and_others_infer_over_a_unix_socket(start_server, models, path):
    make_streaming(models, "streaming")
    server = start(start_server, models, path)
    curl = ["curl", "-sS", "--unix-socket", path]
    done = subprocess.run([*curl, "http://localhost/v2"], capture_output=True, text=True, timeout=DEADLINE)
    assert json.loads(done.stdout)["name"] == "triton", done.stderr
    for _ in range(3):
        assert ask(path, "POST", "/v2/models/canary/infer", CANARY_BODY)[0] == 200
    big = os.urandom(20 << 20)
    status, text = ask(path, "POST", "/v2/models/canary/infer", big, {"Inference-Header-Content-Length": "0"})
    assert status == 200 and text.endswith(big)
    stream = [*curl, "http://localhost/v2/models/streaming/generate_stream", "-d", '{"INPUT": "x", "count": 50, "bytes": 50000}']
    done = subprocess.run(stream, capture_output=True, text=True, timeout=DEADLINE)
    assert done.stdout.count("data: ") == 50
    assert f"Started HTTPService at unix:{path}" in server.log


def test_the_file_goes_when_the_server_ends(start_server, models, path):
    server = start(start_server, models, path)
    assert stat.S_ISSOCK(os.stat(path).st_mode)
    server.stop()
    assert not os.path.exists(path)


def test_a_file_that_nobody_listens_on_is_replaced(start_server, models, path):
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(path)
    server = start(start_server, models, path)
    server.process.send_signal(signal.SIGKILL)
    server.process.wait(DEADLINE)
    assert os.path.exists(path)  # as a killed server leaves it
    server.process = start(start_server, models, path).process
    assert ask(path, "GET", "/v2")[0] == 200


def refusal(start_server, repository, *flags):
    """What a server says that cannot listen."""
    server = start_server(repository, flags=flags, wait=False)
    assert server.process.wait(DEADLINE) == 1, server.log
    return server.log


def test_a_socket_in_use_is_left_alone(start_server, models, path):
    start(start_server, models, path)
    file = os.stat(path).st_ino
    log = refusal(start_server, models, "--metrics-address=127.0.0.1", f"--http-address=unix:{path}")
    assert f"Unavailable - Socket 'unix:{path}' already in use " in log
    assert os.stat(path).st_ino == file and is_ready(path)


@pytest.mark.parametrize("kind", ["file", "directory", "link"])
def test_what_is_no_socket_is_left_alone(start_server, models, path, kind):
    {"file": lambda: open(path, "w").close(), "directory": lambda: os.mkdir(path), "link": lambda: os.symlink("/no/such", path)}[kind]()
    before = os.lstat(path)
    log = refusal(start_server, models, "--metrics-address=127.0.0.1", f"--http-address=unix:{path}")
    assert f"Socket 'unix:{path}' already in use " in log
    assert (os.lstat(path).st_ino, os.lstat(path).st_mode) == (before.st_ino, before.st_mode)


def test_a_server_removes_only_its_own_file(start_server, models, path):
    """A successor may have taken the place meanwhile."""
    first = start(start_server, models, path)
    os.unlink(path)
    start(start_server, models, path)
    first.stop()
    assert is_ready(path)


def test_abstract_sockets_have_no_file(start_server, models, tmp_path):
    name = f"\0nereid-test-{os.getpid()}-{tmp_path.name}"
    start(start_server, models, name)
    assert ask(name, "GET", "/v2")[0] == 200
    log = refusal(start_server, models, "--metrics-address=127.0.0.1", f"--http-address=unix:@{name[1:]}")
    assert "already in use " in log
    assert list(tmp_path.glob("*sock*")) == []


@pytest.mark.parametrize("mode", ["600", "666"])
def test_the_files_mode_is_as_asked_for(start_server, models, path, mode):
    start(start_server, models, path, f"--unix-socket-mode={mode}")
    assert stat.S_IMODE(os.stat(path).st_mode) == int(mode, 8)


def test_metrics_listen_on_a_unix_socket_too(start_server, models, tmp_path, path):
    metrics = str(tmp_path / "metrics.sock")
    server = start(start_server, models, path, f"--metrics-address=unix:{metrics}")
    wait_for("the metrics' socket", lambda: "Started Metrics Service" in server.log)
    assert b"nv_inference_request_success" in ask(metrics, "GET", "/metrics")[1]
    server.stop()
    assert not os.path.exists(metrics)


def test_the_peer_counts_as_local_and_proves_nothing_under_secure(start_server, models, path):
    explicit = ["--model-control-mode=explicit", "--load-model=*"]
    upload = ("POST", "/v2/repository/models/canary/load", b'{"parameters": {"config": "{\\"backend\\": \\"no_such\\"}"}}')
    server = start(start_server, models, path, *explicit)
    status, text = ask(path, *upload)
    assert status == 400 and b"no_such" in text
    for headers in ({"X-Forwarded-For": "10.0.0.1"}, {"Host": "models.example"}):
        assert ask(path, *upload, headers)[0] == 403
    assert "none, the address is this machine's only" in server.log
    server.stop()
    start(start_server, models, path, *explicit, "--secure", "--allow-root")
    for request_of_admin in (upload, ("POST", "/v2/repository/index", b"{}")):
        status, text = ask(path, *request_of_admin)
        assert status == 403 and b"want a key or the admin address (--secure)" in text


def test_clients_that_leave_stall_or_flood_are_handled(start_server, models, path):
    """As on TCP: many at once, half requests, a reply that nobody takes, one that is taken slowly."""
    server = start(start_server, models, path, "--http-write-timeout-ms=3000", "--http-header-timeout-ms=3000")

    def some(_):
        for _ in range(50):
            assert ask(path, "POST", "/v2/models/canary/infer", CANARY_BODY)[0] == 200

    on_threads(8, some)
    with socket.socket(socket.AF_UNIX) as half, socket.socket(socket.AF_UNIX) as deaf, socket.socket(socket.AF_UNIX) as slow:
        half.settimeout(DEADLINE)
        half.connect(path)
        half.sendall(b"GET /v2 HT")
        assert half.recv(1) == b""  # closed, or the deadline passes
        big = os.urandom(4 << 20)
        ask_big = request("POST", "/v2/models/canary/infer", big, ["Inference-Header-Content-Length: 0", "Connection: close"])
        for client in (deaf, slow):
            client.settimeout(DEADLINE)
            client.connect(path)
            client.sendall(ask_big)
        text, shut = bytearray(), select.poll()
        shut.register(deaf, 0)  # reports no more than that the server has shut it

        def is_deaf_one_shut():
            text.extend(slow.recv(1 << 12))
            return shut.poll(0)

        wait_for("the end of the one who takes nothing", is_deaf_one_shut)
        text += receive_all(slow)
        assert text.endswith(big)
        assert len(receive_all(deaf)) < len(big)
    assert is_ready(path) and server.process.poll() is None


def test_a_refused_upload_is_told_why(start_server, models, path):
    start(start_server, models, path)
    with socket.socket(socket.AF_UNIX) as client:
        client.settimeout(DEADLINE)
        client.connect(path)
        send(client, request("POST", "/v2/models/canary/infer", headers=[f"Content-Length: {1 << 40}"]), bytes(1 << 20))
        assert [reply.status for reply in replies(receive_all(client))] == [413]


# ---- TCP


@pytest.mark.parametrize("address", ["::1", "[::1]", "ipv6:::1", "::"])
def test_ipv6(start_server, models, address):
    server = start_server(models, flags=[f"--http-address={address}", "--metrics-address=127.0.0.1"], ready=False)
    with socket.create_connection(("::1", server.http_port), DEADLINE) as client:
        send(client, request("GET", "/v2"))
        assert receive_reply(client).status == 200
    assert f"Started HTTPService at {address}:{server.http_port}" in server.log


def test_a_taken_port_is_named(start_server, models):
    server = start_server(models)
    log = refusal(start_server, models, f"--http-port={server.http_port}")
    assert f"error: failed to start HTTP service: Unavailable - Socket '127.0.0.1:{server.http_port}' already in use \n" in log
    log = refusal(start_server, models, f"--metrics-port={server.metrics_port}")
    assert f"error: failed to start Metrics service: Unavailable - Socket '127.0.0.1:{server.metrics_port}' already in use \n" in log


def test_servers_may_share_a_port(start_server, models):
    first = start_server(models, flags=["--reuse-http-port=true"])
    second = start_server(models, flags=["--reuse-http-port=true", f"--http-port={first.http_port}"])
    assert second.http_port == first.http_port
    log = refusal(start_server, models, f"--http-port={first.http_port}")
    assert "already in use " in log  # who does not want to share does not
    first.stop()
    assert second.ask("/v2").status == 200


def test_ports_may_be_equal_where_addresses_are_not(start_server, models):
    server = start_server(models)
    port = server.http_port
    server.stop()
    server = start_server(models, flags=[f"--http-port={port}", f"--metrics-port={port}", "--metrics-address=127.0.0.2"])
    assert server.http_port == server.metrics_port == port


MISTAKES = {
    "one port": (["--http-port=9000", "--metrics-port=9000"], "--http-port and --metrics-port are both 9000"),
    "one socket": (["--http-address=unix:/tmp/x"], "--metrics-address must be another one"),
    "one socket, twice": (["--http-address=unix:/tmp/x", "--metrics-address=unix:/tmp/x"], "--metrics-address must be another one"),
    "no path": (["--http-address=unix:", "--allow-metrics=false"], "'unix:' is no address to listen on"),
    "no name": (["--http-address=unix:@", "--allow-metrics=false"], "'unix:@' is no address to listen on"),
    "long path": (["--http-address=unix:/" + "x" * 200, "--allow-metrics=false"], "of less than 108 bytes"),
    "no directory": (["--http-address=unix:/no/such/x", "--allow-metrics=false"], "cannot listen on 'unix:/no/such/x': No such file"),
    "no address": (["--http-address=1.2.3.4.5", "--allow-metrics=false"], "'1.2.3.4.5' is no address to listen on"),
    "not ours": (["--http-address=192.0.2.1", "--allow-metrics=false"], "cannot listen on '192.0.2.1:8000': Cannot assign"),
    "mode": (["--unix-socket-mode=rw"], "--unix-socket-mode: invalid value 'rw', expected three octal digits"),
    "mode of nobody": (["--unix-socket-mode=000"], "--unix-socket-mode: invalid value '000'"),
    "long mode": (["--unix-socket-mode=0660"], "--unix-socket-mode: invalid value '0660'"),
}


@pytest.mark.parametrize("case", MISTAKES)
def test_a_mistake_is_named(nereid, tmp_path, case):
    assert_refused(nereid, tmp_path, *MISTAKES[case])
