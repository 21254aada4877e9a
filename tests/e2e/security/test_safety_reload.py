# SPDX-License-Identifier: Apache-2.0
"""Reloads and unloads under load: no request fails, and nothing is kept. Memory is measured with the release build.

NEREID_RELOADS, NEREID_RACE and NEREID_CYCLES make them long (500, 1024 and 1000 in the scorecard).
"""
import itertools
import json
import os
import subprocess
import sys

import proc
import pytest
from conftest import DEADLINE, copy_model, make_identity, wait_for
from oracle import MIB, await_resources, resources, rss
from safety import Client, instances, on_threads, tensor

pytestmark = pytest.mark.slow

EXPLICIT = ["--model-control-mode=explicit"]
RELOADS = int(os.environ.get("NEREID_RELOADS", "30"))
RACE = int(os.environ.get("NEREID_RACE", "64"))
CYCLES = int(os.environ.get("NEREID_CYCLES", "200"))
RATE = 1000

# A process of its own: a client in ours would measure our interpreter's lock. It asks `rate` times a second, each request at
# its time whether or not the last one was answered in time, and prints what came back.
LOAD = """
import http.client, json, select, sys, time
port, rate, body = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3].encode()
connection = http.client.HTTPConnection("127.0.0.1", port)
statuses, times, begin, due = {}, [], time.perf_counter(), 0
while not select.select([sys.stdin], [], [], 0)[0]:
    due = max(due + 1 / rate, time.perf_counter() - begin - 1)
    while time.perf_counter() - begin < due:
        time.sleep(0.0002)
    connection.request("POST", "/v2/models/m/infer", body)
    answer = connection.getresponse()
    wrong = b'"data":[7' not in answer.read()
    key = "wrong" if wrong and answer.status == 200 else str(answer.status)
    statuses[key] = statuses.get(key, 0) + 1
    times.append(time.perf_counter() - begin - due)
    if len(times) % 20 == 0:
        print("20 more", flush=True)
times.sort()
print(json.dumps({"statuses": statuses, "p99_us": round(times[len(times) * 99 // 100] * 1e6)}))
"""


class Load:
    """Constant requests for `m` from another process."""

    def __init__(self, server):
        command = [sys.executable, "-c", LOAD, str(server.http_port), str(RATE), tensor().decode()]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def await_answers(self):
        """Some 20 more: each reload has its share."""
        assert self.process.stdout.readline() == "20 more\n"

    def __enter__(self):
        return self

    def __exit__(self, *_):
        output, _ = self.process.communicate("stop", timeout=DEADLINE)
        self.result = json.loads(output.splitlines()[-1])


def newer(path, clock=[4_000_000_000]):
    clock[0] += 1
    os.utime(path, (clock[0], clock[0]))


def change(kind, repository, i):
    """A reason to load `m` again: new files, or other instances alone."""
    count = 1 + i % 3 if kind == "instances" else 1
    directory = make_identity(repository, "m", more="instance_group { count: %d }" % count)
    newer(directory / "1" if kind == "files" else directory)
    return count


def test_no_request_fails_while_a_model_is_reloaded(start_server, repository):
    make_identity(repository, "m")
    server = start_server(repository, flags=[*EXPLICIT, "--load-model=m"])
    with Client(server) as client:
        for kind in ("nothing", "files", "instances"):  # the first for comparison
            with Load(server) as load:
                for i in range(RELOADS):
                    load.await_answers()
                    if kind != "nothing":
                        count = change(kind, repository, i)
                        assert client.load("m").status == 200
                        config = json.loads(client.ask("/v2/models/m/config").body)
                        assert config["instance_group"][0]["count"] == count
            print(f"{kind} is changed {RELOADS} times: {load.result}")
            assert list(load.result["statuses"]) == ["200"] and load.result["statuses"]["200"] >= 20 * RELOADS
        change("files", repository, 0)
        assert client.load("m").status == 200
    wait_for("the end of the old ones", lambda: instances(server) == [])


def test_32_threads_load_and_unload_cve_2025_33238(start_server, repository):
    """Each thread has a model of its own and one that it shares with seven others."""
    for i in range(32):
        make_identity(repository, f"own{i}")
    for i in range(4):
        make_identity(repository, f"shared{i}")
    server = start_server(repository, flags=EXPLICIT)
    answered = set()

    def work(i):
        own, shared = f"own{i}", f"shared{i % 4}"
        with Client(server) as client:
            for n in range(RACE):
                if n % 2:
                    assert client.unload(own).status == 200
                    assert client.ask(f"/v2/models/{own}/infer", tensor()).status == 404
                    loaded = client.load(shared)
                    assert loaded.status == 200 or "Newer operation" in loaded.text, loaded.text
                else:
                    assert client.load(own).status == 200
                    assert client.ask(f"/v2/models/{own}/infer", tensor()).status == 200
                    assert client.unload(shared).status == 200
                answered.add(client.ask(f"/v2/models/{shared}/infer", tensor()).status)
            assert client.load(own).status == 200

    on_threads(32, work, deadline=DEADLINE * max(1, RACE // 64))
    assert answered <= {200, 404, 503}
    with Client(server) as client:
        for i in range(4):
            assert client.unload(f"shared{i}").status == 200
        final = {(f"own{i}", "1"): "READY" for i in range(32)} | {(f"shared{i}", "1"): "UNAVAILABLE" for i in range(4)}
        wait_for("the end of what was unloaded", lambda: client.index() == final)
        for i in range(32):
            assert client.ask(f"/v2/models/own{i}/infer", tensor()).status == 200
            assert client.unload(f"own{i}").status == 200
        wait_for("the end of all", lambda: instances(server) == [])


class Usage:
    """Memory, descriptors and mappings of a server, at rest."""

    def __init__(self, server):
        self.rss_mib = rss(server) / MIB
        self.resources = resources(server)
        self.mappings = len(proc.read(server.process.pid, "maps").splitlines())

    def __repr__(self):
        return f"{self.rss_mib:.1f} MiB, {self.resources}, {self.mappings} mappings"


@pytest.mark.parametrize("name", ["identity", "digits"])
def test_load_and_unload_keep_nothing(start_release, repository, name):
    if name == "digits":
        copy_model(repository, name)  # onnxruntime
    else:
        make_identity(repository, name)
    server = start_release(repository, flags=EXPLICIT, variables={"MALLOC_ARENA_MAX": "1"})  # or mappings come with threads
    body = tensor("image", "FP32", [1, 64], [0] * 64) if name == "digits" else tensor()
    usages = []
    with Client(server) as client:
        for cycle in range(1, CYCLES + 1):
            assert client.load(name).status == 200
            assert client.ask(f"/v2/models/{name}/infer", body).status == 200
            assert client.unload(name).status == 200
            wait_for("the end of the model", lambda: client.index()[(name, "1")] == "UNAVAILABLE")
            if cycle % 50 == 0:
                wait_for("the end of its threads", lambda: instances(server) == [])
                usages.append(Usage(server))
    print(f"{name}: after 50 cycles {usages[0]}; after {CYCLES} {usages[-1]}")
    assert any(now.rss_mib < before.rss_mib + 1 for before, now in itertools.pairwise(usages)), usages  # what leaks grows in all of them
    await_resources(server, usages[0].resources)
    assert usages[-1].mappings <= usages[0].mappings + 16, usages  # stacks that the C library keeps for the next thread
