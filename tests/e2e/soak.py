# SPDX-License-Identifier: Apache-2.0
"""A server under a mixed load for hours (row 52): scripts/soak [hours].

Each worker is a process that does one thing again and again: inferences of several kinds, bad requests, clients that are slow
or leave, reloads, loads and unloads. Every minute all of them pause, and the server is looked at while it rests. The end fails
on an answer that nobody expected, on memory that grows and on descriptors or threads that are not what they were.
"""
import gzip
import json
import multiprocessing
import os
import pathlib
import random
import signal
import sys
import tempfile
import time

from conftest import ROOT, Starter, copy_model, link_backends, make_identity, wait_for
from oracle import MIB, resources, rss
from safety import Client, tensor
from wire import connect, receive_reply, request, reset

RELEASE = ROOT / "build/release"
MINUTE = 60
SLOPE_MIB_PER_HOUR = 0.5
NOISE_MIB = 1  # what two looks at an unchanged server may differ by
INFER = "/v2/models/{}/infer".format
FP32 = bytes(4096)
IMAGE = tensor("image", "FP32", [1, 64], [0] * 64)


# ---- what the workers do; each gives (what, status) for everything that was answered ----


def with_binary(model, datatype, shape, data):
    head = {"name": "INPUT0", "shape": shape, "datatype": datatype, "parameters": {"binary_data_size": len(data)}}
    text = json.dumps({"inputs": [head], "parameters": {"binary_data_output": True}}).encode()
    return request("POST", INFER(model), text + data, [f"Inference-Header-Content-Length: {len(text)}"])


def exchange(connection, data):
    connection.sendall(data)
    return receive_reply(connection)


def small_json(server):
    connection = connect(server)
    body = request("POST", INFER("m"), tensor())
    while True:
        reply = exchange(connection, body)
        yield reply.status if b'"data":[7' in reply.body else f"{reply.status} {reply.body[:200]}"


def binary(server):
    connection = connect(server)
    body = with_binary("m", "FP32", [1, 1024], FP32)
    while True:
        reply = exchange(connection, body)
        yield reply.status if reply.body.endswith(FP32) else f"{reply.status} {reply.body[:200]}"


def strings(server):
    chance, connection = random.Random(1), connect(server)
    while True:
        texts = [chance.randbytes(chance.randrange(200)) for _ in range(chance.randrange(1, 50))]
        data = b"".join(len(text).to_bytes(4, "little") + text for text in texts)
        reply = exchange(connection, with_binary("s", "BYTES", [1, len(texts)], data))
        yield reply.status if reply.body.endswith(data) else f"{reply.status} {reply.body[:200]}"


def zipped(server):
    connection = connect(server)
    body = gzip.compress(tensor(shape=[1, 2000], data=[7] * 2000))
    while True:
        reply = exchange(connection, request("POST", INFER("m"), body, ["Content-Encoding: gzip", "Accept-Encoding: gzip"]))
        yield reply.status if b'"data":[7' in gzip.decompress(reply.body) else f"{reply.status} {reply.body[:200]}"


def onnx(server):
    connection = connect(server)
    body = request("POST", INFER("digits"), IMAGE)
    while True:
        reply = exchange(connection, body)
        yield reply.status if b'"digit"' in reply.body else f"{reply.status} {reply.body[:200]}"


BAD = [  # request, what it is answered with
    (request("POST", INFER("m"), b"{"), 400),
    (request("POST", INFER("m"), tensor(name="NONE")), 400),
    (request("POST", INFER("m"), tensor(data=["x"])), 400),
    (request("POST", INFER("m"), tensor(shape=[2**62, 2**62])), 400),
    (request("POST", INFER("nobody"), tensor()), 404),
    (request("POST", INFER("m"), b"x", ["Content-Encoding: gzip"]), 400),
    (request("POST", INFER("m"), b"x", ["Content-Encoding: br"]), 501),
    (request("GET", "/v2/nothing"), 404),
    (request("DELETE", INFER("m")), 405),
    (request("POST", "/v2/repository/models/..%2fm/load", b""), 404),
    (request("POST", "/v2/repository/models/m/load", b'{"parameters":{"config":"{"}}'), 400),
    (b"GET /v2 HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", 400),
]


def bad(server):
    while True:
        for data, status in BAD:
            with connect(server) as connection:
                reply = exchange(connection, data)
            yield 200 if reply.status == status else f"{reply.status} {reply.body[:200]} for {data[:200]}"


def slow(server):
    body = request("POST", INFER("m"), tensor())
    while True:
        with connect(server) as connection:
            for at in range(0, len(body), 8):
                connection.sendall(body[at : at + 8])
                time.sleep(0.005)
            yield receive_reply(connection).status


def leaving(server):
    """Leaves before, within or after the request; what it would have been told is nobody's business."""
    chance, body = random.Random(2), request("POST", INFER("m"), tensor())
    while True:
        connection = connect(server)
        connection.sendall(body[: chance.randrange(len(body) + 1)])
        chance.choice([reset, lambda c: c.close()])(connection)
        yield 200


def reloads(server):
    directory = server.repository / "m"
    with Client(server) as client:
        for n in range(10**9):
            make_identity(server.repository, "m", more="parameters { key: 'n' value { string_value: '%d' } }" % n)
            os.utime(directory / "config.pbtxt", (4_000_000_000 + n, 4_000_000_000 + n))
            yield client.load("m").status
            time.sleep(0.5)


