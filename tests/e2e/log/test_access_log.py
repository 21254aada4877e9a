# SPDX-License-Identifier: Apache-2.0
"""The access log: one line for each request, with what is known of it (docs/logging.md)."""
import json
import os
import re
import resource
import signal
import socket
import subprocess

import proc
import pytest
from conftest import PATIENCE, TOGETHER, make_faulty, make_identity, wait_for
from safety import Client, on_threads, tensor
from streaming import ask, events, make_streaming
from wire import connect, receive_all

EXPLICIT = ["--model-control-mode=explicit", "--load-model=*"]
KEYS = ["ts", "protocol", "peer", "method", "route", "status", "model", "version", "request_id", "batch", "queue_us", "compute_us",
        "total_us", "bytes_in", "bytes_out"]
DROPPED = re.compile(r"^nereid_access_log_dropped_lines_total (\d+)", re.M)
INFER = "/v2/models/{model}/infer"


def entries_of(path):
    return [json.loads(line) for line in path.read_text().splitlines(keepends=True) if line.endswith("\n")]


def await_entry(path, **values):
    """The entry with these values."""
    def look():
        return [e for e in entries_of(path) if all(e[name] == value for name, value in values.items())]
    return wait_for(f"an entry with {values}", look)[-1]


@pytest.fixture
def start_logged(start_server, repository, tmp_path):
    """A server of the model m with an access log in JSON, at server.access."""
    make_identity(repository, "m")

    def start(*flags, form="json", file=tmp_path / "access.log"):
        server = start_server(repository, flags=[f"--log-format={form}", f"--access-log={file}", *EXPLICIT, *flags])
        server.access = file
        return server

    return start


# ---- what a line says ----

def test_an_inference_is_told_with_all_that_is_known(start_logged, repository):
    make_identity(repository, "two", versions=(1, 2), more="version_policy { all {} }")
    server = start_logged()
    body = tensor(id="first")
    reply = server.ask("/v2/models/m/infer", body)
    entry = await_entry(server.access, request_id="first")
    assert list(entry) == KEYS
    assert {k: entry[k] for k in ("protocol", "method", "route", "status", "model", "version", "batch", "bytes_in", "bytes_out")} == {
        "protocol": "http", "method": "POST", "route": INFER, "status": 200, "model": "m", "version": 1, "batch": 1,
        "bytes_in": len(body), "bytes_out": len(reply.body)}
    assert re.fullmatch(r"127\.0\.0\.1:\d+", entry["peer"]) and re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z", entry["ts"])
    assert 0 < entry["queue_us"] + entry["compute_us"] <= entry["total_us"]
    assert server.ask("/v2/models/two/infer", tensor(id="newest")).status == 200
    assert await_entry(server.access, request_id="newest")["version"] == 2  # nobody named it
    assert server.ask("/v2/models/two/versions/1/infer", tensor(id="named")).status == 200
    assert await_entry(server.access, request_id="named")["version"] == 1
    binary = json.dumps({"id": "binary", "inputs": [{"name": "INPUT0", "shape": [1, 2], "datatype": "FP32", "parameters": {"binary_data_size": 8}}],
                         "parameters": {"binary_data_output": True}}).encode()
    reply = server.ask("/v2/models/m/infer", binary + bytes(8), headers={"Inference-Header-Content-Length": str(len(binary))})
    entry = await_entry(server.access, request_id="binary")
    assert reply.status == 200 and (entry["bytes_in"], entry["bytes_out"]) == (len(binary) + 8, len(reply.body))


def test_requests_of_one_batch_say_how_large_it_was(start_logged, repository):
    make_identity(repository, "batched", more=TOGETHER % 4)
    server = start_logged()
    on_threads(2, lambda i: server.ask("/v2/models/batched/infer", tensor(shape=(2, 1), data=(1, 2), id=f"b{i}")))
    assert [await_entry(server.access, request_id=f"b{i}")["batch"] for i in range(2)] == [4, 4]


