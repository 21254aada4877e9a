# SPDX-License-Identifier: Apache-2.0
"""The log: its settings while the server runs, its formats, and what strangers cannot do to its lines (docs/logging.md)."""
import contextlib
import json
import os
import re
import signal
import subprocess

import pytest
import tritonclient.http as triton
from conftest import PATIENCE, WITHOUT_LEAK_CHECK, environment, make_faulty, make_identity, wait_for
from ports import free_port
from python_models import infer, make_python
from safety import Client, tensor
from wire import connect, receive_all

DEFAULTS = {"log_file": "", "log_info": True, "log_warning": True, "log_error": True, "log_verbose_level": 0, "log_format": "default"}
EXPLICIT = ["--model-control-mode=explicit", "--load-model=*"]
LINES = {  # one whole line without what is printed in it
    "default": re.compile(rb'[IWE]\d{4} \d\d:\d\d:\d\d\.\d{6} \d+ [\w.]+:\d+\] "([^"\\\x00-\x1f\x7f]|\\.)*"'),
    "ISO8601": re.compile(rb'\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ [IWE] \d+ [\w.]+:\d+\] "([^"\\\x00-\x1f\x7f]|\\.)*"'),
    "json": re.compile(rb'\{("([^"\\\x00-\x1f\x7f]|\\.)*":("([^"\\\x00-\x1f\x7f]|\\.)*"|\d+),?)+\}'),
}


@pytest.fixture
def server_of_m(start_server, repository):
    make_identity(repository, "m")
    return start_server(repository, flags=EXPLICIT)


def change(server, **settings):
    return server.ask("/v2/logging", json.dumps(settings).encode())


def listens(server):
    with contextlib.suppress(OSError):
        return server.ask("/v2/health/live").status == 200


def settings_of(server):
    answer = server.ask("/v2/logging")
    assert answer.status == 200 and answer.headers["Content-Type"] == "application/json"
    return json.loads(answer.body)


# ---- settings ----

def test_tritons_client_reads_and_changes_the_settings(server_of_m):
    with triton.InferenceServerClient(server_of_m.url) as client:
        assert client.get_log_settings() == DEFAULTS
        expected = dict(DEFAULTS)
        for update in (
            {"log_verbose_level": 2}, {"log_info": False, "log_warning": False}, {"log_format": "ISO8601"}, {"log_error": False},
            {"log_info": None, "log_file": None, "no_such_setting": [1]}, {}, {"log_format": "json"},
            {name: value for name, value in DEFAULTS.items() if name != "log_file"},
        ):
            expected |= {name: value for name, value in update.items() if name in expected and value is not None}
            assert client.update_log_settings(settings=update) == expected, update
            assert client.get_log_settings() == expected
        assert list(client.get_log_settings()) == list(DEFAULTS)  # Triton's order


@pytest.mark.parametrize("flag, setting", [
    ("--log-info=false", {"log_info": False}), ("--log-warning=false", {"log_warning": False}), ("--log-error=false", {"log_error": False}),
    ("--log-verbose=3", {"log_verbose_level": 3}), ("--log-format=ISO8601", {"log_format": "ISO8601"}),
])
def test_flags_are_the_first_settings(start_server, repository, tmp_path, flag, setting):
    file = tmp_path / "log"
    port = free_port()  # without lines of level I nobody tells it
    server = start_server(repository, flags=[f"--log-file={file}", f"--http-port={port}", flag, *EXPLICIT], wait=False)
    server.http_port = port
    wait_for("the listener", lambda: listens(server))
    assert settings_of(server) == DEFAULTS | {"log_file": str(file)} | setting
    server.stop()
    assert ("Started HTTPService" in file.read_text()) == (flag != "--log-info=false") and server.log == "Signal (15) received.\n"


BAD = [
    ({"log_file": "/tmp/other"}, 501, "log file location can not be updated through network protocol"),
    ({"log_file": 7}, 501, "log file location"),
    ({"log_info": 1}, 400, "attempt to access JSON non-boolean as boolean: expected a boolean for 'log_info'"),
    ({"log_warning": "false"}, 400, "expected a boolean for 'log_warning'"),
    ({"log_error": [True]}, 400, "expected a boolean for 'log_error'"),
    ({"log_verbose_level": -1}, 400, "invalid value -1 for 'log_verbose_level'"),
    ({"log_verbose_level": 1 << 31}, 400, "invalid value"),
    ({"log_verbose_level": "1"}, 400, "attempt to access JSON non-unsigned-integer as unsigned-integer: expected an unsigned integer for 'log_verbose_level'"),
    ({"log_verbose_level": 1.5}, 400, "expected an unsigned integer"),
    ({"log_verbose_level": True}, 400, "expected an unsigned integer"),
    ({"log_format": "iso"}, 400, "invalid argument for --log_format, got: iso"),
    ({"log_format": 1}, 400, "expected a string for 'log_format'"),
]


