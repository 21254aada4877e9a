# SPDX-License-Identifier: Apache-2.0
"""What is measured: nereid, Triton, the echo server, and ONNX Runtime called in-process.

Each has a name and `load(request, connections, seconds)`, which answers the figures of one round.
"""
import contextlib
import json
import os
import pathlib
import re
import shlex
import shutil
import signal
import ssl
import subprocess
import sys
import time
import urllib.request

import load

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.append(str(ROOT / "tests/e2e/lib"))

import proc  # noqa: E402
from certificates import make_certificates, tls_flags  # noqa: E402
from ports import free_port  # noqa: E402

RELEASE = ROOT / "build/release"
TRITON = ROOT / ".deps/pytriton"
READY_SECONDS = 120
STOP_SECONDS = 30


def replace_all(text, values):
    for name, value in values.items():
        text = text.replace(name, str(value))
    return text


class Server:
    """A process that serves HTTP on a port of 127.0.0.1; {port} in its command stands for that."""

    def __init__(self, name, command, log, **environment):
        self.name, self.log, self.environment = name, log, dict(os.environ, **environment)
        self.port, self.grpc_port = free_port(), free_port()
        self.scheme, self.context = "http", None
        ports = {"{port}": self.port, "{grpc_port}": self.grpc_port}
        self.command = [replace_all(str(part), ports) for part in command]
        self.process = None

    def start(self):
        """Seconds from exec until it says that it is ready."""
        begin = time.monotonic()
        with open(self.log, "w") as log:
            self.process = subprocess.Popen(self.command, env=self.environment, stdout=log, stderr=log)
        while not self.is_ready():
            ended = self.process.poll() is not None
            if ended or time.monotonic() - begin > READY_SECONDS:
                self.process.kill()
                sys.exit(f"{self.name} {'ended' if ended else 'does not get ready'}:\n{self.log.read_text()[-2000:]}")
            time.sleep(0.001)
        return time.monotonic() - begin

    def is_ready(self):
        try:
            with urllib.request.urlopen(self.url("health/ready"), timeout=5, context=self.context) as reply:
                return reply.status == 200
        except OSError:  # HTTPError is one
            return False

    def stop(self):
        """A server that hangs is killed, and the run goes on: Triton 2.51 aborted and hung here with 1,000 models."""
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
        if self.process.wait() not in (0, -signal.SIGTERM):
            print(f"note: {self.name} did not stop as it should ({self.process.returncode})", file=sys.stderr, flush=True)

    def url(self, path):
        return f"{self.scheme}://127.0.0.1:{self.port}/v2/{path}"

    def ask(self, path, body=None):
        with urllib.request.urlopen(self.url(path), data=body, timeout=30, context=self.context) as reply:
            return json.loads(reply.read() or b"null")

    def post(self, path, body):
        with urllib.request.urlopen(self.url(path), data=body, timeout=30, context=self.context) as reply:
            reply.read()

    def processes(self):
        """Process ids of the server and of what it has started."""
        found = [self.process.pid]
        for pid in found:  # grows meanwhile
            found += proc.children(pid)
        return found

    def idle_memory(self):
        """Proportional set size in MiB, of all processes."""
        texts = filter(None, (proc.read(pid, "smaps_rollup") for pid in self.processes()))
        return sum(int(re.search(r"^Pss:\s+(\d+)", text, re.M).group(1)) for text in texts) / 1024

    def forget_peak(self):
        """Memory's high-water mark is what is used now (proc(5), clear_refs)."""
        proc.reset_peak(self.process.pid)

    def peak_memory(self):
        """High-water mark of the resident set in MiB."""
        return proc.status(self.process.pid, "VmHWM") / 1024

    def cpu_seconds(self):
        """User and system time so far, of all processes."""
        return sum(map(proc.cpu_seconds, self.processes()))

    def busy_ms(self):
        """Time on a processor so far, of the server's threads: finer than cpu_seconds."""
        return sum(int(text.split()[0]) for text in proc.of_threads(self.process.pid, "schedstat").values()) / 1e6

    def model_counts(self, model):
        """Rows and executions of a model so far."""
        stats = self.ask(f"models/{model}/stats")["model_stats"][0]
        return int(stats["inference_count"]), int(stats["execution_count"])

    def load(self, request, connections, seconds):
        with load.live_sequences(self.url(f"models/{request.model}/infer"), request):
            rows, executions = self.model_counts(request.model)
            figures = self.load_only(request, connections, seconds)
            more_rows, more_executions = self.model_counts(request.model)
        figures["batch"] = (more_rows - rows) / max(more_executions - executions, 1)  # a cache may have all the answers
        return figures

    def load_only(self, request, connections, seconds):
        cpu = self.cpu_seconds()
        if request.grpc:
            figures = load.grpc(build_grpc_load(), self.grpc_port, request, connections, seconds)
        else:
            figures = load.wrk(self.url(f"models/{request.model}/infer"), request, connections, seconds)
        figures["cpu"] = (self.cpu_seconds() - cpu) / figures["requests"] * 1e6
        return figures