def comes_and_goes(server):
    models = {"c": tensor(), "digits2": IMAGE}
    with Client(server) as client:
        try:
            while True:
                for name, body in models.items():
                    yield client.load(name).status
                    yield client.ask(INFER(name), body).status
                    refused = client.load(name, {"max_batch_size": -1})
                    yield 200 if refused.status == 400 else f"{refused.status} {refused.text}"
                    yield client.unload(name).status
                time.sleep(0.1)
        finally:  # the minute is over, in the middle of this
            for name in models:
                client.unload(name)
            wait_for("the end of both", lambda: {client.index()[(name, "1")] for name in models} == {"UNAVAILABLE"})


WORKERS = {  # what, how many a second at most
    small_json: 300, binary: 100, strings: 50, zipped: 30, onnx: 50, bad: 30, slow: 5, leaving: 30, reloads: 10, comes_and_goes: 50,
}


def work(server, what, rate, barrier, stop, results):
    """Does `what` until the minute is over, tells how it was, waits for the others to rest, and goes on."""
    while not stop.is_set():
        times, unexpected = [], {}
        act, end = what(server), time.monotonic() + MINUTE
        try:
            while time.monotonic() < end:
                begin = time.monotonic()
                status = next(act)
                times.append(time.monotonic() - begin)
                if status != 200:
                    unexpected[str(status)] = unexpected.get(str(status), 0) + 1
                time.sleep(max(0, begin + 1 / rate - time.monotonic()))
        except Exception as failure:  # noqa: B902 - a closed connection is unexpected, whatever it raises
            unexpected[repr(failure)] = 1
        act.close()
        times.sort()
        results.put((what.__name__, len(times), unexpected, times[len(times) * 99 // 100] if times else 0))
        barrier.wait()  # all rest; the server is looked at
        barrier.wait()


# ---- the server's side ----


def fill(repository):
    make_identity(repository, "m")
    make_identity(repository, "s", "TYPE_STRING")
    make_identity(repository, "c")
    copy_model(repository, "digits")
    (repository / "digits").rename(repository / "digits2")
    copy_model(repository, "digits")


def at_rest(server):
    """The least of its resources in two seconds: what clients left goes, what leaks stays."""
    looks = []
    for _ in range(20):
        looks.append(resources(server))
        time.sleep(0.1)
    return {name: min(look[name] for look in looks) for name in looks[0]}


def minute(server, number, barrier, results):
    """One line; returns (unexpected answers, MiB, resources, p99 of small_json in ms)."""
    reports = [results.get() for _ in WORKERS]
    barrier.wait()
    now, memory = at_rest(server), rss(server) / MIB
    unexpected = {name: wrong for name, _, wrong, _ in reports if wrong}
    p99 = next(p99 for name, _, _, p99 in reports if name == "small_json") * 1000
    counts = " ".join(f"{name} {count}" for name, count, _, _ in sorted(reports))
    print(f"{number} min: {memory:.2f} MiB, {now}, p99 {p99:.2f} ms, unexpected {unexpected or 0}; {counts}", flush=True)
    return unexpected, memory, now, p99


def slope(values):
    """Of a line through the values, per value."""
    n, middle = len(values), (len(values) - 1) / 2
    spread = sum((i - middle) ** 2 for i in range(n))
    return sum((i - middle) * v for i, v in enumerate(values)) / spread if spread else 0


def judge(rows):
    """The figures of row 52 that failed. The first hour (or third) is for caches to fill."""
    measured = rows[min(60, len(rows) // 3):]
    memory = [memory for _, memory, _, _ in measured]
    hours = (len(measured) - 1) / 60
    growth = slope(memory) * (len(measured) - 1)
    p99 = [p99 for _, _, _, p99 in measured]
    failures = [f"unexpected: {unexpected}" for unexpected, _, _, _ in rows if unexpected]
    if growth > SLOPE_MIB_PER_HOUR * hours + NOISE_MIB:
        failures.append(f"memory grew by {growth:.2f} MiB in {hours:.2f} hours")
    if len({tuple(now.values()) for _, _, now, _ in measured}) > 1:
        failures.append("descriptors, threads or children changed")
    print(f"memory {growth:+.2f} MiB in {hours:.2f} h; p99 first {p99[0]:.2f} ms, last {p99[-1]:.2f} ms, worst {max(p99):.2f} ms")
    return failures


def watch(server, minutes):
    """Runs the workers; one row for each minute."""
    barrier, stop, results = multiprocessing.Barrier(len(WORKERS) + 1), multiprocessing.Event(), multiprocessing.Queue()
    workers = [multiprocessing.Process(target=work, args=(server, what, rate, barrier, stop, results), daemon=True) for what, rate in WORKERS.items()]
    for worker in workers:
        worker.start()
    rows = []
    for number in range(1, minutes + 1):
        rows.append(minute(server, number, barrier, results))
        assert server.process.poll() is None, server.log[-3000:]
        if number == minutes:
            stop.set()
        barrier.wait()
    for worker in workers:
        worker.join()
    return rows


def soak(minutes, directory):
    repository = directory / "models"
    repository.mkdir()
    fill(repository)
    (directory / "backends").mkdir()
    starter = Starter(RELEASE / "bin/nereid", link_backends(directory / "backends", RELEASE), directory)
    try:
        server = starter(repository, flags=["--model-control-mode=explicit", *(f"--load-model={name}" for name in ("m", "s", "digits"))])
        server.repository = repository
        return judge(watch(server, minutes))
    finally:
        starter.stop_all()


def end(number, frame):
    raise SystemExit(f"signal {number}")


def main():
    signal.signal(signal.SIGTERM, end)
    minutes = max(3, round(float(sys.argv[1] if len(sys.argv) > 1 else 1) * 60))
    with tempfile.TemporaryDirectory() as directory:
        failures = soak(minutes, pathlib.Path(directory))
    for failure in failures:
        print("FAILED", failure)
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()
