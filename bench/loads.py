#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What loads cost the clients of a model: the p99 of 1,000 small inferences a second, beside nothing and beside loads.

    bench/loads.py [--rounds 7] [--seconds 4] [--rate 10] [--only TEXT]

Each round measures the model alone and then beside each kind of load, on one server of the release build; what is printed is
the median of the rounds and of their ratios. Scorecard: below 1.2 beside bad loads of others (row 34), below 2 while the
model itself is reloaded (row 38).
"""
import argparse
import pathlib
import random
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests/e2e"))

from conftest import Starter, copy_model, link_backends, make_identity  # noqa: E402
from safety import Client, tensor  # noqa: E402
from wire import request  # noqa: E402

RATE = 1000
DIGITS = ROOT / "model_repository/digits/1/model.onnx"


def ask_steadily(port, rate, seconds):
    """Prints the p99 in microseconds, from when a request was due where the one before was late, else from when it was sent."""
    connection = socket.create_connection(("127.0.0.1", port))
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    body, times, failed = request("POST", "/v2/models/m/infer", tensor()), [], 0
    begun = time.perf_counter()
    for i in range(rate * seconds):
        due = begun + i / rate
        late = time.perf_counter() >= due
        while (now := time.perf_counter()) < due:
            time.sleep(max(due - now - 0.0001, 0))
        connection.sendall(body)
        reply = connection.recv(65536)
        failed += not reply.startswith(b"HTTP/1.1 200 ")
        times.append(time.perf_counter() - (due if late else now))
    assert not failed, f"{failed} requests failed"
    print(sorted(times)[len(times) * 99 // 100] * 1e6)


def measure(server, seconds):
    command = [sys.executable, __file__, "--client", str(server.http_port), "--seconds", str(seconds)]
    return float(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


class Loads:
    """Loads one after the other on a thread, while the block runs."""

    def __init__(self, server, step, rate):
        self.server, self.step, self.pause, self.count = server, step, 1 / rate, 0
        self.stop, self.thread = threading.Event(), threading.Thread(target=self.run)

    def run(self):
        with Client(self.server) as client:
            while not self.stop.wait(self.pause):
                self.step(client, self.count)
                self.count += 1

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.stop.set()
        self.thread.join()


def kinds_of_load(repository):
    """name → what does one load: (client, number)"""
    whole = DIGITS.read_bytes()

    def bad(client, i):
        chance = random.Random(i)
        content = [whole[: chance.randrange(len(whole))], chance.randbytes(100_000), b""][i % 3]
        (repository / "bad/1/model.onnx").write_bytes(content)
        assert client.load("bad").status != 200 or content

    def sparse(client, _):
        with open(repository / "bad/1/model.onnx", "wb") as file:
            file.truncate(4 << 30)
        assert client.load("bad").status != 200

    def reload(client, i, name="m"):
        make_identity(repository, name, more=f"parameters {{ key: 'n' value {{ string_value: '{time.time_ns()}' }} }}")
        assert client.load(name).status == 200

    def another(client, i):
        reload(client, i, "other")

    def instances(client, i):
        make_identity(repository, "m", more=f"instance_group {{ count: {1 + i % 2} kind: KIND_CPU }}")
        assert client.load("m").status == 200

    def good(client, i):
        assert client.load("digits").status == 200 and client.unload("digits").status == 200

    return {"bad models of others": bad, "sparse files of 4 GiB": sparse, "good models of others": good, "files of another": another, "its own files": reload,
            "its own instances": instances}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--seconds", type=int, default=4)
    parser.add_argument("--rate", type=float, default=10, help="loads a second, at most")
    parser.add_argument("--only", default="")
    parser.add_argument("--client", type=int, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.client:
        ask_steadily(arguments.client, RATE, arguments.seconds)
        return
    with tempfile.TemporaryDirectory(prefix="nereid-loads-") as path:
        directory = pathlib.Path(path)
        repository = directory / "models"
        (directory / "backends").mkdir()
        repository.mkdir()
        for name in ("bad", "digits"):
            copy_model(repository, "digits").rename(repository / name)
        make_identity(repository, "m")
        build = ROOT / "build/release"
        starter = Starter(build / "bin/nereid", link_backends(directory / "backends", build), directory)
        server = starter(repository, flags=["--model-control-mode=explicit", "--load-model=m"])
        try:
            report(server, {name: step for name, step in kinds_of_load(repository).items() if arguments.only in name}, arguments)
        finally:
            starter.stop_all()


def report(server, kinds, arguments):
    alone, beside, loads = [], {name: [] for name in kinds}, dict.fromkeys(kinds, 0)
    for _ in range(arguments.rounds):
        alone.append(measure(server, arguments.seconds))
        for name, step in kinds.items():
            with Loads(server, step, arguments.rate) as running:
                beside[name].append(measure(server, arguments.seconds))
            loads[name] += running.count
    print(f"| beside | loads a second | p99, us | ratio |\n|---|---|---|---|\n| nothing | 0 | {statistics.median(alone):.0f} | 1 |")
    for name, times in beside.items():
        ratio = statistics.median(time / base for time, base in zip(times, alone))
        rate = loads[name] / arguments.rounds / arguments.seconds
        print(f"| {name} | {rate:.0f} | {statistics.median(times):.0f} | {ratio:.2f} |")


if __name__ == "__main__":
    main()
