# SPDX-License-Identifier: Apache-2.0
"""The survival oracle: what must hold of a server around an attack, whatever the attack was.

The process is the same, live, ready and right; no sanitizer spoke; descriptors, threads and children are what they were;
the counters of each model agree with what was sent; and, where memory is measured, its growth is within a figure.
"""
import contextlib
import json
import os
import re
import threading
import time

import proc
from conftest import SANITIZER_REPORT, wait_for
from wire import CANARY, CANARY_BODY, connect, receive_reply

MIB = 1 << 20
MAX_JOB_THREADS = 16 + 4  # for control calls and for readiness, besides one for each processor
SERVER_THREADS = {
    "nereid", "life", "startup", "load", "poll", "reaper", "timekeeper", "http-loop", "http-watch", "access-log", "grpc-loop",
    "MHD-single", "job",
}
CANARY_PAUSE = 0.05  # 20 requests each second while an attack runs
COUNTER = re.compile(r'^(nv_inference_\w+)\{([^}]*)\} ([-+.\deE]+)$', re.M)


def status_of(server, field):
    return proc.status(server.process.pid, field)


def rss(server):
    return status_of(server, "VmRSS") * 1024


def cpu_seconds(server):
    return proc.cpu_seconds(server.process.pid)


def reset_peak(server):
    """From here on VmHWM is the peak of what follows."""
    proc.reset_peak(server.process.pid)


def peak(server):
    return status_of(server, "VmHWM") * 1024


def resources(server):
    """Threads without those that start when they are needed, stay, and have a limit: jobs and instances."""
    pid = server.process.pid
    threads = list(proc.threads(pid).values())
    jobs, own = threads.count("job"), sum(name in SERVER_THREADS for name in threads)
    assert jobs <= MAX_JOB_THREADS + os.cpu_count(), f"{jobs} job threads"
    return {"descriptors": len(proc.descriptors(pid)), "threads": own - jobs, "children": len(proc.children(pid))}


class Counters(dict):
    """success, failed and pending requests of each model."""

    NAMES = {
        "nv_inference_request_success": "success",
        "nv_inference_request_failure": "failed",
        "nv_inference_pending_request_count": "pending",
    }

    @classmethod
    def of(cls, server):
        answer = server.ask("/metrics", port=server.metrics_port)
        assert answer.status == 200
        counters = cls()
        for name, labels, value in COUNTER.findall(answer.text):
            if name in cls.NAMES:
                model = re.search(r'model="([^"]*)"', labels)[1]
                row = counters.setdefault(model, dict.fromkeys(cls.NAMES.values(), 0))
                row[cls.NAMES[name]] += int(float(value))
        return counters

    def since(self, before, model):
        none = dict.fromkeys(self.NAMES.values(), 0)
        return {name: self.get(model, none)[name] - before.get(model, none)[name] for name in none}


class Canary:
    """An honest client: the same inference again and again, on a connection of its own."""

    def __init__(self, server):
        self.server, self.sent, self.connection = server, 0, None
        self.expected = self._first()

    def _first(self):
        reply = self._ask()
        assert reply.status == 200, reply
        assert json.loads(reply.body)["outputs"][0]["data"] == json.loads(CANARY_BODY)["inputs"][0]["data"]
        return reply.body

    def _ask(self):
        if self.connection is None:
            self.connection = connect(self.server)
        self.connection.sendall(CANARY)
        self.sent += 1
        return receive_reply(self.connection)

    def check(self):
        reply = self._ask()
        assert (reply.status, reply.body) == (200, self.expected), reply

    @contextlib.contextmanager
    def singing(self):
        """Asks at a steady rate on a thread while the block runs."""
        stop, failures = threading.Event(), []

        def run():
            try:
                while not stop.wait(CANARY_PAUSE):
                    self.check()
            except BaseException as failure:  # noqa: B902 - it is raised again below
                failures.append(failure)

        thread = threading.Thread(target=run, daemon=True)
        thread.start()
        try:
            yield
        finally:
            stop.set()
            thread.join()
        if failures:
            raise failures[0]

    def close(self):
        if self.connection is not None:
            self.connection.close()
            self.connection = None


