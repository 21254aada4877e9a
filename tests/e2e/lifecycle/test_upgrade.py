# SPDX-License-Identifier: Apache-2.0
"""nereid --upgrade: a new server takes over from a running one, and no request fails (docs/upgrading.md)."""
import contextlib
import http.client
import json
import os
import queue
import re
import signal
import socket
import struct
import subprocess
import sys
import threading
from multiprocessing import shared_memory

import numpy as np
import pytest
import tritonclient.grpc as triton
from conftest import PATIENCE, make_identity, wait_for
from faults import listening_ports
from notify_socket import NotifySocket
from ports import free_port
from python_models import make_python

BODY = json.dumps({"inputs": [{"name": "INPUT0", "shape": [1, 1], "datatype": "FP32", "data": [7]}]}).encode()
INFER = "/v2/models/m/infer"
TOOK_OVER = "took over from process"
FOLLOWS = "stopping, since process"  # the same in the other's log


PATIENT = ["--http-header-timeout-ms=0", "--grpc-handshake-timeout-ms=0"]  # with clients that are slow


class Load:
    """Clients that ask one after the other, each on a connection that it keeps while the server lets it. Nothing is tried again."""

    def __init__(self, http_port, grpc_port, http_clients=4, grpc_clients=2):
        self.failures, self.counts, self.over = [], {}, threading.Event()
        self.threads = [threading.Thread(target=self.run, args=[f"http{i}", self.ask_http, http_port]) for i in range(http_clients)]
        self.threads += [threading.Thread(target=self.run, args=[f"grpc{i}", self.ask_grpc, grpc_port]) for i in range(grpc_clients)]
        self.threads += [threading.Thread(target=self.run, args=["ready", self.ask_ready, http_port])]

    def run(self, name, ask, port):
        self.counts[name] = 0
        try:
            ask(name, port)
        except Exception as failure:
            self.failures.append(f"{name} after {self.counts[name]} requests: {failure!r}")

    def converse(self, name, port, method, path, body):
        link = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
        while not self.over.is_set():
            if link.sock is None:  # the server asked to close with its last answer
                link.connect()
            link.request(method, path, body)
            answer = link.getresponse()
            text = answer.read()
            assert answer.status == 200, (answer.status, text)
            self.counts[name] += 1
        link.close()

    def ask_http(self, name, port):
        self.converse(name, port, "POST", INFER, BODY)

    def ask_ready(self, name, port):
        self.converse(name, port, "GET", "/v2/health/ready", None)

    def ask_grpc(self, name, port):
        given = triton.InferInput("INPUT0", [1, 1], "FP32")
        given.set_data_from_numpy(np.array([[7]], np.float32))
        with triton.InferenceServerClient(f"127.0.0.1:{port}") as client:
            while not self.over.is_set():
                assert client.infer("m", [given]).as_numpy("OUTPUT0")[0][0] == 7
                self.counts[name] += 1

    def await_more(self, count=20):
        """Each client is answered that many times from now on."""
        before = dict(self.counts)
        wait_for("answers", lambda: self.failures or all(self.counts.get(t, 0) >= before.get(t, 0) + count for t in before))

    def __enter__(self):
        for thread in self.threads:
            thread.start()
        wait_for("first answers", lambda: self.failures or (len(self.counts) == len(self.threads) and all(self.counts.values())))
        return self

    def __exit__(self, *unused):
        self.over.set()
        for thread in self.threads:
            thread.join()
        assert self.failures == []


@pytest.fixture
def address(tmp_path):
    return f"--upgrade-address=unix:{tmp_path}/upgrade.sock"


@pytest.fixture
def configured(tmp_path):
    """A --config file, and the flag that names it."""
    config = tmp_path / "nereid.yaml"
    config.write_text("id: one\n")
    return config, f"--config={config}"


def start(start_server, repository, *flags, **more):
    """A server that another one may ask for its sockets: it answers requests a moment earlier."""
    server = start_server(repository, flags=list(flags), **more)
    wait_for("the end of its start", lambda: "Serving 1 model" in server.log)
    return server


def upgrade(start_server, repository, address, *flags, **more):
    server = start_server(repository, flags=[address, "--upgrade", *flags], ready=False, **more)
    wait_for("the upgrade", lambda: TOOK_OVER in server.log)
    return server


