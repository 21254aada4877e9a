# SPDX-License-Identifier: Apache-2.0
"""nereid on a GPU, step by step (scripts/gpu_check): what works, and how fast. Each step is a process of its own and has a minute.

A step is a function here; what it returns are its figures, what it raises is why it failed. `NotTried` says what it would need. Some figures have a goal
(docs/gpu.md): the row says whether it is met, which changes nothing of the step's result.
"""
import argparse
import concurrent.futures
import contextlib
import glob
import json
import os
import pathlib
import re
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import types
import urllib.request

from conftest import BUILD, ROOT, WITHOUT_LEAK_CHECK, Starter, copy_model, link_backends, make_identity, wait_for
import proc  # found where conftest says

NO_GPU = 77
READ = "GPU_CHECK_READ"  # of --read, for the steps
RUNTIME = "GPU_CHECK_CUDA_RUNTIME"  # a directory with another CUDA runtime for Triton than its own
LIMIT = "GPU_CHECK_SECONDS"  # of --seconds, for the steps
SECONDS = int(os.environ.get(LIMIT, 60))  # of one step, and of what it waits for
MIB = 1 << 20
BENCH = ROOT / "bench"
PROBE = BUILD / "bench/gpu_probe"
LAUNCHER = BUILD / "backends/python/nereid-worker-launcher"
REAL = types.SimpleNamespace(variables={})  # for gpus.Client: the driver that this process has
ON_GPU = "instance_group [ { kind: KIND_GPU } ]"
FAMILIES = ("utilization", "memory_total_bytes", "memory_used_bytes", "power_usage", "power_limit")
STEPS = {}
OTHER_WAYS = set()


REACHED = []  # goals of the step that runs


def goal(name, value, least=None, most=None):
    met = (least is None or value >= least) and (most is None or value <= most)
    bound = f"at least {least}" if most is None else f"at most {most}"
    REACHED.append({"goal": name, "value": round(value, 3), "bound": bound, "met": bool(met)})


class NotTried(Exception):
    pass


class Lacking(Exception):
    """The platform has none of it, and nereid another way."""


NO_IPC = "this platform has no CUDA IPC"
NO_REGIONS = "no regions of virtual memory: the device has none"


def step(run):
    STEPS[run.__name__] = run
    return run


def without(run):
    """A step that nereid can do without: it has another way."""
    OTHER_WAYS.add(run.__name__)
    return step(run)


def check(right, text):
    if not right:
        raise AssertionError(text)


# ---- the driver, by bench/gpu_probe ----


def probe(*arguments, variables=()):
    done = subprocess.run([PROBE, *arguments], capture_output=True, text=True, env=os.environ | dict(variables))
    found = json.loads(done.stdout) if done.stdout.startswith("{") else {}
    said = "; ".join(filter(None, (found.get("error"), done.stderr.strip())))  # the other process has the same stderr
    if NO_IPC in said or NO_REGIONS in said:
        raise Lacking(said)
    check(done.returncode == 0 and "error" not in found, said or f"gpu_probe ended with {done.returncode}")
    return found


@step
def devices():
    found = probe("devices")
    first = found["devices"][0]
    return {"count": len(found["devices"]), "cuda": found["cuda"], "nvml": found["nvml"], "missing": " ".join(found["missing_functions"]) or "none"} | {
        key: first[key] for key in ("name", "capability", "bytes", "virtual_memory", "descriptors")}


@step
def allocations():
    return probe("allocations")


@step
def bandwidth():
    """G1: what comes from pageable memory by way of pinned memory is as fast as what lies in pinned memory."""
    found = probe("bandwidth")
    for name, direct in (("staged_to_device", "pinned_to_device"), ("device_to_staged", "device_to_pinned")):
        goal(f"G1 {name}", found[f"{name}_gb_s"] / found[f"{direct}_gb_s"], least=0.9)
    return found


@step
def latency():
    return probe("latency")


@step
def handles():
    return probe("handles")


@step
def descriptors():
    return probe("descriptors")


