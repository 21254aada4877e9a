# SPDX-License-Identifier: Apache-2.0
"""How the process lives: start, readiness, reload under load, drain, signals, exit codes, and backends that misbehave."""
import contextlib
import json
import os
import re
import signal
import socket
import struct
import subprocess
import threading

import proc
import pytest
from conftest import DEADLINE, make_faulty, make_identity, wait_for
from faults import OWN, PAUSE, Faults
from oracle import Counters, resources
from python_models import make_python

pytestmark = pytest.mark.gpu_host

BODY = b'{"inputs":[{"name":"INPUT0","shape":[1,1],"datatype":"FP32","data":[7]}]}'
ACCEPTED = "HTTP request: POST /v2/models/m/infer"  # of the verbose log
SLOW_START = 'parameters { key: "creation_delay_sec" value { string_value: "2" } }'
SLOW = 'parameters { key: "execute_delay_ms" value { string_value: "%d" } }'


def in_background(call):
    """Runs `call` on a thread; the result is called to wait for what it returned."""
    box = {}
    thread = threading.Thread(target=lambda: box.update(result=call()))
    thread.start()

    def result():
        thread.join(DEADLINE)
        return box["result"]

    return result


def make_held(repository, name):
    """An identity that does not come to the end of its load while the file is there that this gives."""
    make_identity(repository, name)
    config = (repository / name / "config.pbtxt").read_text().replace('"identity"', '"python"')
    hold = make_python(repository, name, """
        def initialize(self, args):
            while os.path.exists(args["model_repository"] + "/hold"):
                time.sleep(0.01)
        def execute(self, requests):
            return [answer(value(request, "INPUT0"), "OUTPUT0") for request in requests]
        """, config=config) / "hold"
    hold.touch()
    return hold


def test_ports_are_open_while_models_load(start_server, repository):
    hold = make_held(repository, "slow")
    make_identity(repository, "quick")
    server = start_server(repository, ready=False)
    assert server.ask("/v2/health/live").status == 200
    assert server.ask("/v2/health/ready").status == 400

    def state():
        return {r["name"]: r.get("state") for r in json.loads(server.ask("/v2/repository/index", b"").body)}["slow"]

    wait_for("the load to begin", lambda: state() == "LOADING")
    wait_for("the quick model", lambda: server.ask("/v2/models/quick/infer", BODY).status == 200)
    assert server.ask("/v2/health/ready").status == 400
    assert server.ask("/v2/models/slow/infer", BODY).status == 404
    hold.unlink()
    server.await_ready()
    assert server.ask("/v2/models/slow/infer", BODY).status == 200


def test_without_strict_readiness_a_failed_model_does_not_matter(start_server, repository):
    make_faulty(repository, fault="model_initialize")
    make_identity(repository, "m")
    flags = ["--exit-on-error=false"]
    strict = start_server(repository, flags=flags, ready=False)
    lenient = start_server(repository, flags=[*flags, "--strict-readiness=false"])
    assert lenient.ask("/v2/health/ready").status == 200
    wait_for("the good model", lambda: strict.ask("/v2/models/m/ready").status == 200)
    assert strict.ask("/v2/health/ready").status == 400


def test_a_failed_start_says_why_and_exits_with_1(start_server, repository):
    make_faulty(repository, fault="model_initialize")
    make_identity(repository, "m")
    server = start_server(repository, wait=False)
    assert server.process.wait(DEADLINE) == 1
    assert "failed to load 'faulty' version 1: Internal: faulty backend: model_initialize" in server.log
    assert "| faulty | 1       | UNAVAILABLE: Internal: faulty backend: model_initialize |" in server.log
    assert "error: creating server: Internal - failed to load all models" in server.log
    assert "Sanitizer" not in server.log


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_drains_what_was_accepted(start_server, repository, number):
    make_identity(repository, "m", more=SLOW % 700)
    server = start_server(repository, flags=["--log-verbose=1"])
    idle = socket.create_connection(("localhost", server.http_port))  # must not delay the end
    answer = in_background(lambda: server.ask("/v2/models/m/infer", BODY))
    wait_for("the request", lambda: ACCEPTED in server.log)
    server.process.send_signal(number)
    assert server.stop(number=0) == 0 and "Exit timeout expired" not in server.log
    assert answer().status == 200
    assert idle.recv(1) == b""
    assert "successfully unloaded 'm' version 1" in server.log


