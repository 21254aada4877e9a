# SPDX-License-Identifier: Apache-2.0
"""The cases: what is served, what is asked, and beside what nereid is measured."""
import concurrent.futures
import contextlib
import dataclasses
import http.client
import json
import pathlib
import time

import numpy

import load
import models
import sides

# figure of a round → what the table calls it, unit, what is better
FIGURES = {
    "rps": ("throughput", "req/s", "more"),
    "p50": ("p50", "µs", "less"),
    "p99": ("p99", "µs", "less"),
    "cpu": ("server's CPU a request", "µs", "less"),
    "batch": ("rows an execution", "rows", "more"),
}
BOTH = (sides.nereid, sides.triton)
GRPC = (sides.nereid_grpc, sides.triton_grpc)
PYTHON = (sides.nereid_python, sides.triton_python)
METRICS = (sides.nereid_metrics, sides.triton_metrics)
SCRAPES = (1000, 5000)
CACHED = (sides.nereid_cached, sides.triton_cached)
MISSED = (*CACHED, sides.without_cache)
TLS = (sides.nereid, sides.nereid_tls)
TRACED = (sides.nereid_traced, sides.triton_traced)
NOT_TRACED = (sides.nereid, sides.traced)
FLOOR = (sides.nereid, sides.echo, sides.echo_direct)


def small(directory, model):
    return load.json_request(directory, model, numpy.arange(16, dtype=numpy.float32).reshape(1, 16) + numpy.float32(0.5))


def small_distinct(directory, model):
    return load.distinct_request(directory, model, numpy.arange(16, dtype=numpy.float32).reshape(1, 16) + numpy.float32(0.5))


def small_binary(directory, model):
    return load.binary_request(directory, model, numpy.arange(16, dtype=numpy.float32).reshape(1, 16))


def four_megabytes(directory, model):
    return load.binary_request(directory, model, random(1024, 1024))


def thousand_sequences(directory, model):
    return load.sequence_request(directory, model, numpy.ones((1, 16), numpy.float32), 1000)


def thousand_sequences_at_a_rate(directory, model):
    """250 connections send about 1,000 requests a second."""
    return load.sequence_request(directory, model, numpy.ones((1, 16), numpy.float32), 1000, pause_ms=250)


def wide(rows):
    return lambda directory, model: load.binary_request(directory, model, random(rows, 2048))


OBJECT = "/nereid_bench"  # 4 MB that the model reads and 4 MB that it writes
HALF = 4 << 20


@contextlib.contextmanager
def shared_object(servers):
    """The object, registered with all of them as the region `bench`."""
    path = pathlib.Path("/dev/shm" + OBJECT)
    path.write_bytes(random(1024, 1024).tobytes() + bytes(HALF))
    try:
        for server in servers:
            body = {"key": OBJECT, "offset": 0, "byte_size": 2 * HALF}
            server.post("systemsharedmemory/region/bench/register", json.dumps(body).encode())
        yield
    finally:
        path.unlink()


def shared_place(offset):
    return {"shared_memory_region": "bench", "shared_memory_offset": offset, "shared_memory_byte_size": HALF}


def four_megabytes_shared(directory, model):
    body = directory / f"{model}.shared"
    body.write_text(json.dumps({
        "inputs": [{"name": "INPUT0", "datatype": "FP32", "shape": [1024, 1024], "parameters": shared_place(0)}],
        "outputs": [{"name": "OUTPUT0", "parameters": shared_place(HALF)}],
    }))
    return load.Request(model, body)


def small_grpc(directory, model, method="ModelInfer"):
    return load.grpc_request(directory, model, numpy.arange(16, dtype=numpy.float32).reshape(1, 16), method)


def layers_distinct(directory, model):
    return load.distinct_request(directory, model, random(1, 256))


def small_stream(directory, model):
    return small_grpc(directory, model, "ModelStreamInfer")


def four_megabytes_grpc(directory, model):
    return load.grpc_request(directory, model, random(1024, 1024))


def four_megabytes_grpc_shared(directory, model):
    return load.grpc_request(directory, model, random(1024, 1024), shared=shared_place)


def random(*shape):
    return numpy.random.default_rng(1).standard_normal(shape, numpy.float32)


def in_process(directory, repository):
    """As many callers and threads as the model onnx_busy has instances and threads."""
    return sides.InProcess(repository / "onnx_busy/1/model.onnx", callers=2, intra_op_threads=1)