def kill(start_server, server):
    """Its end is no failure of the test."""
    start_server.servers.remove(server)
    start_server.running.pop(server)
    server.process.kill()
    server.process.wait()


def await_end(server):
    assert server.process.wait(PATIENCE) == 0, server.log
    server.check_end()
    assert "every request that was taken on is answered" in server.log


def test_no_request_fails_during_upgrades(start_server, repository, address):
    make_identity(repository, "m")
    server = start(start_server, repository, address)
    http_port, grpc_port, metrics_port = server.http_port, server.grpc_port, server.metrics_port
    with Load(http_port, grpc_port) as load:
        for _ in range(3):
            load.await_more()
            new = upgrade(start_server, repository, address)
            assert (new.http_port, new.grpc_port, new.metrics_port) == (http_port, grpc_port, metrics_port)
            await_end(server)
            assert f"{FOLLOWS} {new.process.pid} has taken over" in server.log
            server = new
        load.await_more()
    assert "nv_inference_request_success" in server.ask("/metrics", port=metrics_port).text


def test_what_has_begun_ends_at_the_old_server(start_server, repository, address):
    """Half a request, a stream of gRPC, and a client of gRPC that has only connected."""
    make_identity(repository, "m")
    server = start(start_server, repository, address, *PATIENT)
    with contextlib.ExitStack() as stack:
        half = stack.enter_context(contextlib.closing(socket.create_connection(("127.0.0.1", server.http_port), timeout=PATIENCE)))
        half.sendall(b"POST %s HTTP/1.1\r\nHost: x\r\nContent-" % INFER.encode())
        stream = stack.enter_context(triton.InferenceServerClient(f"127.0.0.1:{server.grpc_port}"))
        answers = queue.SimpleQueue()
        stream.start_stream(lambda result, error: answers.put((result, error)))
        given = triton.InferInput("INPUT0", [1, 1], "FP32")
        given.set_data_from_numpy(np.array([[7]], np.float32))
        stream.async_stream_infer("m", [given])
        assert answers.get(timeout=PATIENCE)[1] is None
        silent = stack.enter_context(contextlib.closing(socket.create_connection(("127.0.0.1", server.grpc_port), timeout=PATIENCE)))
        new = upgrade(start_server, repository, address)
        wait_for("the old server's stop", lambda: FOLLOWS in server.log)
        silent.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + frame(4))
        assert 7 in kinds_of_frames(silent)  # GOAWAY; HTTP's clients are sent away before gRPC's
        half.sendall(b"Length: %d\r\n\r\n%s" % (len(BODY), BODY))
        with half.makefile("rb") as answer:
            head = answer.readline(), *iter(answer.readline, b"\r\n")
        assert head[0] == b"HTTP/1.1 200 OK\r\n" and b"Connection: close\r\n" in head
        stream.async_stream_infer("m", [given])
        assert answers.get(timeout=PATIENCE)[1] is None
        assert server.process.poll() is None
        stream.stop_stream()
    await_end(server)
    assert new.ask(INFER, BODY).status == 200


def frame(kind, flags=0):
    return struct.pack(">I", 0)[1:] + bytes([kind, flags]) + struct.pack(">I", 0)


def kinds_of_frames(link):
    """Until the server closes; its ping is answered."""
    kinds, rest = [], b""
    while data := link.recv(65536):
        rest += data
        while len(rest) >= 9 and len(rest) >= 9 + (size := int.from_bytes(rest[:3], "big")):
            kinds.append(rest[3])
            if rest[3] == 6 and not rest[4] & 1:
                link.sendall(rest[:4] + b"\1" + rest[5:9 + size])
            rest = rest[9 + size:]
    return kinds


