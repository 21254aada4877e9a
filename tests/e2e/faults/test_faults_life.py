# SPDX-License-Identifier: Apache-2.0
"""Memory that runs out and system calls that fail while a server starts or stops: a process for each site.

A start goes through or ends with status 1 and one line that says why. A stop ends with status 0 and answers what was accepted.
"""
import concurrent.futures
import http.client
import signal

import pytest
from conftest import PATIENCE, SANITIZER_REPORT, Starter, copy_model, make_identity, wait_for
from fault_replies import ask, gives_back, json_body
from faults import SETS, Faults, Tally, listening_ports, select, telling

pytestmark = [pytest.mark.slow, pytest.mark.long]

KINDS = {"memory": ["memory"], "calls": [name for name in SETS if name not in ("memory", "wait", "read", "write")]}
SITES = 8  # each costs a process
FLAGS = ["--model-control-mode=explicit", "--load-model=*", "--http-thread-count=2"]


class Life:
    """One server from its start to its end, with a control block of its own."""

    def __init__(self, nereid, backends, directory, repository, flags):
        directory.mkdir()
        self.faults = Faults(directory / "faults")
        self.starter = Starter(nereid, backends, directory)
        self.repository, self.flags = repository, flags
        self.server = None

    def start(self):
        """True when the server is ready, False when it ended."""
        self.server = self.starter(self.repository, flags=self.flags, variables=self.faults.variables, wait=False)

        def ended_or_ready():
            if self.server.process.poll() is not None:
                return "ended"
            ports = listening_ports(self.server.process.pid)
            if len(ports) < 3 or not self.tell_ports(ports):
                return None
            answer = ask(self.server, None, "/v2/health/ready").answer
            return answer is not None and answer[0] == 200 and "ready"

        return wait_for("the end or readiness", ended_or_ready) == "ready"

    def tell_ports(self, ports):
        """Which is which: the log may lack the lines that say so, for want of memory."""
        forms = {port: self.form(port) for port in ports}
        if sorted(map(str, forms.values())) != ["application/json", "grpc", "text/plain"]:
            return False
        self.server.http_port, _, self.server.metrics_port = sorted(ports, key=forms.get)
        return True

    def form(self, port):
        """What a port answers to HTTP/1.1; gRPC's speaks HTTP/2 only."""
        try:
            answer = ask(self.server, None, "/v2", port=port).answer
        except http.client.BadStatusLine:
            return "grpc"
        return answer and answer[1].get_content_type()

    def check_failed_start(self):
        lines = [line for line in self.server.log.splitlines() if line.startswith("error: ")]
        assert self.server.process.returncode == 1 and len(lines) == 1
        assert not SANITIZER_REPORT.search(self.server.log)

    def check_service(self):
        reply = ask(self.server, gives_back([7.0]), "/v2/models/m/infer", json_body([7.0], "FP32"))
        assert reply.is_right(), reply

    def stop(self):
        self.server.process.send_signal(signal.SIGTERM)
        assert self.server.process.wait(PATIENCE) == 0
        assert not SANITIZER_REPORT.search(self.server.log)

    def kill(self):
        if self.server is not None and self.server.process.poll() is None:
            self.server.process.kill()
            self.server.process.wait()
        self.starter.stop_all()


# ---- how it is started ----


def plain(repository):
    return FLAGS


def config_file(repository):
    path = repository.parent / "config.yaml"
    path.write_text("model-control-mode: explicit\nload-model: ['*']\nhttp-thread-count: 2\nlog-verbose: 1\n")
    return [f"--config={path}"]


def onnx(repository):
    copy_model(repository, "add_sub")
    return FLAGS


def two_versions(repository):
    make_identity(repository, "n", versions=(1, 2), more="version_policy { all {} } instance_group { count: 2 }")
    return ["--model-control-mode=none", "--http-thread-count=1"]


STARTS = {"plain": plain, "config-file": config_file, "onnx": onnx, "two-versions": two_versions}


@pytest.fixture
def new_life(nereid, backends, tmp_path, repository):
    make_identity(repository, "m", more='dynamic_batching { } parameters { key: "execute_delay_ms" value { string_value: "150" } }')
    lives = []

    def make(flags):
        lives.append(Life(nereid, backends, tmp_path / f"life{len(lives)}", repository, flags))
        return lives[-1]

    yield make
    for life in lives:
        life.kill()


def fail_each(try_site, new_life, flags, scenario, kind, stacks):
    """Two processes at a time."""
    sites = list(dict.fromkeys(stacks))
    tally = Tally(scenario, kind, len(sites))

    def run(plan):
        with telling(lambda: f"{plan[0].faults.where()}\n{plan[0].server.log}"):
            try_site(*plan)

    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        plans = [(new_life(flags), stack) for stack in select(sites, SITES)]
        list(pool.map(lambda plan: tally.run(plan[0].faults, lambda: run(plan)), plans))
    tally.finish()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("start", STARTS)
def test_a_start_goes_through_or_says_why_it_does_not(new_life, repository, start, kind):
    flags = STARTS[start](repository)
    first = new_life(flags)
    first.faults.arm(KINDS[kind])
    assert first.start(), first.server.log
    first.faults.disarm()
    first.stop()

    def try_site(life, stack):
        life.faults.arm(KINDS[kind], at=1, stack=stack)
        ready = life.start()
        life.faults.disarm()
        if not ready:
            life.check_failed_start()
            return
        life.check_service()
        life.stop()

    fail_each(try_site, new_life, flags, f"start {start}", kind, first.faults.stacks())


# ---- how it is stopped ----


def stop_idle(life, arm):
    arm()
    life.stop()


def metric(life, name):
    """Summed over labels."""
    lines = life.server.ask("/metrics", port=life.server.metrics_port).text.splitlines()
    return sum(float(line.split()[-1]) for line in lines if line.startswith(name + "{"))


def stop_with_requests(life, arm):
    """One is in the instance and one waits: they are answered, or told if the failure is in their way."""
    question = life.server, gives_back([7.0]), "/v2/models/m/infer", json_body([7.0], "FP32")
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        inside = waiting = None
        while waiting is None or waiting.done():  # more than once where the machine is slower than the model
            before = metric(life, "nereid_batch_closed_total")
            inside = pool.submit(ask, *question)
            wait_for("a request inside", lambda: metric(life, "nereid_batch_closed_total") > before)
            waiting = pool.submit(ask, *question)
            wait_for("a request that waits", lambda: waiting.done() or metric(life, "nv_inference_pending_request_count") == 1)
        arm()
        life.stop()
        replies = inside.result(), waiting.result()
    assert all(reply.is_fair() for reply in replies), replies


STOPS = {"idle": stop_idle, "with-requests": stop_with_requests}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("stop", STOPS)
def test_a_stop_ends_in_good_order_whatever_fails(new_life, stop, kind):
    first = new_life(FLAGS)
    assert first.start(), first.server.log
    first.check_service()
    STOPS[stop](first, lambda: first.faults.arm(KINDS[kind]))

    def try_site(life, stack):
        assert life.start(), life.server.log
        life.check_service()
        STOPS[stop](life, lambda: life.faults.arm(KINDS[kind], at=1, stack=stack))

    fail_each(try_site, new_life, FLAGS, f"stop {stop}", kind, first.faults.stacks())