def below_launcher(what, level):
    """The other process is started as a Python worker is."""
    readable = {BUILD, *map(pathlib.Path, filter(None, os.environ.get(READ, "").split(":"))), pathlib.Path("/usr"), pathlib.Path("/etc"), *map(pathlib.Path, filter(None, os.environ.get("LD_LIBRARY_PATH", "").split(":")))}
    strict = [f"--read={path.resolve()}" for path in readable] + [f"--device={path}" for path in glob.glob("/dev/nvidia*")]
    return probe(what, "--", LAUNCHER, f"--sandbox={level}", *(strict if level == "strict" else ()), "--", variables=WITHOUT_LEAK_CHECK)


@step
def descriptors_in_a_sandbox():
    return below_launcher("descriptors", "standard")


@step
def descriptors_in_a_strict_sandbox():
    return below_launcher("descriptors", "strict")


@without
def handles_in_a_sandbox():
    return below_launcher("handles", "standard")


@step
def unit_tests():
    """The same programs that CI runs on the played driver: its rules are a real one's."""
    passed, variables = 0, {"ASAN_OPTIONS": "protect_shadow_gap=0"}  # where the driver maps its addresses
    for name in ("gpu_fake_test", "gpu_device_test", "gpu_copy_test", "gpu_share_test"):  # the first asks the rules themselves
        done = subprocess.run([BUILD / "tests/unit" / name], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=os.environ | variables)
        failed = re.findall(r"^\[  FAILED  \] (\w+)$", done.stdout, re.M)
        check(done.returncode == 0, f"{name} ended with {done.returncode}: {' '.join(failed)}")
        passed += len(re.findall(r"^\[       OK", done.stdout, re.M))
    return {"passed": passed}


# ---- the server ----


@contextlib.contextmanager
def server_with(make, flags=(), variables=()):
    """A server over what `make` puts into the repository."""
    with tempfile.TemporaryDirectory(prefix="nereid-gpu-") as name:
        directory = pathlib.Path(name)
        for part in ("models", "backends"):
            (directory / part).mkdir()
        make(directory / "models")
        starter = Starter(BUILD / "bin/nereid", link_backends(directory / "backends", BUILD), directory)
        try:
            yield starter(directory / "models", flags=flags, variables=variables)
        finally:
            starter.stop_all()


def http_client(server):
    import tritonclient.http as triton

    return triton, triton.InferenceServerClient(server.url, network_timeout=SECONDS, connection_timeout=SECONDS)


def random_tensor(elements, batch=1):
    import numpy

    return numpy.random.default_rng(elements).random((batch, elements), numpy.float32)


def infer(triton, client, model, data):
    given = triton.InferInput("INPUT0", list(data.shape), "FP32").set_data_from_numpy(data)
    return client.infer(model, [given], outputs=[triton.InferRequestedOutput("OUTPUT0")]).as_numpy("OUTPUT0")


def p50_us(call, rounds):
    times = []
    for _ in range(rounds):
        begun = time.perf_counter()
        call()
        times.append(time.perf_counter() - begun)
    return round(statistics.median(times) * 1e6, 1)


def whole(answer):
    """Whether all of an HTTP reply is there."""
    head, end, body = answer.partition(b"\r\n\r\n")
    return bool(end) and len(body) >= int(re.search(rb"content-length: *(\d+)", head, re.I)[1])


def wire_p50_us(server, data, model="m", source="INPUT0", target="OUTPUT0", rounds=500):
    """Of requests over HTTP that are made beforehand, so that a client's own work is not in it."""
    header = json.dumps({"inputs": [{"name": source, "datatype": "FP32", "shape": data.shape, "parameters": {"binary_data_size": data.nbytes}}],
                         "outputs": [{"name": target, "parameters": {"binary_data": True}}]}).encode()
    request = (f"POST /v2/models/{model}/infer HTTP/1.1\r\nHost: nereid\r\nInference-Header-Content-Length: {len(header)}\r\n"
               f"Content-Length: {len(header) + data.nbytes}\r\n\r\n").encode() + header + data.tobytes()
    with socket.create_connection(("127.0.0.1", server.http_port), timeout=SECONDS) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

        def ask():
            connection.sendall(request)
            answer = b""
            while not whole(answer):
                more = connection.recv(1 << 16)
                check(more, "the server has closed the connection")
                answer += more
            return answer

        first = ask().splitlines()[0]
        check(b" 200 " in first, first.decode())
        return p50_us(ask, rounds)


def first_device():
    return probe("devices")["devices"][0]