def test_every_address_passes(start_server, repository, address, tmp_path, nereid):
    """Unix sockets keep their files, an address that only one of the two has comes and goes, and what clients registered stays."""
    make_identity(repository, "m")
    operator = f"--admin-address=unix:{tmp_path}/admin.sock"
    both = [address, operator, f"--grpc-address=unix:{tmp_path}/grpc.sock", "--allow-client-shm=true"]
    server = start(start_server, repository, *both, f"--admin-grpc-address=unix:{tmp_path}/old.sock")
    files = {name: (tmp_path / name).stat().st_ino for name in ("admin.sock", "grpc.sock", "upgrade.sock")}
    with contextlib.closing(shared_memory.SharedMemory(create=True, size=64)) as region:
        try:
            registered = json.dumps({"key": f"/{region.name}", "offset": 8, "byte_size": 16}).encode()
            assert server.ask("/v2/systemsharedmemory/region/r/register", registered).status == 200
            new = upgrade(start_server, repository, address, *both[1:], f"--metrics-port={free_port()}")
            await_end(server)
            told = json.loads(new.ask("/v2/systemsharedmemory/status").body)
            assert told == [{"name": "r", "key": f"/{region.name}", "offset": 8, "byte_size": 16}]
        finally:
            region.unlink()
    assert {name: (tmp_path / name).stat().st_ino for name in files} == files and not (tmp_path / "old.sock").exists()
    assert subprocess.run([nereid, "status", operator], timeout=PATIENCE).returncode == 0
    with triton.InferenceServerClient(f"unix:{tmp_path}/grpc.sock") as client:
        assert client.is_server_ready()
    assert new.http_port == server.http_port and new.metrics_port != server.metrics_port
    assert new.ask("/metrics", port=new.metrics_port).status == 200
    listening = listening_ports(new.process.pid)  # the kernel may have given the old one's to somebody else
    assert new.http_port in listening and server.metrics_port not in listening
    new.stop()
    assert not any((tmp_path / name).exists() for name in files)


def test_the_service_manager_hears_of_the_new_process(start_server, repository, address, tmp_path):
    make_identity(repository, "m")
    with contextlib.closing(NotifySocket(tmp_path)) as manager:
        server = start(start_server, repository, address, variables=manager.variables)
        assert manager.hear() == b"READY=1"
        new = upgrade(start_server, repository, address, variables=manager.variables)
        named = f"MAINPID={new.process.pid}".encode()
        assert manager.hear() == named  # the old one says so
        assert manager.hear() == b"READY=1\n" + named
        await_end(server)
        new.stop()
        assert manager.hear() == b"STOPPING=1"  # the old one has not said that


def test_a_signal_starts_the_next_server(start_server, repository, address, configured):
    """For systemd, which believes only processes of the service's own group: SIGUSR2 has the running server start the next one."""
    make_identity(repository, "m")
    config, flag = configured
    server = start(start_server, repository, address, flag)
    config.write_text("id: two\n")
    server.process.send_signal(signal.SIGUSR2)
    await_end(server)
    new = int(re.search(rf"{FOLLOWS} (\d+) has taken over", server.log)[1])
    try:
        assert f"SIGUSR2: started process {new}, which is to take over" in server.log
        assert json.loads(server.ask("/v2").body)["name"] == "two" and server.ask(INFER, BODY).status == 200
    finally:
        os.kill(new, signal.SIGTERM)
    wait_for("its end", lambda: server.log.count("every request that was taken on is answered") == 2)


def test_a_signal_without_an_address_changes_nothing(start_server, repository):
    make_identity(repository, "m")
    server = start_server(repository)
    server.process.send_signal(signal.SIGUSR2)
    wait_for("the line", lambda: "SIGUSR2: no upgrade: there is no --upgrade-address" in server.log)
    assert server.ask(INFER, BODY).status == 200


def test_a_started_server_that_ends_before_it_asks_for_sockets_is_in_the_log(start_server, repository, address, configured):
    make_identity(repository, "m")
    config, flag = configured
    server = start(start_server, repository, address, flag)
    config.write_text("no-such-flag: 1\n")
    for attempt in (1, 2):  # after the first one is gone, another may be started
        server.process.send_signal(signal.SIGUSR2)
        wait_for("the line", lambda count=attempt: len(re.findall(r"SIGUSR2: process \d+ has ended with status 1, this server serves on", server.log)) == count)
    assert server.ask(INFER, BODY).status == 200


def test_a_second_signal_starts_no_second_server(start_server, repository, address, configured):
    make_identity(repository, "m")
    config, flag = configured
    server = start(start_server, repository, address, flag)
    config.unlink()
    os.mkfifo(config)  # the next server waits for a writer
    server.process.send_signal(signal.SIGUSR2)
    wait_for("the first", lambda: re.search(r"SIGUSR2: started process (\d+)", server.log))
    first = re.search(r"SIGUSR2: started process (\d+)", server.log)[1]
    server.process.send_signal(signal.SIGUSR2)
    wait_for("the refusal", lambda: f"SIGUSR2: no upgrade: process {first} is to take over, and has not ended" in server.log)
    os.kill(int(first), signal.SIGKILL)
    wait_for("its end", lambda: f"SIGUSR2: process {first} has ended with signal 9, this server serves on" in server.log)
    assert server.ask(INFER, BODY).status == 200