class Echo(Server):
    load = Server.load_only  # it has no models to ask about


class InProcess:
    """ONNX Runtime in a Python process of its own; `callers` call one session with the request's rows, without a pause."""

    name = "in-process"

    def __init__(self, model_file, callers, intra_op_threads):
        self.arguments = [str(model_file), str(callers), str(intra_op_threads)]

    def start(self):
        pass

    def stop(self):
        pass

    def load(self, request, connections, seconds):
        command = [sys.executable, str(ROOT / "bench/in_process.py"), *self.arguments, str(request.rows), str(seconds)]
        return json.loads(subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout)


def common_flags(repository):
    return [f"--model-repository={repository}", f"--backend-directory={RELEASE}/backends", "--http-address=127.0.0.1",
            f"--backend-config=onnxruntime,python-environment={ROOT}/.venv", "--http-port={port}", "--allow-metrics=false",
            "--allow-grpc=false", "--log-info=false"]


def nereid(directory, repository):
    # Triton 2.51 has no limit on bodies yet, nor the flags, and lets clients share memory.
    command = [RELEASE / "bin/nereid", *common_flags(repository), "--http-max-input-size=1000000000", "--allow-client-shm=true"]
    return Server("nereid", command, directory / "nereid.log")


def triton(directory, repository):
    command = [TRITON / "pytriton/tritonserver/bin/tritonserver", *common_flags(repository)]
    return Server("Triton", command, directory / "triton.log", LD_LIBRARY_PATH=f"{TRITON}/nvidia_pytriton.libs")


def nereid_tls(directory, repository):
    certificates = make_certificates(directory)
    made = nereid(directory, repository)
    made.name, made.log, made.scheme = "nereid over TLS", directory / "nereid_tls.log", "https"
    made.context = ssl.create_default_context(cafile=certificates / "ca.pem")
    made.context.check_hostname = False
    made.command += tls_flags(certificates)
    return made


# Each has its own local cache.

def nereid_cached(directory, repository):
    made = nereid(directory, repository)
    made.command.append("--cache-config=local,size=67108864")
    return made


def triton_cached(directory, repository):
    made = triton(directory, repository)
    made.command += ["--cache-config=local,size=67108864", f"--cache-directory={TRITON}/pytriton/tritonserver/caches"]
    return made


def without_cache(directory, repository):
    """The same models without a cache, to stand beside nereid_cached."""
    made = nereid(directory, repository)
    made.name, made.log = "no cache", directory / "no_cache.log"
    return made


# Both trace each request into files of 1,000.

def trace_flags(directory, name):
    return ["--trace-config=rate=1", "--trace-config=level=TIMESTAMPS", f"--trace-config=triton,file={directory}/{name}.json",
            "--trace-config=triton,log-frequency=1000"]


def nereid_traced(directory, repository):
    made = nereid(directory, repository)
    made.command += trace_flags(directory, "nereid")
    return made


def traced(directory, repository):
    """The same under another name, to stand beside nereid."""
    made = nereid_traced(directory, repository)
    made.name, made.log = "traced", directory / "traced.log"
    return made


def triton_traced(directory, repository):
    made = triton(directory, repository)
    made.command += trace_flags(directory, "triton")
    return made