@step
def a_gpu_that_nobody_uses():
    """A server of CPU models takes nothing of it. Goal: less than 50 ms more for the start."""
    def make(models):
        make_identity(models, "m", more="instance_group [ { kind: KIND_CPU } ]")

    times = {}
    before = first_device()["used_bytes"]
    for name, variables in {"with": {}, "without": {"CUDA_VISIBLE_DEVICES": "-1"}}.items():
        taken = []
        for _ in range(3):
            begun = time.perf_counter()
            with server_with(make, variables=variables):
                taken.append((time.perf_counter() - begun) * 1e3)
                if name == "with":
                    grown = first_device()["used_bytes"] - before
                    check(grown < MIB, f"{grown} bytes more are used on the GPU")
        times[name] = round(statistics.median(taken), 1)
    goal("G7 ms that a GPU adds to the start", times["with"] - times["without"], most=50)
    return {"start_with_ms": times["with"], "start_without_ms": times["without"]}


@step
def identity():
    """1 element to 256 MiB, or an eighth of the GPU's memory, over HTTP; the values come back over the device."""
    most = first_device()["bytes"] // 8 // 4
    with server_with(lambda models: make_identity(models, "m", more=ON_GPU)) as server:
        triton, client = http_client(server)
        figures = {}
        for elements in (1, 1000, MIB // 4, min(64 * MIB, most)):
            data = random_tensor(elements)
            begun = time.perf_counter()
            back = infer(triton, client, "m", data)
            seconds = time.perf_counter() - begun
            check((back == data).all(), f"{elements} elements do not come back as they went")
            figures["mib_s"] = round(data.nbytes / MIB / seconds, 1)
        small = random_tensor(1024)
        figures["p50_4k_us"] = wire_p50_us(server, small)
        many = random_tensor(1000, batch=8)
        check((infer(triton, client, "m", many) == many).all(), "a batch does not come back as it went")
        client.close()
    return figures


def make_ensemble(models):
    for name in ("first", "second"):
        make_identity(models, name, more=ON_GPU)
    (models / "both/1").mkdir(parents=True)
    steps = "".join(f'step [ {{ model_name: "{name}" model_version: -1 input_map {{ key: "INPUT0" value: "{source}" }} '
                    f'output_map {{ key: "OUTPUT0" value: "{to}" }} }} ]' for name, source, to in (
                        ("first", "INPUT0", "between"), ("second", "between", "OUTPUT0")))
    (models / "both/config.pbtxt").write_text(
        'name: "both" platform: "ensemble" max_batch_size: 8 input [ { name: "INPUT0" data_type: TYPE_FP32 dims: [ -1 ] } ] '
        f'output [ {{ name: "OUTPUT0" data_type: TYPE_FP32 dims: [ -1 ] }} ] ensemble_scheduling {{ {steps} }}')


@step
def ensemble():
    """Two models on the GPU; p50 of 4 MiB for one and for both."""
    with server_with(make_ensemble) as server:
        triton, client = http_client(server)
        for elements in (1000, MIB):
            data = random_tensor(elements)
            check((infer(triton, client, "both", data) == data).all(), f"{elements} elements do not come back as they went")
        figures = {f"p50_4m_{model}_us": p50_us(lambda model=model: infer(triton, client, model, data), 20) for model in ("first", "both")}
        client.close()
    return figures


def metrics_of(server):
    text = urllib.request.urlopen(f"http://127.0.0.1:{server.metrics_port}/metrics", timeout=SECONDS).read().decode()
    return {(name, uuid): float(value) for name, uuid, value in re.findall(r'^(nv_gpu_\w+)\{gpu_uuid="([^"]+)"\} (\S+)$', text, re.M)}


def cpu_seconds(process, thread):
    """What the threads of that name have used of a processor."""
    times = proc.of_threads(process, "schedstat")
    found = [int(times[task].split()[0]) for task, name in proc.threads(process).items() if name == thread and task in times]
    check(found, f"there is no thread {thread}")
    return sum(found) / 1e9


def share_of_sampling(server, interval, seconds=2):
    """Of a processor, were a sample taken each two seconds."""
    before, begun = cpu_seconds(server.process.pid, "gpu-metrics"), time.monotonic()
    time.sleep(seconds)
    samples = (time.monotonic() - begun) / interval
    return (cpu_seconds(server.process.pid, "gpu-metrics") - before) / samples / 2


@step
def metrics():
    """The families of Triton, against NVML asked beside the server. G9: what asking costs."""
    with server_with(lambda models: make_identity(models, "m", more=ON_GPU), flags=("--metrics-interval-ms=200",)) as server:
        device = first_device()
        row = {family: (f"nv_gpu_{family}", device["uuid"]) for family in FAMILIES}
        wait_for("NVML's first samples", lambda: row["memory_used_bytes"] in metrics_of(server), deadline=SECONDS / 2)
        missing = [family for family in FAMILIES if row[family] not in metrics_of(server) and "MIG" not in device["uuid"]]
        check(not missing, f"no rows of {device['uuid']}: {' '.join(missing)}")
        total, used = metrics_of(server)[row["memory_total_bytes"]], row["memory_used_bytes"]
        wait_for(f"nv_gpu_memory_used_bytes near the {device['used_bytes']} that NVML says",
                 lambda: abs(metrics_of(server)[used] - device["used_bytes"]) <= 0.05 * total, deadline=SECONDS / 2)
        used = metrics_of(server)[used]
        goal("G9 share of a core", share_of_sampling(server, 0.2), most=0.001)
    return {"total_mib": round(total / MIB), "used_mib": round(used / MIB), "watts": device["watts"]}


def memory_of(client, size):
    """Memory of another process, which a server can be told of."""
    from cuda_memory import Memory
    from gpus import DriverError

    try:
        return Memory(client, size)
    except DriverError as failure:
        if failure.code == 801:
            raise Lacking(f"{NO_IPC}: clients use system shared memory")
        raise


def use_region(protocol, memory, data):
    """Registers the memory twice wrongly, then right; the input is in its first half, the output in the second. p50 of 4 MiB."""
    from tritonclient.utils import InferenceServerException

    half = data.nbytes
    memory.write(data.tobytes() + bytes(half))
    for size, handle in ((2 * half + 4 * MIB, memory.handle), (2 * half, memory.handle[:60])):
        with contextlib.suppress(InferenceServerException):
            protocol.register("wrong", handle, size)
            raise AssertionError(f"{size} bytes with a handle of {len(handle)} are registered")
    protocol.register("r", memory.handle, 2 * half)
    check(protocol.regions() == {"r": (0, 2 * half)}, f"the status has {protocol.regions()}")
    call = [protocol.input(data.shape, "FP32", ("r", half, 0))], [protocol.output(("r", half, half))]
    protocol.infer("m", *call)
    check(memory.read(half, half) == data.tobytes(), "the output is not the input")
    return p50_us(lambda: protocol.infer("m", *call), 50)


@step
def shared_memory():
    """Memory of another process, in and out, over both protocols; sizes and handles that are wrong; a client that dies."""
    from cuda_memory import Protocol
    from gpus import Client
    from tritonclient.utils import InferenceServerException

    data, figures = random_tensor(MIB), {}
    before = first_device()["used_bytes"]
    with server_with(lambda models: make_identity(models, "m", more=ON_GPU), flags=("--allow-client-shm=true",)) as server, \
            Protocol("http", server).open() as over_http:
        with Client(REAL) as client:
            memory = memory_of(client, 2 * data.nbytes)
            with Protocol("grpc", server).open() as over_grpc:
                figures["grpc_p50_4m_us"] = use_region(over_grpc, memory, data)
                over_grpc.unregister("r")
            figures["p50_4m_us"] = use_region(over_http, memory, data)
            client.kill()
        places = [over_http.input(data.shape, "FP32", ("r", data.nbytes, 0))], [over_http.output(("r", data.nbytes, data.nbytes))]
        with contextlib.suppress(InferenceServerException):
            over_http.infer("m", *places)  # works or fails: the server goes on
        over_http.unregister("r")
        triton, other = http_client(server)
        check((infer(triton, other, "m", data) == data).all(), "after a client's death nothing works")
        other.close()
    wait_for("the GPU's memory as before", lambda: first_device()["used_bytes"] - before < MIB, deadline=SECONDS / 4)
    return figures


def grpc_load(server, shared, elements, connections, seconds=3):
    """Requests a second and p50 in µs of bench/grpc_load.c, whose tensors are in memory that the server knows."""
    sys.path.append(str(BENCH))
    import load
    import sides

    try:
        program = sides.build_grpc_load()
    except (OSError, subprocess.CalledProcessError) as why:
        raise NotTried(f"bench/grpc_load.c is not compiled ({why}): scripts/setup")
    with tempfile.TemporaryDirectory(prefix="nereid-gpu-") as name:
        request = load.grpc_request(pathlib.Path(name), "m", random_tensor(elements), shared=shared)
        found = load.grpc(program, server.grpc_port, request, (connections, 1), seconds)
    return found["rps"], found["p50"]


def places(region, size):
    """Parameters of a tensor in a region, by its offset."""
    return lambda offset: {"shared_memory_region": region, "shared_memory_byte_size": size, "shared_memory_offset": offset}


def region_latency(server):
    """p50 in µs of 4 KiB over gRPC that lie in a client's memory on the GPU, input and output."""
    from cuda_memory import Protocol
    from gpus import Client

    with Client(REAL) as client, Protocol("http", server).open() as protocol:
        memory = memory_of(client, 8192)
        memory.write(bytes(8192))
        protocol.register("r", memory.handle, 8192)
        return grpc_load(server, places("r", 4096), 1024, 1)[1]


@step
def shared_memory_latency():
    """G3: beside the copy itself."""
    with server_with(lambda models: make_identity(models, "m", more=ON_GPU), flags=("--allow-client-shm=true",)) as server:
        p50 = region_latency(server)
    alone = probe("latency")["on_device_4k_p50_us"]
    goal("G3 µs more than in-process", p50 - alone, most=15)
    return {"grpc_p50_4k_us": p50, "alone_p50_4k_us": alone}


@contextlib.contextmanager
def identity_in_triton():
    """Triton 2.51 with nereid's identity backend of build/release: its wheel has none."""
    from grpc_sides import TritonOverGrpc
    from python_sides import SideStarter

    side = TritonOverGrpc()
    runtime = os.environ.get(RUNTIME)
    if not side.server.exists():
        raise NotTried("Triton is not here: scripts/setup --all")
    if not (side.build / "backends/identity/libtriton_identity.so").exists():
        raise NotTried("Triton is given the identity backend of build/release, which is not there: scripts/build")
    if runtime:
        path = f"{os.environ['LD_LIBRARY_PATH']}:{runtime}:{side.variables['LD_LIBRARY_PATH']}"
        side.variables = side.variables | {"LD_LIBRARY_PATH": path, "LD_PRELOAD": f"{runtime}/libcudart.so.12"}
    with tempfile.TemporaryDirectory(prefix="triton-gpu-") as name:
        directory = pathlib.Path(name)
        for part in ("models", "backends"):
            (directory / part).mkdir()
        make_identity(directory / "models", "m", more=ON_GPU)
        starter = SideStarter(side, side.backends(directory / "backends"), directory)
        try:
            yield starter(directory / "models", flags=["--load-model=m"])
        finally:
            starter.stop_all()


@step
def triton_shared_memory():
    """The same memory in Triton 2.51: nereid's part of its p50."""
    with identity_in_triton() as server:
        theirs = region_latency(server)
    with server_with(lambda models: make_identity(models, "m", more=ON_GPU), flags=("--allow-client-shm=true",)) as server:
        ours = region_latency(server)
    return {"p50_ratio": round(ours / theirs, 2), "grpc_p50_4k_us": ours, "triton_grpc_p50_4k_us": theirs}


@step
def overlap():
    """G5: two instances with 4 MiB in the host's shared memory, beside a loop with two buffers that copies the same way."""
    from client_memory import region, register

    alone = probe("overlap")
    size = alone["tensor_bytes"]
    more = "instance_group [ { kind: KIND_GPU count: 2 } ]"
    with region(2 * size) as shared, server_with(lambda models: make_identity(models, "m", more=more), flags=("--allow-client-shm=true",)) as server:
        check(register(server, "r", shared.key, 2 * size).status == 200, "the memory is not registered")
        rate, _ = grpc_load(server, places("r", size), size // 4, 4)
    goal("G5 part of the loop's throughput", rate / alone["tensors_s"], least=0.95)
    return {"tensors_s": round(rate, 1), "alone_tensors_s": alone["tensors_s"]}


# ---- frameworks ----

TORCH_MODEL = """
import torch
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        responses = []
        for request in requests:
            given = pb_utils.get_input_tensor_by_name(request, "INPUT0")
            assert not given.is_cpu()
            doubled = torch.utils.dlpack.from_dlpack(given.to_dlpack()) * 2
            output = pb_utils.Tensor.from_dlpack("OUTPUT0", torch.utils.dlpack.to_dlpack(doubled))
            responses.append(pb_utils.InferenceResponse([output]))
        return responses
"""


def need_torch():
    try:
        import torch
    except ImportError:
        raise NotTried("PyTorch is not installed")
    if not torch.cuda.is_available():
        raise NotTried("PyTorch sees no GPU")


def make_python(models, code=TORCH_MODEL):
    more = ON_GPU + 'parameters { key: "FORCE_CPU_ONLY_INPUT_TENSORS" value { string_value: "no" } }'
    config = make_identity(models, "m", more=more) / "config.pbtxt"
    config.write_text(config.read_text().replace('"identity"', '"python"'))
    (models / "m/1/model.py").write_text(code)


def bare_torch_us():
    """The same call without a server, with its copies."""
    import torch

    data = torch.from_numpy(random_tensor(1024))

    def call():
        return (data.cuda() * 2).cpu()

    call()
    return p50_us(call, 500)


def given_back(server, before):
    """Unloads the model; the part of what it had of the GPU that is free again."""
    taken = first_device()["used_bytes"] - before
    check(server.ask("/v2/repository/models/m/unload", b"{}").status == 200, "the model cannot be unloaded")
    with contextlib.suppress(AssertionError):
        wait_for("memory of the GPU given back", lambda: first_device()["used_bytes"] - before <= taken / 100, deadline=SECONDS / 4)
    return 1 - max(0, first_device()["used_bytes"] - before) / max(taken, 1)


@step
def python():
    """PyTorch in a Python model: tensors go both ways without a copy to the host. G2 and G7: beside PyTorch alone, and when it is unloaded."""
    need_torch()
    bare = bare_torch_us()  # this process has a context from here on
    before = first_device()["used_bytes"]
    with server_with(make_python, flags=("--model-control-mode=explicit", "--load-model=m")) as server:
        triton, client = http_client(server)
        for elements in (1, 1000, 4 * MIB):
            data = random_tensor(elements)
            check((infer(triton, client, "m", data) == data * 2).all(), f"{elements} elements are not twice what they were")
        figures = {"p50_4k_us": wire_p50_us(server, random_tensor(1024)), "torch_p50_4k_us": bare}
        client.close()
        goal("G2 µs more than PyTorch alone", figures["p50_4k_us"] - bare, most=40)
        goal("G7 given back", given_back(server, before), least=0.99)
    return figures


@step
def python_fault():
    """An assert in a kernel ends the worker's context: that request fails, and the next ones are answered by a new worker."""
    need_torch()
    from tritonclient.utils import InferenceServerException

    failing = TORCH_MODEL.replace("* 2\n", "* 2\n            torch._assert_async((doubled >= 0).all())\n            torch.cuda.synchronize()\n")
    with server_with(lambda models: make_python(models, failing)) as server:
        triton, client = http_client(server)
        data = random_tensor(1000)
        check((infer(triton, client, "m", data) == data * 2).all(), "the values are wrong before anything fails")
        try:
            infer(triton, client, "m", -data)
            raise AssertionError("a kernel's assert is an answer")
        except InferenceServerException as failure:
            text = str(failure)
        begun = time.monotonic()

        def answers():
            with contextlib.suppress(InferenceServerException):
                return (infer(triton, client, "m", data) == data * 2).all()

        wait_for("an answer after the fault", answers, deadline=SECONDS / 2)
        client.close()
    return {"recovered_s": round(time.monotonic() - begun, 2), "text": text[:200]}


def load_of(url, threads, seconds=5):
    """Answers a second, and p50, of that many clients with 4 KiB each."""
    import tritonclient.http as triton

    times, end = [], time.monotonic() + seconds

    def ask():
        data = random_tensor(1024)
        with triton.InferenceServerClient(url, network_timeout=SECONDS) as client:
            while time.monotonic() < end:
                begun = time.perf_counter()
                infer(triton, client, "m", data)
                times.append(time.perf_counter() - begun)

    with concurrent.futures.ThreadPoolExecutor(threads) as pool:
        for done in [pool.submit(ask) for _ in range(threads)]:
            done.result()
    return len(times) / seconds, statistics.median(times) * 1e6


@step
def triton():
    """The same Python model in Triton 2.51, which scripts/setup --all brings: nereid's part of its p50, and how often its throughput."""
    need_torch()
    sys.path.append(str(BENCH))
    import sides

    if not sides.TRITON.exists():
        raise NotTried("Triton is not here: scripts/setup --all")
    with server_with(make_python) as server:
        ours = [load_of(server.url, threads) for threads in (1, 16)]
    with tempfile.TemporaryDirectory(prefix="triton-gpu-") as name:
        directory = pathlib.Path(name)
        (directory / "models").mkdir()
        make_python(directory / "models")
        other = sides.triton_python(directory, directory / "models")
        other.start()
        try:
            theirs = [load_of(f"127.0.0.1:{other.port}", threads) for threads in (1, 16)]
        finally:
            other.stop()
    goal("G6 p50 of 1 client, part of Triton's", ours[0][1] / theirs[0][1], most=0.5)
    goal("G6 answers to 16 clients, times Triton's", ours[1][0] / theirs[1][0], least=2)
    return {"p50_ratio_1": round(ours[0][1] / theirs[0][1], 2), "throughput_ratio_16": round(ours[1][0] / theirs[1][0], 2),
            "p50_us": round(ours[0][1], 1), "triton_p50_us": round(theirs[0][1], 1)}


def cuda_provider():
    """The name of ONNX Runtime's provider, where it has it."""
    try:
        import onnxruntime as ort
    except ImportError:
        raise NotTried("ONNX Runtime is not installed")
    if "CUDAExecutionProvider" not in ort.get_available_providers():
        raise NotTried(f"onnxruntime {ort.__version__} has no CUDA provider: pip install onnxruntime-gpu")
    return "CUDAExecutionProvider"


def digits_beside_bare(provider, more):
    """The digits of model_repository: the server's answers are those of the CPU; p50 of one picture, and that of ONNX Runtime alone, with its copies."""
    import onnxruntime as ort

    def make(models):
        config = copy_model(models, "digits") / "config.pbtxt"
        text = config.read_text() if config.exists() else ""
        config.write_text(re.sub(r"instance_group\s*\[[^]]*\]", "", text) + "\n" + more)

    file = ROOT / "model_repository/digits/1/model.onnx"
    on_cpu, alone = (ort.InferenceSession(file, providers=[name]) for name in ("CPUExecutionProvider", provider))
    with server_with(make) as server:
        triton, client = http_client(server)
        for batch in (1, 4, 1, 4):  # with graphs: captured, then replayed
            data = 16 * random_tensor(64, batch)
            given = triton.InferInput("image", list(data.shape), "FP32").set_data_from_numpy(data)
            expected = on_cpu.run(["digit"], {"image": data})[0]
            answer = client.infer("digits", [given]).as_numpy("digit")
            check((answer.ravel() == expected.ravel()).all(), f"{batch} pictures are {answer.ravel()}, on the CPU {expected.ravel()}")
        client.close()
        one = 16 * random_tensor(64)
        return {"p50_us": wire_p50_us(server, one, "digits", "image", "digit"), "alone_p50_us": p50_us(lambda: alone.run(["digit"], {"image": one}), 500)}


@step
def onnxruntime():
    """The digits of model_repository on the CUDA provider. G2: beside ONNX Runtime alone."""
    figures = digits_beside_bare(cuda_provider(), ON_GPU)
    goal("G2 µs more than ONNX Runtime alone", figures["p50_us"] - figures["alone_p50_us"], most=25)
    return figures


@step
def onnxruntime_graph():
    """The same with CUDA graphs."""
    accelerator = 'name: "cuda" parameters { key: "enable_cuda_graph" value: "1" }'
    return digits_beside_bare(cuda_provider(), ON_GPU + f"optimization {{ execution_accelerators {{ gpu_execution_accelerator [ {{ {accelerator} }} ] }} }}")


# ---- all of them ----


def run_one(name):
    """In the process of one step: prints its row."""
    try:
        row = {"result": "passed", "figures": STEPS[name](), "goals": REACHED}
    except NotTried as why:
        row = {"result": "not tried", "why": str(why)}
    except Lacking as why:
        row = {"result": "lacking", "why": str(why)}
    except Exception as why:  # noqa: BLE001: whatever it is, it is the row
        row = {"result": "lacking" if name in OTHER_WAYS else "failed", "why": (str(why) or type(why).__name__).strip()[-1000:]}
    print("\n" + json.dumps(row))


def run_step(name, seconds):
    begun = time.monotonic()
    process = subprocess.Popen([sys.executable, __file__, "--one", name], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True)
    try:
        out, _ = process.communicate(timeout=seconds)
        row = json.loads(out.strip().splitlines()[-1])
    except subprocess.TimeoutExpired:
        row = {"result": "failed", "why": f"it took more than {seconds} seconds"}
    except (IndexError, ValueError):
        row = {"result": "failed", "why": f"it ended with {process.returncode}: {out[-500:]}"}
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)  # what it has left
        process.communicate()
    return row | {"step": name, "seconds": round(time.monotonic() - begun, 1)}


def build():
    """build/release, unless the caller has named a build: a machine with a GPU may have no compiler."""
    if "NEREID_BUILD" not in os.environ:
        done = subprocess.run([ROOT / "scripts/build"], stdout=sys.stderr)
        if done.returncode != 0:
            sys.exit("scripts/build has failed: run scripts/setup, or name a build by NEREID_BUILD")
    if not PROBE.exists():
        sys.exit(f"{PROBE} is missing: NEREID_BUILD names no whole build")


def text_of(row):
    if row["result"] != "passed":
        return row["why"].splitlines()[0]
    goals = [f"{found['goal']} {found['value']} ({found['bound']}): {'met' if found['met'] else 'MISSED'}" for found in row["goals"]]
    return ", ".join([f"{name} {value}" for name, value in row["figures"].items()] + goals)


def main():
    parser = argparse.ArgumentParser(prog="scripts/gpu_check", description="Tries nereid on a GPU of this machine. Steps: " + " ".join(STEPS))
    parser.add_argument("steps", nargs="*", metavar="step", help="one of them; default: all")
    parser.add_argument("--output", default="results.json", help="where the rows go (default: %(default)s)")
    parser.add_argument("--read", metavar="PATHS", default="", help="what a strict sandbox lets be read beside the build and /usr, with ':' between them")
    parser.add_argument("--seconds", type=int, default=SECONDS, help="that a step may take (default: %(default)s)")
    parser.add_argument("--one", choices=STEPS, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.one:
        return run_one(given.one)
    os.environ |= {READ: given.read, LIMIT: str(given.seconds)}
    unknown = set(given.steps) - STEPS.keys()
    if unknown:
        parser.error(f"no such step: {' '.join(sorted(unknown))}")
    build()
    found = subprocess.run([PROBE, "devices"], capture_output=True, text=True)
    if found.returncode == NO_GPU:
        print(found.stderr.strip())
        pathlib.Path(given.output).write_text(json.dumps({"gpu": None, "why": found.stderr.strip(), "steps": []}, indent=1) + "\n")
        return NO_GPU
    rows = []
    for name in given.steps or STEPS:
        rows.append(run_step(name, given.seconds))
        print(f"{rows[-1]['result']:9}  {name:32}  {rows[-1]['seconds']:5} s  {text_of(rows[-1])}", flush=True)
    gpu = json.loads(found.stdout) if found.returncode == 0 else None
    pathlib.Path(given.output).write_text(json.dumps({"gpu": gpu, "steps": rows}, indent=1) + "\n")
    results = [row["result"] for row in rows]
    met = [found["met"] for row in rows for found in row.get("goals", ())]
    print(", ".join(f"{results.count(result)} {result}" for result in ("passed", "failed", "lacking", "not tried"))
          + f"; goals: {met.count(True)} met, {met.count(False)} missed; {given.output}")
    return 1 if "failed" in results else 0


if __name__ == "__main__":
    sys.exit(main())