def test_two_servers_do_not_write_one_trace_file(start_server, repository, address, tmp_path):
    make_identity(repository, "m")
    path = tmp_path / "trace.json"
    traces = [f"--trace-config=triton,file={path}", "--trace-config=level=TIMESTAMPS", "--trace-config=rate=1"]

    def ask(server):
        assert server.ask(INFER, BODY).status == 200
        assert server.ask("/v2/trace/setting", b'{"trace_rate":"1"}').status == 200  # writes what there is
        return server

    server = ask(start(start_server, repository, address, *traces, *PATIENT))
    wait_for("its traces", lambda: path.exists() and path.read_text().endswith("]"))
    with contextlib.closing(socket.create_connection(("127.0.0.1", server.http_port), timeout=PATIENCE)) as half:
        half.sendall(b"G")  # it does not end yet
        new = upgrade(start_server, repository, address, *traces)
        beside = tmp_path / f"trace.json.{new.process.pid}"
        # At the moment of the upgrade both accept: the old one may have got the first requests.
        wait_for("its traces", lambda: ask(new) and beside.exists() and beside.read_text().endswith("]"))
        assert new.process.poll() is None
    await_end(server)
    new.stop()
    assert json.loads(path.read_text()) and json.loads(beside.read_text())
    assert "another process writes traces to" in new.log


# ---- what goes wrong ----

WAITS = """
def initialize(self, args):
    open({!r}).read()

def execute(self, requests):
    return []
"""


@pytest.fixture
def slow(repository, tmp_path):
    """A model in a repository of its own that loads once somebody has written to its gate."""
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    other = tmp_path / "slow"
    other.mkdir()
    make_identity(other, "m")
    make_python(other, "waits", WAITS.format(str(gate)))
    return other, gate


def await_loading(server, new):
    wait_for("the new server's question", lambda: f"an upgrade begins: process {new.process.pid} gets" in server.log)


def test_a_new_server_that_fails_changes_nothing(start_server, repository, address, tmp_path):
    make_identity(repository, "m")
    server = start(start_server, repository, address)
    broken = tmp_path / "broken"
    broken.mkdir()
    (make_identity(broken, "m") / "config.pbtxt").write_text('backend: "no_such"')
    with Load(server.http_port, server.grpc_port) as load:
        new = start_server(broken, flags=[address, "--upgrade"], wait=False)
        assert new.process.wait(PATIENCE) == 1 and "creating server: Internal - failed to load all models" in new.log
        wait_for("the running server's line", lambda: "this server serves on" in server.log)
        taken = start_server(repository, flags=[address, "--upgrade", f"--http-port={server.metrics_port}"], wait=False)
        assert taken.process.wait(PATIENCE) == 1 and "already in use" in taken.log
        load.await_more()
        upgrade(start_server, repository, address)
        await_end(server)
        load.await_more()


def test_a_new_server_that_is_killed_changes_nothing(start_server, repository, address, slow):
    make_identity(repository, "m")
    server = start(start_server, repository, address)
    with Load(server.http_port, server.grpc_port) as load:
        new = start_server(slow[0], flags=[address, "--upgrade"], wait=False)
        await_loading(server, new)
        kill(start_server, new)
        new_line = f"the upgrade by process {new.process.pid} is over, this server serves on: process {new.process.pid} is gone"
        wait_for("the running server's line", lambda: new_line in server.log)
        load.await_more()
    server.stop()


def test_one_upgrade_at_a_time(start_server, repository, address, slow):
    make_identity(repository, "m")
    server = start(start_server, repository, address)
    first = start_server(slow[0], flags=[address, "--upgrade"], wait=False)
    await_loading(server, first)
    second = start_server(repository, flags=[address, "--upgrade"], wait=False)
    assert second.process.wait(PATIENCE) == 1
    text = f"error: taking over from the running server: Unavailable - an upgrade by process {first.process.pid} is under way"
    assert text in second.log
    slow[1].write_text("")
    wait_for("the upgrade", lambda: TOOK_OVER in first.log)
    await_end(server)