def with_resources(server):
    server.command += ["--rate-limit=execution_count", "--rate-limit-resource=r:2"]
    return server


def nereid_limited(directory, repository):
    return with_resources(nereid(directory, repository))


def unlimited(directory, repository):
    """To stand beside nereid_limited: as many models as may run there at once are asked, and nothing limits them."""
    made = nereid(directory, repository)
    made.name, made.log = "unlimited", directory / "unlimited.log"
    return made


def triton_limited(directory, repository):
    return with_resources(triton(directory, repository))


def with_grpc(server):
    server.command.remove("--allow-grpc=false")
    server.command += [f"--grpc-port={server.grpc_port}", "--grpc-address=127.0.0.1"]
    return server


def nereid_grpc(directory, repository):
    return with_grpc(nereid(directory, repository))


def triton_grpc(directory, repository):
    return with_grpc(triton(directory, repository))


def with_metrics(server):
    """Serves /metrics, of its models only, on a port of its own."""
    server.metrics_port = free_port()
    server.command.remove("--allow-metrics=false")
    server.command += [f"--metrics-port={server.metrics_port}", "--metrics-address=127.0.0.1", "--allow-cpu-metrics=false"]
    return server


def nereid_metrics(directory, repository):
    return with_metrics(nereid(directory, repository))


def triton_metrics(directory, repository):
    return with_metrics(triton(directory, repository))


# Both run Python models on the system's Python with the NumPy that Triton's stubs were compiled for.

def python_version():
    return subprocess.check_output(["/usr/bin/python3", "-c", "import sys; print('%d.%d' % sys.version_info[:2])"], text=True).strip()


def stub_numpy():
    return ROOT / f".deps/numpy-1.26.4-python{python_version()}"


def nereid_python(directory, repository):
    made = nereid(directory, repository)
    made.command += ["--backend-config=python,python-executable=/usr/bin/python3", "--model-control-mode=explicit",
                     "--load-model=*"]
    made.environment["PYTHONPATH"] = str(stub_numpy())
    return made


def triton_python(directory, repository):
    """With its own Python backend."""
    backend, parts = directory / "backends/python", TRITON / "pytriton/tritonserver"
    if not backend.exists():
        backend.mkdir(parents=True)
        for part in (*(parts / "backends/python").glob("*.*"),
                     parts / "python_backend_stubs" / python_version() / "triton_python_backend_stub"):
            shutil.copy(part, backend)
        for package in stub_numpy().glob("numpy*"):
            (backend / package.name).symlink_to(package)  # the stub takes no PYTHONPATH
        for name in ("identity", "onnxruntime"):
            (directory / "backends" / name).symlink_to(RELEASE / "backends" / name)
    made = triton(directory, repository)
    made.command += [f"--backend-directory={directory}/backends", "--model-control-mode=explicit", "--load-model=*"]
    made.environment["PATH"] = f"/usr/bin:{os.environ['PATH']}"  # the stub's libraries are those of the first python3
    return made


def echo(directory, _):
    return Echo("echo", [build_echo(), "{port}"], directory / "echo.log")


def echo_direct(directory, _):
    return Echo("echo without hop", [build_echo(), "{port}", "--direct"], directory / "echo_direct.log")


def build(name, library):
    """A program of this directory, made anew when its source is newer."""
    source, program = ROOT / f"bench/{name}.c", ROOT / f"build/bench/{name}"
    if not program.exists() or program.stat().st_mtime < source.stat().st_mtime:
        program.parent.mkdir(parents=True, exist_ok=True)
        flags = subprocess.check_output(["pkg-config", "--cflags", "--libs", library], text=True)
        subprocess.run(["cc", "-std=gnu17", "-O2", "-Wall", "-Wextra", str(source), "-o", str(program), "-pthread",
                        *shlex.split(flags)], check=True)
    return program


def build_echo():
    return build("echo", "libmicrohttpd")


def build_grpc_load():
    return build("grpc_load", "libnghttp2")


@contextlib.contextmanager
def running(sides):
    with contextlib.ExitStack() as stack:
        for side in sides:
            side.start()
            stack.callback(side.stop)
        yield sides