@dataclasses.dataclass
class Load:
    """One request over and over on a number of connections."""

    name: str
    beside: tuple
    model: str
    request: object
    connections: tuple
    figures: tuple
    around: object = lambda servers: contextlib.nullcontext()  # what must hold while they are asked


ALL = ("rps", "p50", "p99", "cpu")
LOADS = (
    Load("small JSON, batcher", BOTH, "small", small, (1, 32, 512), ALL),
    Load("small JSON, plain", BOTH, "plain", small, (1, 32, 512), ALL),
    Load("small binary, plain", BOTH, "plain", small_binary, (1, 32, 512), ALL),
    Load("small binary, over TLS", TLS, "plain", small_binary, (1, 32), ALL),
    Load("small JSON, over TLS", TLS, "plain", small, (1, 32), ALL),
    Load("small JSON, the floor", FLOOR, "small", small, (1, 32, 512), ALL),
    # Triton 2.51 dies of a signal when it traces each request of 32 connections.
    Load("small JSON, plain, each traced", TRACED, "plain", small, (1,), ALL),
    Load("small JSON, plain, not traced beside each traced", NOT_TRACED, "plain", small, (1, 32), ALL),
    Load("cache hit, small JSON", CACHED, "cached", small, (1, 32), ALL),
    Load("cache hit, 4 MB binary", CACHED, "cached_large", four_megabytes, (1,), ("rps", "p50", "cpu")),
    Load("cache miss, small JSON", MISSED, "cached", small_distinct, (1, 32), ALL),
    Load("cache miss, ONNX", MISSED, "cached_onnx", layers_distinct, (1, 8), ALL),
    Load("4 MB binary", BOTH, "large", four_megabytes, (1, 4), ("rps", "p50", "cpu")),
    Load("4 MB shared memory", BOTH, "large", four_megabytes_shared, (1, 4), ("rps", "p50", "cpu"), shared_object),
    Load("gRPC small, batcher", GRPC, "small", small_grpc, ((1, 1), (1, 32), (32, 1)), ALL),
    Load("gRPC small, plain", GRPC, "plain", small_grpc, ((1, 1), (1, 32), (32, 1)), ALL),
    Load("gRPC stream, plain", GRPC, "plain", small_stream, ((1, 1), (1, 1000)), ALL),
    Load("gRPC 4 MB", GRPC, "large", four_megabytes_grpc, ((1, 1), (4, 1)), ("rps", "p50", "cpu")),
    Load("gRPC 4 MB shared memory", GRPC, "large", four_megabytes_grpc_shared, ((1, 1), (4, 1)), ("rps", "p50", "cpu"), shared_object),
    Load("4 MB binary, the floor", FLOOR, "large", four_megabytes, (1, 4), ("rps", "p50", "cpu")),
    Load("small ONNX", BOTH, "onnx_small", small, (1, 32), ALL),
    Load("ONNX cheaper in batches", BOTH, "onnx_wide", wide(1), (8,), (*ALL, "batch")),
    Load("ensemble of 3 identities", BOTH, "three_identities", small, (1, 32, 128), ALL),
    Load("ensemble of Python, ONNX, Python", PYTHON, "three_stages", small, (1, 32, 128), ALL),
    Load("Python add", PYTHON, "python_plain", small, (1, 32), ALL),
    Load("Python add, batcher", PYTHON, "python_batches", small, (1, 32), (*ALL, "batch")),
    Load("Python add, batcher, 4 instances", PYTHON, "python_four", small, (32,), ALL),
    Load("Python, 1,000 sequences, direct", PYTHON, "python_direct", thousand_sequences, (250,), (*ALL, "batch")),
    Load("Python, 1,000 sequences, oldest", PYTHON, "python_oldest", thousand_sequences, (250,), (*ALL, "batch")),
    Load("Python, 1,000 sequences at 1,000 requests a second, direct", PYTHON, "python_direct", thousand_sequences_at_a_rate, (250,), ALL),
    Load("Python, 1,000 sequences at 1,000 requests a second, oldest", PYTHON, "python_oldest", thousand_sequences_at_a_rate, (250,), ALL),
    Load("Python, 4 MB binary", PYTHON, "python_large", four_megabytes, (1, 4), ("rps", "p50", "cpu")),
    Load("ONNX saturated, 1 row", (sides.nereid, in_process), "onnx_busy", wide(1), (8,), ("rps", "cpu")),
    Load("ONNX saturated, 32 rows", (sides.nereid, in_process), "onnx_busy", wide(32), (8,), ("rps", "cpu")),
)