KINDS = [  # method, path, body, what the line says
    ("GET", "/v2/health/live", None, {"route": "/v2/health/live", "status": 200, "bytes_out": 0, "model": ""}),
    ("HEAD", "/v2/models/m", None, {"route": "/v2/models/{model}", "status": 200, "model": "m", "bytes_out": 0}),
    ("GET", "/v2/models/m/versions/1/config", None, {"route": "/v2/models/{model}/versions/{version}/config", "version": 1}),
    ("GET", "/v2/models/none/config", None, {"status": 400, "model": "none"}),
    ("GET", "/no/such/path", None, {"route": "/no/such/path", "status": 404}),
    ("PUT", "/v2/models/m/infer", b"", {"route": "/v2/models/m/infer", "status": 405}),
    ("POST", "/v2/models/m/infer", b"{", {"route": INFER, "status": 400, "bytes_in": 1, "request_id": "", "batch": 0}),
    ("POST", "/v2/models/none/infer", b"{}", {"status": 400, "model": "none"}),
    ("POST", "/v2/models/fails/infer", tensor(datatype="INT32", shape=(1,), id="f"), {"status": 500, "request_id": "f", "model": "fails"}),
    ("POST", "/v2/models/m/infer", bytes(60000), {"status": 413}),
    ("POST", "/v2/models/m/generate", b'{"INPUT0":1}', {"route": "/v2/models/{model}/generate", "model": "m"}),
    ("POST", "/v2/repository/models/m/unload", b"", {"route": "/v2/repository/models/{model}/unload", "status": 200, "model": "m"}),
    ("POST", "/v2/logging", b"{}", {"route": "/v2/logging", "status": 200, "bytes_in": 2}),
]


def test_every_kind_of_request_is_told_once(start_logged, repository):
    make_faulty(repository, "fails", "execute_error")
    server = start_logged("--http-max-input-size=50000")

    def told():  # but for the fixture's own requests
        return [entry for entry in entries_of(server.access) if entry["route"] != "/v2/health/ready"]

    for i, (method, path, body, expected) in enumerate(KINDS):
        answer = server.ask(path, body, method)
        entry = wait_for("the line", lambda: told()[i:])[0]
        expected = expected | {"method": method, "status": answer.status}
        assert {key: entry[key] for key in expected} == expected and (method == "HEAD" or entry["bytes_out"] == len(answer.body)), (path, entry)
        assert list(entry) == KEYS
    server.stop()
    assert len(told()) == len(KINDS)


def test_a_stream_is_one_line_with_all_its_bytes(start_logged, repository):
    make_streaming(repository)
    server = start_logged()
    reply = ask(server, "streaming", "generate_stream", id="s", INPUT="hi", count=3)
    assert reply.status == 200 and len(events(reply.text)) == 3
    entry = await_entry(server.access, request_id="s")
    assert entry["bytes_out"] == len(reply.body) and entry["route"] == "/v2/models/{model}/generate_stream"
    assert entry["batch"] == 1 and entry["queue_us"] + entry["compute_us"] <= entry["total_us"]


def test_a_client_that_leaves_is_told_too(start_logged):
    server = start_logged()
    with connect(server) as connection:
        connection.sendall(b"POST /v2/models/m/infer HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\nhalf")
        connection.shutdown(socket.SHUT_WR)
        receive_all(connection)
    entry = await_entry(server.access, model="m")
    assert (entry["status"], entry["bytes_in"], entry["bytes_out"]) == (499, 4, 0)


def test_the_text_form(start_logged):
    server = start_logged(form="default")
    assert server.ask("/v2/models/m/infer", tensor(id='a "b" c=d')).status == 200
    server.stop()
    line = next(line for line in server.access.read_text().splitlines() if "infer" in line)
    pairs = re.findall(r'(\w+)=("(?:[^"\\]|\\.)*"|[^" ]+)', line)
    assert " ".join(f"{key}={value}" for key, value in pairs) == line and [key for key, _ in pairs] == KEYS
    assert json.loads(dict(pairs)["request_id"]) == 'a "b" c=d' and dict(pairs)["status"] == "200"


def test_standard_output_has_both_logs(start_logged):
    server = start_logged(file="-")
    assert server.ask("/v2").status == 200
    server.stop()
    lines = [json.loads(line) for line in server.log.splitlines()]
    assert any(line.get("route") == "/v2" for line in lines) and any("message" in line for line in lines)


# ---- the writer ----

def threads_of(server):
    return set(proc.threads(server.process.pid).values())


def test_without_the_flag_there_is_no_writer(start_server, repository):
    make_identity(repository, "m")
    server = start_server(repository)
    assert "access-log" not in threads_of(server) and not DROPPED.search(server.ask("/metrics", port=server.metrics_port).text)


def test_a_file_that_cannot_be_had_ends_the_start(start_server, repository, tmp_path):
    make_identity(repository, "m")
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)  # nobody reads it
    for path in (tmp_path / "no" / "such", tmp_path, fifo):
        server = start_server(repository, flags=[f"--access-log={path}"], wait=False)
        assert server.process.wait(PATIENCE) == 1 and f"cannot open access log '{path}'" in server.log


def test_nothing_is_lost_under_load_and_at_the_end(start_logged):
    server = start_logged()

    def work(i):
        with Client(server) as client:
            for n in range(100):
                assert client.ask("/v2/models/m/infer", tensor(id=f"{i}-{n}")).status == 200

    on_threads(4, work)
    server.stop()
    ids = [entry["request_id"] for entry in entries_of(server.access) if entry["route"] == INFER]
    assert sorted(ids) == sorted(f"{i}-{n}" for i in range(4) for n in range(100))