def make_holding(repository):
    """A model whose executions last as long as the file is there that this gives."""
    make_identity(repository, "m")
    config = (repository / "m" / "config.pbtxt").read_text().replace('"identity"', '"python"')
    hold = make_python(repository, "m", """
        def initialize(self, args):
            self.hold = args["model_repository"] + "/hold"
        def execute(self, requests):
            while os.path.exists(self.hold):
                time.sleep(0.01)
            return [answer(value(request, "INPUT0"), "OUTPUT0") for request in requests]
        """, config=config) / "hold"
    hold.touch()
    return hold


def test_a_second_sigterm_is_ignored(start_server, repository):
    """timeout(1), supervisors that signal a group, and a preStop hook followed by the kubelet send two."""
    hold = make_holding(repository)
    server = start_server(repository, flags=["--log-verbose=1"])
    answer = in_background(lambda: server.ask("/v2/models/m/infer", BODY))
    wait_for("the request", lambda: ACCEPTED in server.log)
    server.process.send_signal(signal.SIGTERM)
    wait_for("the first signal", lambda: "Signal (15) received." in server.log)
    server.process.send_signal(signal.SIGTERM)
    wait_for("the second one", lambda: "signal (15) ignored, since the server is stopping already" in server.log)
    hold.unlink()
    assert server.stop(number=0) == 0
    assert answer().status == 200