def describe(connections):
    """Of HTTP a number of connections, of gRPC that and how many calls or messages each has in flight."""
    count, in_flight = connections if isinstance(connections, tuple) else (connections, 1)
    return f"{count} connection{'s' if count > 1 else ''}" + (f", {in_flight} in flight" if in_flight > 1 else "")


def measure_load(bench, case):
    names = {f"{case.name}, {describe(count)}": count for count in case.connections}
    names = {name: count for name, count in names.items() if bench.wants(name)}
    if not names:
        return
    with bench.directory() as directory:
        models.write_model(directory / "models", case.model)
        request = case.request(directory, case.model)
        with sides.running([make(directory, directory / "models") for make in case.beside]) as running, case.around(running):
            for name, connections in names.items():
                rounds = bench.rounds(running, lambda side: side.load(request, connections, bench.seconds))
                for figure in case.figures:
                    what, unit, better = FIGURES[figure]
                    bench.add(f"{name}: {what}", unit, better, rounds, figure)


# --- Start and memory

STARTS = {
    "empty repository": [],
    "2 models": [("small", "small"), ("large", "large")],
    "1000 models": [("one", f"model{i:04}") for i in range(1000)],
}


def start_once(server, expected):
    seconds = server.start()
    try:
        time.sleep(0.5)  # what is started lazily is there
        memory = server.idle_memory()
        ready = [entry for entry in server.ask("repository/index", b"{}") if entry.get("state") == "READY"]
        assert len(ready) == expected, f"{server.name} has {len(ready)} of {expected} models ready"
    finally:
        server.stop()
    return {"start": seconds * 1000, "memory": memory}


def measure_start(bench, name, repository):
    start, memory = f"start to ready, {name}", f"idle memory (PSS), {name}"
    if not bench.wants(start, memory):
        return
    with bench.directory() as directory:
        (directory / "models").mkdir()
        for model, alias in repository:
            models.write_model(directory / "models", model, alias)
        servers = [make(directory, directory / "models") for make in BOTH]
        rounds = bench.rounds(servers, lambda server: start_once(server, len(repository)))
        bench.add(start, "ms", "less", rounds, "start")
        bench.add(memory, "MiB", "less", rounds, "memory")


# --- Metrics

def model_names(count):
    return [f"model{i:04}" for i in range(count)]


def use_all(server, count):
    """One request to each model."""
    body = json.dumps({"inputs": [{"name": "INPUT0", "datatype": "FP32", "shape": [1, 16], "data": [1] * 16}]})
    connection = http.client.HTTPConnection("127.0.0.1", server.port)
    for name in model_names(count):
        connection.request("POST", f"/v2/models/{name}/infer", body)
        reply = connection.getresponse()
        assert reply.read() and reply.status == 200, name
    connection.close()


def scrape_once(server, coding):
    connection = http.client.HTTPConnection("127.0.0.1", server.metrics_port)
    connection.connect()
    busy, begin = server.busy_ms(), time.monotonic()
    connection.request("GET", "/metrics", headers={"Accept-Encoding": coding})
    size = len(connection.getresponse().read())
    seconds = time.monotonic() - begin
    connection.close()
    return {"ms": seconds * 1000, "size": size / 1e6, "cpu": server.busy_ms() - busy}


def measure_scrapes(bench, count):
    name = f"scrape of {count} models"
    if not bench.wants(name):
        return
    with bench.directory() as directory:
        for alias in model_names(count):
            models.write_model(directory / "models", "one", alias)
        with sides.running([make(directory, directory / "models") for make in METRICS]) as running:
            for state in ("unused", "used once"):
                for coding in ("identity", "gzip"):
                    rounds = bench.rounds(running, lambda server: scrape_once(server, coding))
                    packed = ", gzip" if coding == "gzip" else ""
                    bench.add(f"{name}, {state}{packed}", "ms", "less", rounds, "ms")
                    bench.add(f"{name}, {state}{packed}: server's CPU", "ms", "less", rounds, "cpu")
                    bench.add(f"{name}, {state}{packed}: size", "MB", "less", rounds, "size")
                for server in running:
                    use_all(server, count)


# --- Python models