def test_rotated_files_are_left_for_new_ones(start_server, repository, tmp_path):
    make_identity(repository, "m")
    log, access = tmp_path / "nereid.log", tmp_path / "access.log"
    server = start_server(repository, flags=[*EXPLICIT, "--log-format=json", f"--log-file={log}", f"--access-log={access}"], wait=False)
    wait_for("the log", log.exists)
    server.log_path = log
    server.await_ports()
    server.await_ready()
    with Client(server) as client:
        for n in range(3):
            assert client.ask("/v2/models/m/infer", tensor(id=f"before {n}")).status == 200
            log.rename(f"{log}.{n}")
            access.rename(f"{access}.{n}")
            assert client.ask("/v2/models/m/infer", tensor(id=f"between {n}")).status == 200
            # a request's line comes when its reply is sent, which the client may see first
            wait_for("its line", lambda: f"between {n}" in (tmp_path / f"access.log.{n}").read_text())
            server.process.send_signal(signal.SIGHUP)
            wait_for("new files", lambda: log.exists() and access.exists())
            assert client.unload("m").status == 200 and client.load("m").status == 200
            wait_for("a line of the load", lambda: "successfully loaded 'm'" in log.read_text())
            old = [entry["request_id"] for entry in entries_of(tmp_path / f"access.log.{n}") if entry["route"] == INFER]
            assert old == [f"before {n}", f"between {n}"]
    access.unlink()
    os.mkdir(access)  # a path that cannot be opened: the old file goes on
    server.process.send_signal(signal.SIGHUP)
    wait_for("the complaint", lambda: "the access log cannot be opened again" in log.read_text())
    assert server.ask("/v2/models/m/infer", tensor()).status == 200
    server.stop()


@pytest.fixture
def full_disk(tmp_path):
    """A directory with 1 MiB of room, and how to give room: a file system of its own where that may be mounted, else a limit of files."""
    directory = tmp_path / "disk"
    directory.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "none", directory], capture_output=True).returncode == 0

    def fill(server):
        if mounted:
            with open(directory / "filler", "wb", buffering=0) as filler, pytest.raises(OSError, match="No space"):
                while True:
                    filler.write(bytes(1024))
        else:
            _, hard = resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE)
            resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE, (server.access.stat().st_size, hard))

    def clear(server):
        if mounted:
            (directory / "filler").unlink()
        else:
            _, hard = resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE)
            resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE, (hard, hard))

    yield directory, fill, clear
    if mounted:
        subprocess.run(["umount", "-l", directory], check=True)


def dropped(server):
    return int(DROPPED.search(server.ask("/metrics", port=server.metrics_port).text)[1])


def test_a_full_disk_costs_lines_and_no_inference_row_37(start_logged, full_disk):
    directory, fill, clear = full_disk
    server = start_logged(file=directory / "access.log")
    assert dropped(server) == 0
    fill(server)
    with Client(server) as client:
        for n in range(200):
            assert client.ask("/v2/models/m/infer", tensor(id=f"full {n}")).status == 200
        lost = wait_for("lost lines", lambda: dropped(server))
        wait_for("the complaint", lambda: "the access log cannot be written, lines are dropped: " in server.log)
        assert 0 < lost <= 210 and server.log.count("the access log cannot be written") == 1  # once, not for each line
        clear(server)
        assert client.ask("/v2/models/m/infer", tensor(id="room again")).status == 200
    text = wait_for("the new line", lambda: "room again" in server.access.read_text() and server.access.read_text())
    whole = [line for line in text.splitlines() if line.endswith("}") and line.startswith("{")]
    assert len(text.splitlines()) - len(whole) <= 1  # the line that was cut
    assert "room again" in whole[-1] or "room again" in whole[-2]
    assert all(json.loads(line) for line in whole)


@pytest.mark.slow
def test_a_reader_that_sleeps_costs_lines_and_no_inference(start_logged, tmp_path):
    """A pipe that is full blocks the writer alone, what waits is bounded, and the end comes all the same."""
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    reader = os.open(fifo, os.O_RDONLY | os.O_NONBLOCK)
    try:
        server = start_logged(file=fifo)

        def work(i):
            with Client(server) as client:
                for _ in range(900):  # of lines that have 1,700 bytes: more than what waits and the pipe
                    assert client.ask("/v2/models/m/infer", tensor(id="\1" * 256)).status == 200

        on_threads(3, work)
        assert dropped(server) > 0
        server.stop()
        assert "the access log cannot be closed" in server.log
    finally:
        os.close(reader)