def test_a_second_sigint_ends_at_once(start_server, repository):
    make_holding(repository)
    server = start_server(repository, flags=["--log-verbose=1", "--exit-timeout-secs=3600"])
    with socket.create_connection(("localhost", server.http_port)) as connection:
        connection.sendall(b"POST /v2/models/m/infer HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % len(BODY) + BODY)
        wait_for("the request", lambda: ACCEPTED in server.log)

        def ended():  # what comes at once is one with what a launcher passes on
            server.process.send_signal(signal.SIGINT)
            return server.process.poll() is not None

        wait_for("the end", ended, pause=0.4)
        assert server.process.returncode == 1
    assert "stopped at once by the second signal" in server.log


def test_signals_that_come_together_are_one(start_server, repository):
    """As timeout(1) sends them."""
    hold = make_holding(repository)
    server = start_server(repository, flags=["--log-verbose=1"])
    answer = in_background(lambda: server.ask("/v2/models/m/infer", BODY))
    wait_for("the request", lambda: ACCEPTED in server.log)
    for number in (signal.SIGSTOP, signal.SIGTERM, signal.SIGINT, signal.SIGCONT):
        server.process.send_signal(number)
    wait_for("the signal", lambda: re.search(r"Signal \((2|15)\) received\.", server.log))
    hold.unlink()
    assert server.stop(number=0) == 0
    assert answer().status == 200


def test_the_exit_timeout_ends_what_does_not_end(start_server, repository):
    make_identity(repository, "m", more=SLOW % 30000)
    server = start_server(repository, flags=["--exit-timeout-secs=1", "--log-verbose=1"])
    with socket.create_connection(("localhost", server.http_port)) as connection:
        connection.sendall(b"POST /v2/models/m/infer HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % len(BODY) + BODY)
        wait_for("the request", lambda: ACCEPTED in server.log)
        server.process.send_signal(signal.SIGTERM)
        assert server.process.wait(DEADLINE) == 1
    assert "Exit timeout expired. Exiting immediately." in server.log
    assert "a request that has waited for its model or the server for" in server.log  # what was cut


def test_a_signal_during_start_up_ends_it(start_server, repository):
    make_identity(repository, "slow", more=SLOW_START)
    server = start_server(repository, ready=False)
    assert server.stop() == 0


def test_a_port_in_use_is_named(start_server, repository):
    make_identity(repository, "m")
    first = start_server(repository)
    second = start_server(repository, flags=[f"--http-port={first.http_port}"], wait=False)
    assert second.process.wait(DEADLINE) == 1
    assert f":{first.http_port}' already in use" in second.log


def test_no_request_is_lost_while_a_model_is_reloaded(start_server, repository):
    make_identity(repository, "m")
    server = start_server(repository, flags=["--model-control-mode=explicit", "--load-model=m"])
    stop, statuses = threading.Event(), []

    def ask():
        while not stop.is_set():
            statuses.append(server.ask("/v2/models/m/infer", BODY).status)

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    for i in range(20):
        wait_for("more answers", lambda: len(statuses) > 2 * i)
        make_identity(repository, "m", more="instance_group { count: %d }" % (1 + i % 3))
        os.utime(repository / "m", ns=(0, (4_000_000_000 + i) * 10**9))
        assert server.ask("/v2/repository/models/m/load", b"").status == 200
        config = json.loads(server.ask("/v2/models/m/config").body)
        assert config["instance_group"][0]["count"] == 1 + i % 3
    stop.set()
    for thread in threads:
        thread.join()
    assert len(statuses) > 20 and set(statuses) == {200}


def test_an_instance_that_is_not_ready_shows(start_server, repository):
    make_faulty(repository, fault="not_ready")
    server = start_server(repository, ready=False)
    wait_for("the load", lambda: "successfully loaded 'faulty'" in server.log)
    assert server.ask("/v2/models/faulty/ready").status == 400
    assert server.ask("/v2/health/ready").status == 400


def test_an_instance_that_is_slow_to_say_that_it_is_ready_holds_nobody_else_up(start_server, repository):
    make_faulty(repository, fault="slow_to_say_ready")
    server = start_server(repository, flags=["--http-thread-count=1"], ready=False)
    wait_for("the load", lambda: "successfully loaded 'faulty'" in server.log)
    answers, lives = [], []
    probe = threading.Thread(target=lambda: answers.append(server.ask("/v2/models/faulty/ready").status))
    probe.start()
    while answers == []:
        assert server.ask("/v2/health/live").status == 200
        lives.append(len(answers))
    probe.join()
    assert answers == [200]
    assert lives.count(0) > 3, "the loop answered while the backend thought"


def test_a_client_that_leaves_cancels_what_still_waits(start_server, repository):
    make_identity(repository, "m", more=SLOW % 5000)
    server = start_server(repository)
    connections = []
    for _ in range(4):
        connection = socket.create_connection(("localhost", server.http_port))
        connection.sendall(b"POST /v2/models/m/infer HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % len(BODY) + BODY)
        connections.append(connection)

    def metric(text):
        return text in server.ask("/metrics", port=server.metrics_port).text

    wait_for("the queue", lambda: metric('nv_inference_pending_request_count{model="m",version="1"} 3'))
    for connection in connections:
        connection.close()
    wait_for("cancellations", lambda: metric('nv_inference_request_failure{model="m",reason="CANCELED",version="1"} 3'))
    wait_for("the executed one", lambda: metric('nv_inference_exec_count{model="m",version="1"} 1'))


def descriptor_of(server, connection):
    """The number that a connection has in the server."""
    ends = server.http_port, connection.getsockname()[1]
    links = [socket.link for socket in proc.sockets() if (socket.port, socket.peer) == ends]
    for number, link in proc.descriptors(server.process.pid).items():
        if link in links:
            return number
    raise AssertionError(f"the server has no connection from port {ends[1]}")


def stands_still(server):
    """Whether every thread is stopped: SIGSTOP takes a moment."""
    return set(proc.thread_states(server.process.pid).values()) == {"T"}


def test_a_client_that_leaves_cancels_nothing_of_whom_its_descriptor_is_next(start_server, repository, tmp_path):
    """The watcher has the event of a client that left in its hands while the client's descriptor becomes another's."""
    make_identity(repository, "m", more=SLOW % 3000 + "dynamic_batching { }")
    faults = Faults(tmp_path / "faults")
    server = start_server(repository, flags=["--log-verbose=1"], variables=faults.variables)
    request = b"POST /v2/models/m/infer HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % len(BODY) + BODY

    def connect():
        return socket.create_connection(("127.0.0.1", server.http_port), timeout=DEADLINE)

    def paused(count):
        wait_for(f"pause {count}", lambda: faults.failed == count)

    with connect() as leaver, connect() as busy, contextlib.ExitStack() as ended:
        busy.sendall(request)  # what comes next waits for its instance
        wait_for("the first request", lambda: server.log.count(ACCEPTED) == 1)
        number = descriptor_of(server, leaver)
        faults.arm(["accept", "write"], at=1, count=4, error=PAUSE)
        ended.callback(faults.disarm)
        leaver.sendall(b"GET /v2/health/live HTTP/1.1\r\nHost: x\r\n\r\n")
        paused(1)  # the leaver's loop, so that it does not close the connection yet
        server.process.send_signal(signal.SIGSTOP)  # so that the watcher finds both events at once: a client to accept, one that left
        wait_for("the standstill", lambda: stands_still(server))
        with connect() as first, connect() as second:
            leaver.shutdown(socket.SHUT_WR)
            for client in (first, second):
                client.sendall(request)
            server.process.send_signal(signal.SIGCONT)
            paused(2)  # behind the first accept
            faults.release(1)
            wait_for("the leaver's end", lambda: number not in proc.descriptors(server.process.pid))
            faults.release(2)
            paused(3)
            assert descriptor_of(server, second) == number
            faults.release(3)
            paused(4)  # the last accept, which finds nobody: the leaver's event is next
            wait_for("their requests", lambda: server.log.count(ACCEPTED) == 3)
            faults.disarm()
            for client in (first, second):
                assert client.recv(4096).startswith(b"HTTP/1.1 200")


def test_timeouts_are_answered_on_time_while_the_instance_is_busy(start_server, repository):
    make_identity(repository, "m", more=SLOW % 8000 + """
        dynamic_batching { max_queue_delay_microseconds: 0
          default_queue_policy { default_timeout_microseconds: 4000000 max_queue_size: 2 } }""")
    server = start_server(repository)
    executed = threading.Event()
    busy = in_background(lambda: (server.ask("/v2/models/m/infer", BODY), executed.set())[0])
    closed = 'nereid_batch_closed_total{model="m",reason="idle",version="1"} 1'
    wait_for("the execution", lambda: closed in server.ask("/metrics", port=server.metrics_port).text)
    late = [in_background(lambda: server.ask("/v2/models/m/infer", BODY)) for _ in range(2)]
    wait_for("the queue", lambda: 'nv_inference_pending_request_count{model="m",version="1"} 2' in server.ask("/metrics", port=server.metrics_port).text)
    full = server.ask("/v2/models/m/infer", BODY)
    assert full.status == 503 and "Exceeds maximum queue size" in full.text
    for answer in late:
        assert answer().status == 503 and "Request timeout expired" in answer().text
    assert not executed.is_set()  # the instance is still busy
    assert busy().status == 200


def test_the_log_is_in_tritons_format(start_server, repository):
    import re

    make_identity(repository, "m")
    server = start_server(repository)
    line = re.compile(r'^[IWE]\d{4} \d\d:\d\d:\d\d\.\d{6} \d+ [a-z_]+\.c:\d+\] (".*")?$')
    lines = [l for l in server.log.splitlines() if l and not l.startswith(("+", "|"))]
    assert len(lines) > 4 and all(line.match(l) for l in lines), lines
    iso = start_server(repository, flags=["--log-format=ISO8601", "--log-verbose=1"])
    assert re.search(r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ? ", iso.log, re.M)


def test_clients_that_reset_their_connections_leave_nothing_behind(start_server, repository):
    make_identity(repository, "m")
    server = start_server(repository, flags=["--model-control-mode=explicit", "--load-model=m"])
    request = b"POST /v2/models/m/infer HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % len(BODY) + BODY
    before = resources(server)["descriptors"]
    for i in range(300):
        connection = socket.create_connection(("localhost", server.http_port))
        if i % 2:  # close with a reset
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        connection.sendall(request if i % 3 else request[: 40 + i % 60])
        connection.close()
    wait_for("the end of all connections", lambda: resources(server)["descriptors"] <= before)
    wait_for("the end of what was queued", lambda: Counters.of(server)["m"]["pending"] == 0)
    assert server.ask("/v2/models/m/infer", BODY).status == 200
    # The model goes when the last of its requests is released: nothing may be left.
    assert server.ask("/v2/repository/models/m/unload", b"").status == 200
    wait_for("the end of the model", lambda: "successfully unloaded 'm'" in server.log)
    assert server.stop() == 0
    assert "Found 0 in-flight inferences" in server.log and "Exit timeout expired" not in server.log


def load(server, model):
    return server.ask(f"/v2/repository/models/{model}/load", b"")


@pytest.mark.parametrize("retries", [1, 2])
def test_a_load_that_fails_is_tried_again_as_often_as_the_operator_says(start_server, repository, retries):
    """The third attempt succeeds."""
    attempts = make_python(repository, "m", """
        def initialize(self, args):
            with open(os.path.join(os.path.dirname(__file__), "attempts"), "a+") as file:
                file.write("x")
                file.seek(0)
                if len(file.read()) < 3:
                    raise ValueError("not yet")

        def execute(self, requests):
            return [answer(value(request)) for request in requests]
        """) / "1/attempts"
    server = start_server(repository, flags=["--model-control-mode=explicit", f"--model-load-retry-count={retries}"])
    answer = load(server, "m")
    assert (answer.status, "not yet" in answer.text) == ((200, False) if retries == 2 else (400, True))
    assert len(attempts.read_text()) == retries + 1


def test_so_many_models_load_at_a_time(start_server, repository, tmp_path):
    """Each waits while it loads, and notes when it is the third that does."""
    for name in "abc":
        make_python(repository, name, f"""
            def initialize(self, args):
                here = "{tmp_path}/begun." + args["model_name"]
                open(here, "w").close()
                if sum(name.startswith("begun.") for name in os.listdir("{tmp_path}")) > 2:
                    open("{tmp_path}/three", "w").close()
                while not os.path.exists("{tmp_path}/gate"):
                    time.sleep(0.01)
                os.remove(here)

            def execute(self, requests):
                return [answer(value(request)) for request in requests]
            """)
    server = start_server(repository, flags=["--model-load-thread-count=2"], ready=False)
    wait_for("two of them", lambda: len(list(tmp_path.glob("begun.*"))) == 2)
    (tmp_path / "gate").touch()
    server.await_ready()
    assert all(server.ask(f"/v2/models/{name}/ready").status == 200 for name in "abc")
    assert not (tmp_path / "three").exists()


def test_a_runtime_that_cannot_be_used_is_named(start_server, repository):
    texts = {"__none__": "unable to find backend library '__none__' for model 'm0', searched: ",
             "../else/libtriton_identity.so": "backend library name '../else/libtriton_identity.so' escapes backend directory"}
    for i, runtime in enumerate(texts):
        make_identity(repository, f"m{i}", more=f'runtime: "{runtime}"')
    server = start_server(repository, flags=["--model-control-mode=explicit"])
    for i, text in enumerate(texts.values()):
        answer = load(server, f"m{i}")
        assert answer.status == 400 and text in answer.text, answer.text