def python_load_once(server):
    server.ask("repository/models/python_imports/unload", b"{}")
    wait_without_children(server)
    without = server.idle_memory()
    begin = time.monotonic()
    server.ask("repository/models/python_imports/load", b"{}")
    seconds = time.monotonic() - begin
    time.sleep(0.5)
    return {"load": seconds * 1000, "memory": server.idle_memory() - without}


def wait_without_children(server):
    while len(server.processes()) > 1:
        time.sleep(0.01)


def measure_python_load(bench):
    load, memory = "load of a Python model that imports NumPy", "idle memory (PSS) of a Python instance"
    if not bench.wants(load, memory):
        return
    with bench.directory() as directory:
        models.write_model(directory / "models", "python_imports")
        with sides.running([make(directory, directory / "models") for make in PYTHON]) as running:
            rounds = bench.rounds(running, python_load_once)
            bench.add(load, "ms", "less", rounds, "load")
            bench.add(memory, "MiB", "less", rounds, "memory")


# --- Rate limiter: four models whose executions take 20 ms and one of a resource, of which there are two

LIMITED = [f"limited{i}" for i in range(4)]
LIMITED_EXECUTIONS = 2 / 0.020  # that are possible in a second


def limited_once(server, requests, seconds):
    """Counted in the midst of the load, when all clients ask."""
    def count():
        return time.monotonic(), [server.model_counts(request.model)[1] for request in requests]

    with concurrent.futures.ThreadPoolExecutor(len(requests)) as threads:
        asked = [threads.submit(server.load_only, request, 4, seconds + 1) for request in requests]
        time.sleep(0.5)
        begin, before = count()
        time.sleep(seconds)
        end, after = count()
        for one in asked:
            one.result()
    executed = [now - then for now, then in zip(after, before)]
    return {"share": 100 * sum(executed) / (end - begin) / LIMITED_EXECUTIONS, "least": 100 * min(executed) / max(executed)}


def measure_limited(bench):
    name = "rate limiter, 4 models, 2 at once"
    if not bench.wants(name):
        return
    with bench.directory() as directory:
        for model in LIMITED:
            models.write_model(directory / "models", "limited", model)
        requests = [small(directory, model) for model in LIMITED]
        with sides.running([make(directory, directory / "models") for make in (sides.nereid_limited, sides.triton_limited, sides.unlimited)]) as running:
            rounds = bench.rounds(running, lambda server: limited_once(server, requests[:2] if server.name == "unlimited" else requests, bench.seconds))
            bench.add(f"{name}: executions of those possible", "%", "more", rounds, "share")
            bench.add(f"{name}: executions, least to most of a model", "%", "more", rounds, "least")


# --- A neighbour: one client of a small model, alone and while four clients keep the four instances of a slow model busy

def neighbour_once(server, small_request, slow_request, seconds):
    alone = server.load_only(small_request, 1, seconds)
    with concurrent.futures.ThreadPoolExecutor(1) as threads:
        asked = threads.submit(server.load_only, slow_request, 4, seconds + 2)
        time.sleep(1)
        beside = server.load_only(small_request, 1, seconds)
        asked.result()
    return {"alone": alone["p99"], "beside": beside["p99"], "ratio": beside["p99"] / alone["p99"]}


def measure_neighbour(bench):
    name = "a small model beside a slow one"
    if not bench.wants(name):
        return
    with bench.directory() as directory:
        for model in ("plain", "python_slow"):
            models.write_model(directory / "models", model)
        requests = [small(directory, model) for model in ("plain", "python_slow")]
        with sides.running([make(directory, directory / "models") for make in PYTHON]) as running:
            rounds = bench.rounds(running, lambda server: neighbour_once(server, *requests, bench.seconds))
            bench.add(f"{name}: p99 alone", "µs", "less", rounds, "alone")
            bench.add(f"{name}: p99 beside it", "µs", "less", rounds, "beside")
            bench.add(f"{name}: p99 beside it, to alone", "times", "less", rounds, "ratio")


# --- Variable shapes: an LSTM, sequences of eight lengths at once

LENGTHS = {"close lengths": (17, 19, 21, 23, 25, 27, 29, 31), "far lengths": (4, 8, 13, 21, 30, 37, 50, 64)}


@dataclasses.dataclass
class Lengths:
    name: str
    model: str
    parameters: dict
    requests: list = None


VARIABLE = (
    Lengths("nereid", "longest", dict(padded=True, padding="INPUT0")),
    Lengths("in buckets", "bucketed", dict(padded=True, padding="INPUT0", padding_to="[16, 32, 64]")),
    Lengths("equal lengths only", "equal", {}),
)