class Survival:
    """What a test may add to the oracle while its attack runs."""

    def __init__(self):
        self.successes = {}  # model: 200s that its clients read
        self.sent = {}  # model: requests that can have got there

    def count(self, model, status):
        self.sent[model] = self.sent.get(model, 0) + 1
        if status == 200:
            self.successes[model] = self.successes.get(model, 0) + 1


def await_resources(server, before):
    try:
        wait_for("the resources of before", lambda: all(v <= before[k] for k, v in resources(server).items()))
    except AssertionError:
        names = list(proc.descriptors(server.process.pid).values())
        raise AssertionError(f"{before} became {resources(server)}: {names}") from None


def _check_counters(server, before, survival, canary):
    wait_for("nothing pending", lambda: all(row["pending"] == 0 for row in Counters.of(server).values()))
    after = Counters.of(server)
    assert after.since(before, "canary") == {"success": canary.sent, "failed": 0, "pending": 0}
    for model, sent in survival.sent.items():
        row = after.since(before, model)
        assert row["success"] == survival.successes.get(model, 0), (model, row, survival.successes)
        assert row["success"] + row["failed"] <= sent, (model, row, sent)


@contextlib.contextmanager
def survives(server, grown_bytes=None, singing=True):
    """The oracle around a block. `grown_bytes` is how much more memory it may hold afterwards: give it for a release
    binary only. The server has a model 'canary', an identity of FP32."""
    server.ask("/v2/health/ready")
    before, counters = None, Counters.of(server)
    canary = Canary(server)
    survival = Survival()
    try:
        canary.close()
        settle(server)
        before = resources(server)
        memory = rss(server)
        with canary.singing() if singing else contextlib.nullcontext():
            yield survival
        assert server.process.poll() is None, f"the server ended with {server.process.returncode}:\n{server.log[-4000:]}"
        assert server.ask("/v2/health/live").status == 200
        assert server.ask("/v2/health/ready").status == 200
        canary.check()
    finally:
        canary.close()
    assert not SANITIZER_REPORT.search(server.log), server.log[-8000:]
    await_resources(server, before)
    _check_counters(server, counters, survival, canary)
    if grown_bytes is not None:
        check_growth(server, memory, grown_bytes)


def settle(server):
    """Connections that were closed a moment ago still have descriptors."""
    end, seen, since = time.monotonic() + 10, resources(server), time.monotonic()
    while time.monotonic() < end and time.monotonic() - since < 0.06:
        now = resources(server)
        if now != seen:
            seen, since = now, time.monotonic()
        time.sleep(0.02)


def check_no_growth(server, work, limit, measure=rss, rounds=6):
    """Runs `work` until a round takes no more than `limit` bytes that were not there before it; with measure=peak, at no moment of it.
    A heap grows at first, and nobody knows for how long. What leaks grows in every round."""
    grown = []
    for _ in range(rounds):
        before = rss(server)
        reset_peak(server)
        work()
        settle(server)
        with contextlib.suppress(AssertionError):
            return wait_for("memory", lambda: measure(server) - before <= limit, deadline=10)
        grown.append(round((measure(server) - before) / MIB, 1))
    raise AssertionError(f"each round takes more memory: {grown} MiB, {limit / MIB:.1f} are allowed")


def check_growth(server, before, limit):
    """Memory goes back within a moment; what stays is growth."""
    try:
        wait_for("memory", lambda: rss(server) - before <= limit)
    except AssertionError:
        raise AssertionError(f"memory grew by {(rss(server) - before) / MIB:.1f} MiB, {limit / MIB:.1f} are allowed") from None