def test_a_bad_setting_changes_nothing(server_of_m):
    for bad, status, words in BAD:
        answer = change(server_of_m, log_verbose_level=1, **bad) if "log_verbose_level" not in bad else change(server_of_m, log_info=False, **bad)
        assert answer.status == status and words in json.loads(answer.body)["error"], (bad, answer.text)
        assert settings_of(server_of_m) == DEFAULTS
    for body in (b'{"log_info":False}', b'{"log_info":'):
        assert server_of_m.ask("/v2/logging", body).status == 400, body
    for body in (b"", b"[]", b"7"):
        assert server_of_m.ask("/v2/logging", body).status == 200, body  # nothing to change
    assert settings_of(server_of_m) == DEFAULTS


def test_all_bad_settings_are_told(server_of_m):
    answer = change(server_of_m, log_format="x", log_info=1, log_error=False, log_verbose_level=-1)
    assert answer.status == 400 and json.loads(answer.body)["error"] == (
        "attempt to access JSON non-boolean as boolean: expected a boolean for 'log_info'; invalid value -1 for 'log_verbose_level', expected 0 to 2147483647; "
        "invalid argument for --log_format, got: x")
    assert settings_of(server_of_m) == DEFAULTS


def test_settings_act_at_once(server_of_m):
    def lines_of(act):
        before = len(server_of_m.log.splitlines())
        act()
        return server_of_m.log.splitlines()[before:]

    def reload():
        assert server_of_m.ask("/v2/repository/models/m/unload", b"").status == 200
        wait_for("its end, which is logged before", lambda: "UNAVAILABLE" in server_of_m.ask("/v2/repository/index", b"").text)
        assert server_of_m.ask("/v2/repository/models/m/load", b"").status == 200

    def ask():
        assert server_of_m.ask("/v2").status == 200

    def fail():
        assert server_of_m.ask("/v2/repository/models/none/load", b"").status in (400, 500)

    assert any("successfully loaded 'm'" in line for line in lines_of(reload))
    change(server_of_m, log_info=False)
    assert not any(line.startswith("I") for line in lines_of(reload))
    assert lines_of(ask) == []
    change(server_of_m, log_verbose_level=1)
    assert [("HTTP request: GET /v2" in line, line[0]) for line in lines_of(ask)] == [(True, "I")]
    change(server_of_m, log_verbose_level=0, log_info=True, log_format="ISO8601")
    assert all(re.match(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ I ", line) for line in lines_of(reload))
    change(server_of_m, log_format="json")
    assert all(json.loads(line)["level"] == "info" for line in lines_of(reload))
    assert any(line.startswith("{") and json.loads(line)["level"] == "error" for line in lines_of(fail))
    change(server_of_m, log_error=False)
    assert not any(json.loads(line)["level"] == "error" for line in lines_of(fail))


def test_a_models_logger_follows_the_settings(start_server, repository):
    make_python(repository, "chatty", """
        def execute(self, requests):
            pb_utils.Logger.log_info("at info")
            pb_utils.Logger.log_warn("at warning")
            pb_utils.Logger.log_error("at error")
            pb_utils.Logger.log_verbose("at verbose")
            pb_utils.Logger.log_warn("at the end of " + requests[0].request_id())
            return [answer(value(request)) for request in requests]
        """)
    server = start_server(repository)

    def lines_of(request_id):
        before = len(server.log.splitlines())
        infer(server, "chatty", request_id=request_id)
        wait_for("the lines", lambda: f"at the end of {request_id}" in server.log)  # they come beside the answer
        return [line for line in server.log.splitlines()[before:] if "at the end" not in line]

    def said(request_id):
        return [found[1] for found in (re.search(' "at (.*)"$', line) for line in lines_of(request_id)) if found]

    assert said("1") == ["info", "warning", "error"]
    change(server, log_verbose_level=1)
    assert said("2") == ["info", "warning", "error", "verbose"]
    change(server, log_info=False, log_error=False)
    assert said("3") == ["warning", "verbose"]
    change(server, log_verbose_level=0, log_info=True, log_error=True, log_format="json")
    lines = [json.loads(line) for line in lines_of("4")]
    assert [line.pop("message") for line in lines] == ["at info", "at warning", "at error"]
    for line in lines:
        assert line.pop("source").startswith("model.py:")
        assert {key: line[key] for key in line if key not in ("ts", "pid", "level")} == {
            "request_id": "4", "model": "chatty", "version": 1, "instance": "chatty_0_0"}


# ---- formats and streams ----

def test_info_goes_to_standard_output_and_the_rest_to_standard_error(start_server, repository, tmp_path):
    make_identity(repository, "m")
    (repository / "m" / "02").mkdir()  # a version that is none: a warning
    (repository / "broken").mkdir()
    (repository / "broken" / "config.pbtxt").write_text("{")
    run = subprocess.run(start_server.command(repository, flags=["--log-verbose=1"]), capture_output=True, text=True, timeout=PATIENCE,
                         env=environment() | WITHOUT_LEAK_CHECK)
    assert run.returncode == 1  # a model did not load
    assert {line[0] for line in run.stdout.splitlines() if LINES["default"].fullmatch(line.encode())} == {"I"}
    assert {line[0] for line in run.stderr.splitlines() if LINES["default"].fullmatch(line.encode())} == {"W", "E"}


@pytest.mark.parametrize("form", ["default", "json"])
def test_the_escape_switch_is_for_tritons_formats_only(start_server, repository, form):
    make_python(repository, "two", """
        def execute(self, requests):
            pb_utils.Logger.log_info('first "line"\\nsecond line')
            return [answer(value(request)) for request in requests]
        """)
    server = start_server(repository, flags=[f"--log-format={form}"], variables={"TRITON_SERVER_ESCAPE_LOG_MESSAGES": "0"})
    infer(server, "two")
    wait_for("the lines", lambda: "second line" in server.log)
    if form == "json":
        assert any(json.loads(line)["message"] == 'first "line"\nsecond line' for line in server.log.splitlines())
    else:
        assert '] first "line"\nsecond line\n' in server.log


def scenario(server):
    """Something of everything that makes lines."""
    with Client(server) as client:
        assert client.ask("/v2/models/m/infer", tensor(id="good")).status == 200
        assert client.ask("/v2/models/m/infer", tensor(shape=(2, 2, 2), id="bad\n")).status == 400
        assert client.ask("/v2/models/fails/infer", tensor("IN", "INT32", [1], id="raises\u00e9\n")).status == 500
        assert client.ask("/v2/models/refuses/infer", tensor(datatype="INT32", shape=(1,), id="refused")).status >= 400
        assert client.ask("/v2/models/none/infer", tensor()).status == 404
        client.load("broken")
        client.unload("m")
        client.load("m")
        client.ask("/metrics")


def make_scenario(repository):
    make_identity(repository, "m")
    make_faulty(repository, "refuses", "execute_error")
    make_python(repository, "fails", """
        def execute(self, requests):
            print("to standard output")
            print("two\\nlines", file=sys.stderr)
            pb_utils.Logger.log_info('quotes " and \\x1b[31mescapes')
            raise ValueError("bad luck\\nin two lines")
        """)
    (repository / "broken").mkdir()
    (repository / "broken" / "config.pbtxt").write_text('name: "x\n')


def test_every_line_of_a_life_is_json(start_server, repository):
    make_scenario(repository)
    server = start_server(repository, flags=["--log-format=json", "--log-verbose=2", "--exit-on-error=false", *EXPLICIT], ready=False)
    wait_for("the models", lambda: server.ask("/v2/models/fails/ready").status == 200 and server.ask("/v2/models/m/ready").status == 200)
    scenario(server)
    server.process.send_signal(signal.SIGHUP)
    server.stop()
    lines = [json.loads(line) for line in server.log.splitlines()]
    assert all(set(line) >= {"ts", "level", "pid", "source", "message"} for line in lines)
    assert all(re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z", line["ts"]) for line in lines)
    assert {line["level"] for line in lines} == {"info", "error", "verbose"} | ({"warning"} & {line["level"] for line in lines})
    asked = [line for line in lines if line["message"] == "HTTP request: POST /v2/models/m/infer"]
    assert [line["model"] for line in asked] == ["m", "m"]
    raised = [line for line in lines if "bad luck" in line["message"] and line["level"] == "error"]
    assert raised and {(line["model"], line.get("instance"), line.get("request_id")) for line in raised} == {("fails", "fails_0_0", "raises\u00e9\n")}
    assert any("Signal (15) received." == line["message"] for line in lines)


@pytest.mark.parametrize("form", ["default", "ISO8601", "json"])
def test_a_start_that_fails_says_so_in_the_format(start_server, repository, form):
    server = start_server(repository / "absent", flags=[f"--log-format={form}"], wait=False)
    assert server.process.wait(PATIENCE) == 1
    last = server.log.splitlines()[-1]
    if form == "json":
        assert json.loads(last)["level"] == "error" and "creating server" in json.loads(last)["message"]
        assert all(json.loads(line) for line in server.log.splitlines())
    else:
        assert last.startswith("error: creating server: ")


# ---- what strangers send ----

def attacks():
    """Requests with each byte, and with characters that end a line for some, in each place."""
    for text in ("\x85", "\x9b[2J", "\u2028", "\u2029", '\r\nI1121 00:00:00.000000 1 server.cc:1] "forged"'):
        for escaped in (True, False):
            body = json.dumps(json.loads(tensor()) | {"id": f"x{text}y"}, ensure_ascii=escaped).encode()
            yield b"POST /v2/models/m/infer HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body)
    for byte in range(256):
        hexed = b"%%%02x" % byte
        yield b"GET /v2/models/x%sy/ready HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n" % hexed
        yield b"GET /v2/%sxy HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n" % hexed
        if byte != 13:  # half the end of a line
            yield b"GET /v2 HTTP/1.1\r\nHost: x\r\nConnection: close\r\nX: x%cy\r\n\r\n" % byte
        for body in (
            b'{"id":"x%sy",%s' % (b"\\u%04x" % byte, tensor()[1:]),
            b'{"id":"x%cy",%s' % (byte, tensor()[1:]),
            b'{"parameters":{"x%cy":"x%cy"},%s' % (byte, byte, tensor()[1:]),
        ):
            yield b"POST /v2/models/m/infer HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body)


@pytest.mark.parametrize("form", list(LINES))
def test_every_byte_makes_one_line_cve_2024_0095(start_server, repository, tmp_path, form):
    make_identity(repository, "m")
    file, access = tmp_path / "log", tmp_path / "access"
    server = start_server(repository, flags=[f"--log-format={form}", "--log-verbose=1", f"--access-log={access}"])
    wait_for("the last line of the start", lambda: "Serving " in server.log)
    before = len(server.log_path.read_bytes().splitlines())
    asked = len(wait_for("the requests so far", lambda: access.read_bytes().splitlines()))
    sent = 0
    for attack in attacks():
        with connect(server) as connection:
            connection.sendall(attack)
            assert receive_all(connection).startswith(b"HTTP/1.1 "), attack
        sent += 1
    answer = server.ask("/v2/models/m/stats")
    assert answer.status == 200 and settings_of(server)["log_format"] == form
    sent += 2
    lines = server.log_path.read_bytes().split(b"\n")[before:-1]
    assert [line for line in lines if not LINES[form].fullmatch(line)] == []
    asked_for = [line for line in lines if b"HTTP request: " in line or b"HTTP request refused: " in line]
    assert len(asked_for) == sent
    assert all(line in asked_for or b"libmicrohttpd: " in line for line in lines)
    server.stop()
    assert len(access.read_text().splitlines()) == access.read_bytes().count(b"\n")  # for Python's idea of lines, too
    entries = access.read_bytes().split(b"\n")[asked:-1]
    entries = [entry for entry in entries if b"/v2/health/ready" not in entry]  # of the start, whose lines may come late
    assert len(entries) == sent and not file.exists()
    assert [entry for entry in entries if re.search(rb"[\x00-\x1f\x7f]", entry)] == []
    if form == "json":
        assert all(json.loads(entry)["protocol"] == "http" for entry in entries)


# ---- a pipe as file ----

def test_a_pipe_that_nobody_reads_is_a_warning(start_server, repository, tmp_path):
    """And the lines go where they went without it. A reader that comes later is found by SIGHUP."""
    os.mkfifo(tmp_path / "fifo")
    server = start_server(repository, flags=[f"--log-file={tmp_path}/fifo"])
    assert re.search(rf"^W.*--log-file: cannot open log file '{tmp_path}/fifo'.*; lines go to standard output and error", server.log, re.M)
    reader = os.open(tmp_path / "fifo", os.O_RDONLY | os.O_NONBLOCK)
    server.process.send_signal(signal.SIGHUP)
    wait_for("the new file", lambda: server.ask("/v2/logging").text.count(f"{tmp_path}/fifo"))
    server.stop()
    assert b"All models are stopped" in os.read(reader, 1 << 20)
    os.close(reader)


def test_a_reader_that_sleeps_costs_lines_and_no_request(start_server, repository, tmp_path):
    """The pipe is full; requests whose lines find no room are answered, SIGHUP opens it again, and the end comes."""
    make_identity(repository, "m")
    os.mkfifo(tmp_path / "fifo")
    reader, port = os.open(tmp_path / "fifo", os.O_RDONLY | os.O_NONBLOCK), free_port()
    flags = [f"--log-file={tmp_path}/fifo", f"--http-port={port}", "--log-verbose=1", *EXPLICIT]
    server = start_server(repository, flags=flags, wait=False)
    server.http_port = port
    wait_for("the server", lambda: listens(server))
    server.await_ready()
    with Client(server) as client:
        for _ in range(400):  # of which each has a line, with its path
            assert client.ask("/v2/models/m/" + "x" * 1000).status == 404
    server.process.send_signal(signal.SIGHUP)
    assert server.ask("/v2/health/ready").status == 200
    server.stop()
    size = len(os.read(reader, 1 << 20))
    os.close(reader)
    assert 32 << 10 < size < 256 << 10  # that was a full pipe