def lengths_once(server, model, requests, seconds):
    """Four connections for each of the requests, all at once."""
    (rows, executions), cpu = server.model_counts(model), server.cpu_seconds()
    with concurrent.futures.ThreadPoolExecutor(len(requests)) as threads:
        figures = list(threads.map(lambda request: server.load_only(request, 4, seconds), requests))
    more_rows, more_executions = server.model_counts(model)
    return {"rps": sum(one["rps"] for one in figures), "p50": sum(one["p50"] for one in figures) / len(figures),
            "cpu": 1e6 * (server.cpu_seconds() - cpu) / (more_rows - rows), "batch": (more_rows - rows) / (more_executions - executions)}


def measure_lengths(bench, name, lengths):
    name = f"LSTM, 32 connections, {name}, padded to the longest"
    if not bench.wants(name):
        return
    with bench.directory() as directory:
        for side in VARIABLE:
            models.write_lstm(directory / "models", side.model, **side.parameters)
            folders = [directory / f"{side.model}{length}" for length in lengths]
            for folder in folders:
                folder.mkdir()
            side.requests = [load.binary_request(folder, side.model, random(1, length, 64)) for folder, length in zip(folders, lengths)]
        with sides.running([sides.nereid(directory, directory / "models")]) as (server,):
            rounds = bench.rounds(VARIABLE, lambda side: lengths_once(server, side.model, side.requests, bench.seconds))
            for figure in ("rps", "p50", "cpu", "batch"):
                what, unit, better = FIGURES[figure]
                bench.add(f"{name}: {what}", unit, better, rounds, figure)


# --- Ragged batches: the same sums for sequences of eight lengths, each as long as it is, or padded by its client to the longest

def measure_ragged(bench, name, is_ragged):
    name = f"{name} ONNX, 32 connections, lengths 4 to 64"
    if not bench.wants(name):
        return
    with bench.directory() as directory:
        models.write_sums(directory / "models", "sums", is_ragged)
        requests = []
        for length in LENGTHS["far lengths"]:
            folder = directory / str(length)
            folder.mkdir()
            data = numpy.zeros((1, length if is_ragged else 64, 64), numpy.float32)
            data[:, :length] = random(1, length, 64)
            requests.append(load.binary_request(folder, "sums", data.reshape(1, -1)))
        with sides.running([make(directory, directory / "models") for make in BOTH]) as running:
            rounds = bench.rounds(running, lambda server: lengths_once(server, "sums", requests, bench.seconds))
            for figure in ("rps", "p50", "cpu", "batch"):
                what, unit, better = FIGURES[figure]
                bench.add(f"{name}: {what}", unit, better, rounds, figure)


# --- Large JSON

HUGE = (512, 14041)
HUGES = {
    "into a JSON reply": lambda directory: load.binary_request(directory, "large", random(*HUGE), binary_out=False),
    "out of a JSON request": lambda directory: load.json_request(directory, "large", random(*HUGE), binary_out=True),
}


def huge_once(server, request):
    server.forget_peak()
    figures = load.curl(server.url(f"models/{request.model}/infer"), request)
    figures["peak"] = server.peak_memory()
    return figures


def measure_huge(bench, name, make_request):
    name = f"[512,14041] FP32 {name}"
    peak = f"{name}: peak memory"
    if not bench.wants(name, peak):
        return
    with bench.directory() as directory:
        models.write_model(directory / "models", "large")
        request = make_request(directory)
        with sides.running([make(directory, directory / "models") for make in BOTH]) as running:
            rounds = bench.rounds(running, lambda server: huge_once(server, request))
            bench.add(name, "ms", "less", rounds, "ms")
            bench.add(peak, "MiB", "less", rounds, "peak")


def measure_all(bench):
    for count in SCRAPES:
        measure_scrapes(bench, count)
    for name, repository in STARTS.items():
        measure_start(bench, name, repository)
    for case in LOADS:
        measure_load(bench, case)
    measure_python_load(bench)
    measure_limited(bench)
    measure_neighbour(bench)
    for name, lengths in LENGTHS.items():
        measure_lengths(bench, name, lengths)
    for name, is_ragged in (("ragged", True), ("padded", False)):
        measure_ragged(bench, name, is_ragged)
    for name, make_request in HUGES.items():
        measure_huge(bench, name, make_request)