def test_a_server_that_stops_leaves_its_sockets_to_the_next_one(start_server, repository, address, slow, tmp_path):
    """SIGTERM to the old one while the new one loads: a client that connects meanwhile waits for the new one."""
    make_identity(repository, "m")
    unix = f"--admin-address=unix:{tmp_path}/admin.sock"
    server = start(start_server, repository, address, unix)
    port = server.http_port
    new = start_server(slow[0], flags=[address, unix, "--upgrade"], wait=False)
    await_loading(server, new)
    server.stop()
    with contextlib.closing(http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)) as client:
        client.request("GET", "/v2/health/ready")
        slow[1].write_text("")
        assert client.getresponse().status == 200
    wait_for("its line", lambda: "this server serves alone" in new.log)
    assert (tmp_path / "admin.sock").exists() and (tmp_path / "upgrade.sock").exists()
    new.stop()
    assert not (tmp_path / "admin.sock").exists() and not (tmp_path / "upgrade.sock").exists()


def test_without_a_running_server_it_starts(start_server, repository, address, nereid):
    make_identity(repository, "m")
    server = start_server(repository, flags=[address, "--upgrade"])
    assert "nothing to take over (--upgrade)" in server.log
    again = subprocess.run([nereid, f"--model-repository={repository}", "--upgrade"], capture_output=True, text=True, timeout=PATIENCE)
    assert again.returncode == 1 and again.stderr == "error: --upgrade needs --upgrade-address, that of the running server\n"


# ---- strangers ----

AS_NOBODY = """
import os, socket, sys
os.setgroups([]); os.setgid(65534); os.setuid(65534)
link = socket.socket(socket.AF_UNIX)
link.connect(sys.argv[1])
try:
    link.send(b'{"take":1}\\0')
    data, fds, _, _ = socket.recv_fds(link, 65536, 16)
except ConnectionError:
    data, fds = b"", []
print(data, fds)
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_another_user_gets_nothing(start_server, repository, tmp_path):
    make_identity(repository, "m")
    path = f"/tmp/upgrade-{os.getpid()}.sock"
    server = start(start_server, repository, f"--upgrade-address=unix:{path}")
    refused = subprocess.run([sys.executable, "-c", AS_NOBODY, path], capture_output=True, text=True, timeout=PATIENCE)
    assert refused.returncode == 1 and "PermissionError" in refused.stderr  # the file is 0600
    os.chmod(path, 0o666)
    asked = subprocess.run([sys.executable, "-c", AS_NOBODY, path], capture_output=True, text=True, timeout=PATIENCE)
    assert asked.stdout == "b'' []\n", asked.stderr
    wait_for("the line", lambda: "belongs to user 65534: only a server of the same user (0)" in server.log)
    new = upgrade(start_server, repository, f"--upgrade-address=unix:{path}")
    await_end(server)
    new.stop()


def test_nonsense_ends_the_conversation_only(start_server, repository, address):
    make_identity(repository, "m")
    server = start(start_server, repository, address)
    path = address.removeprefix("--upgrade-address=unix:")
    for said in (b"GET / HTTP/1.1\r\n\r\n\0", b"[]\0", b'{"take":2}\0', b'{"serving":["http"]}\0', b"\0", b'{"take":1,"take":1}\0', b"{" * 100000 + b"\0"):
        with contextlib.closing(socket.socket(socket.AF_UNIX)) as link:
            link.settimeout(PATIENCE)
            link.connect(path)
            link.sendall(said)
            answer = link.recv(65536)
            assert answer.startswith(b'{"refused":'), (said, answer)
    wait_for("the end of all", lambda: server.log.count("this server serves on") == 7)  # it takes one at a time
    with contextlib.closing(socket.socket(socket.AF_UNIX)) as link:  # leaves after it got the sockets
        link.connect(path)
        link.sendall(b'{"take":1}\0')
        data, fds, _, _ = socket.recv_fds(link, 65536, 16)
        assert len(fds) == 4 and [s["name"] for s in json.loads(data[:-1])["sockets"]] == ["http", "grpc", "metrics", "upgrade"]
        for fd in fds:
            os.close(fd)
    wait_for("its line", lambda: server.log.count("this server serves on") == 8)
    assert server.ask(INFER, BODY).status == 200
