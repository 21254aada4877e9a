# SPDX-License-Identifier: Apache-2.0
"""Servers for the end-to-end tests: the real binary, on free ports, with its log kept and read.

NEREID_BUILD names the build directory (default build/release). A server that a test started must end with status 0 and
without a sanitizer's report.
"""
import atexit
import contextlib
import functools
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request

import pytest

HERE = pathlib.Path(__file__).resolve().parent
# Helpers are in lib; a test may use what another test's file has, so that all rooms are found. Programs use this outside of pytest (gpu_check.py).
sys.path += [str(HERE.parent), *sorted(str(room) for room in HERE.iterdir() if room.is_dir())]
from choices import has, is_chosen  # noqa: E402
from failures import Crash, ended_badly  # noqa: E402
from gpus import fake_gpus  # noqa: E402
from patience import PATIENCE  # noqa: E402

ROOT = HERE.parents[1]
BUILD = (ROOT / os.environ.get("NEREID_BUILD", "build/release")).resolve()
DEADLINE = PATIENCE  # of one reply
EXIT_TIMEOUT = PATIENCE - 60  # of servers whose test is not about it: a slow machine does not reach it, and what hangs is told by the server
SANITIZER_REPORT = re.compile(r"Sanitizer:|runtime error:")
UNCHECKED = "LeakSanitizer has encountered a fatal error"  # it could not look: threads came and went meanwhile


def without_thread_leaks(log):
    """Of a process that ended at once, on purpose: TSan calls the threads leaked that it did not wait for."""
    kept = re.sub(r"=+\nWARNING: ThreadSanitizer: thread leak.*?\nSUMMARY: ThreadSanitizer: thread leak[^\n]*\n=+\n", "", log, flags=re.S)
    return kept if "WARNING: ThreadSanitizer" in kept else re.sub(r"ThreadSanitizer: reported \d+ warnings\n", "", kept)


def wait_for(what, condition, deadline=PATIENCE, pause=0.005):
    """Calls `condition` until it is true, with a pause of so many seconds between, which grows: who waits long shall not take the processors it waits for."""
    end = time.monotonic() + deadline
    while time.monotonic() < end:
        result = condition()
        if result:
            return result
        time.sleep(pause)
        pause = max(pause, min(pause * 1.2, 0.1))
    raise AssertionError(f"{what}: did not happen in {deadline} seconds")


class Answer:
    def __init__(self, status, headers, body):
        self.status, self.headers, self.body = status, headers, body

    @property
    def text(self):
        return self.body.decode()


class Server:
    """A running nereid."""

    opens_late = False  # after it has said that it did

    def __init__(self, process, log):
        self.process, self.log_path = process, log
        self.http_port = self.metrics_port = None

    @property
    def log(self):
        return self.log_path.read_text(errors="replace")

    @property
    def grpc_port(self):
        """Awaited when somebody asks for it: not every server of a test has one."""
        found = wait_for("gRPC port", lambda: re.search(r"Started GRPCInferenceService at .*:(\d+)", self.log))
        return int(found.group(1))

    @property
    def url(self):
        return f"localhost:{self.http_port}"

    def ask(self, path, body=None, method=None, headers=None, port=None):
        """One request; HTTP errors are answers too."""
        url = f"http://localhost:{port or self.http_port}{path}"
        request = urllib.request.Request(url, data=body, method=method, headers=headers or {})
        try:
            with urllib.request.urlopen(request, timeout=PATIENCE) as reply:
                return Answer(reply.status, reply.headers, reply.read())
        except urllib.error.HTTPError as error:
            return Answer(error.code, error.headers, error.read())

    def await_ports(self, http=True, metrics=True):
        def port_in_log(name):
            if self.process.poll() is not None:
                self.check_end()
                raise AssertionError(f"the server ended with {self.process.returncode}:\n{self.log}")
            found = re.search(rf"Started {name} at .*:(\d+)", self.log)
            if found and self.opens_late:
                with contextlib.closing(socket.socket()) as attempt:
                    return attempt.connect_ex(("127.0.0.1", int(found.group(1)))) == 0 and int(found.group(1))
            return found and int(found.group(1))

        if http:
            self.http_port = wait_for("HTTP port", lambda: port_in_log("HTTPService"))
        if metrics:
            self.metrics_port = wait_for("metrics port", lambda: port_in_log("Metrics Service"))

    def await_ready(self):
        """To ask costs both sides milliseconds, so the log is read first; who says nothing there is asked ten times a second."""
        asked = time.monotonic()

        def is_ready():
            nonlocal asked
            if self.process.poll() is None and '"Serving ' not in self.log and time.monotonic() < asked + 0.1:
                return False
            asked = time.monotonic()
            return self.ask("/v2/health/ready").status == 200

        wait_for("readiness", is_ready)

    def check_end(self):
        """A server that has ended did not crash, and no sanitizer had anything to say."""
        status = self.process.returncode
        log = self.log if status <= 0 or ended_badly(status) else without_thread_leaks(self.log)
        if SANITIZER_REPORT.search(log) or (ended_badly(status) and UNCHECKED not in log):
            raise Crash(f"the server ended with {status}:\n{log}")

    def stop(self, number=signal.SIGTERM):
        """Ends the server and checks how it went."""
        Starter.running.pop(self, None)
        if self.process.poll() is None:
            self.process.send_signal(number)
        status = self.process.wait(PATIENCE)
        self.check_end()
        assert status == 0, self.log
        return status


# NEREID_FAKE_GPUS=<n>: every server is on a machine with as many GPUs, which are played (gpus.py).
@functools.cache
def host_gpus():
    count = int(os.environ.get("NEREID_FAKE_GPUS", 0))
    if not count:
        return {}
    directory = tempfile.TemporaryDirectory(prefix="gpus-")
    atexit.register(directory.cleanup)
    return fake_gpus(directory.name, [{"memory": 1 << 40}] * count, fill_bytes=65536).variables


WITHOUT_GPUS = {"LD_LIBRARY_PATH": "", "CUDA_VISIBLE_DEVICES": ""}  # of a server that shall see none, wherever it runs


# NEREID_LATE_MS=50: every server is so late (tests/fakes/late.c).
LATE = {"LD_PRELOAD": str(BUILD / "tests/fakes/late.so")} if "NEREID_LATE_MS" in os.environ else {}


def environment():
    return dict(
        {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}  # whatever the tests' own interpreter is told
        | host_gpus() | LATE,
        ASAN_OPTIONS="detect_leaks=1:abort_on_error=0:exitcode=99",
        LSAN_OPTIONS=f"suppressions={ROOT}/tests/lsan.supp",
        TSAN_OPTIONS=f"suppressions={ROOT}/tests/tsan.supp:exitcode=98",
        TBB_ENABLE_SANITIZERS="1",  # OpenVINO's TBB then opens libraries in a way that sanitizers allow
    )


# LeakSanitizer wants to be the only one who traces the process.
WITHOUT_LEAK_CHECK = {"ASAN_OPTIONS": environment()["ASAN_OPTIONS"].replace("detect_leaks=1", "detect_leaks=0")}


@pytest.fixture(scope="session")
def nereid():
    """Path of the binary."""
    path = BUILD / "bin/nereid"
    assert path.exists(), f"{path} is missing: run scripts/build first"
    return path


def link_backends(directory, build):
    for library in (build / "backends").glob("*/libtriton_*.so"):
        if not (directory / library.parent.name).exists():  # some tests bring their own
            (directory / library.parent.name).symlink_to(library.parent)
    for name in ("faulty", "placed"):
        (directory / name).symlink_to(build / "test-backends" / name)
    for name in ("half", "stateful", "streaming"):  # these have no sanitizer: the release build and NVIDIA's server take some of them
        (directory / name).symlink_to(BUILD / "test-backends" / name)
    return directory


@pytest.fixture(scope="session")
def backends(tmp_path_factory):
    """A directory with all backends, those for tests too."""
    return link_backends(tmp_path_factory.mktemp("backends"), BUILD)


# NEREID_ONNXRUNTIME names another ONNX Runtime than .venv's.
ORT = f"library={os.environ['NEREID_ONNXRUNTIME']}" if "NEREID_ONNXRUNTIME" in os.environ else f"python-environment={ROOT / '.venv'}"
# NEREID_ISOLATE=1: each model that can has a process of its own, in all tests.
ISOLATE = ["--backend-config=isolate=process"] if os.environ.get("NEREID_ISOLATE") else []


class Starter:
    opens_late = False
    running = {}  # servers of all starters that nobody has stopped, and what starts each again

    def __init__(self, nereid, backends, directory):
        self.nereid, self.backends, self.directory, self.servers = nereid, backends, directory, []

    def command(self, *repositories, flags=()):
        return [
            str(self.nereid), "--http-port=0", "--metrics-port=0", "--grpc-port=0", f"--exit-timeout-secs={EXIT_TIMEOUT}",
            "--http-address=127.0.0.1", "--grpc-address=127.0.0.1",
            f"--backend-directory={self.backends}",
            f"--backend-config=onnxruntime,{ORT}",
            f"--backend-config=python,python-executable={ROOT / '.venv/bin/python'}",
            *ISOLATE, *(f"--model-repository={path}" for path in repositories), *flags,
        ]

    def __call__(self, *repositories, flags=(), ready=True, wait=True, variables=(), wrapper=()):
        """Starts a server on free ports and waits until it is ready (or, with ready=False, until its ports are open).

        `variables` are added to its environment; `wrapper` is a command that runs it in its own process, such as strace -D.
        """
        server = Server(None, self.directory / f"server{len(self.servers)}.log")

        def start():
            with server.log_path.open("w") as out:
                server.process = subprocess.Popen(
                    [*wrapper, *self.command(*repositories, flags=flags)], stdout=out, stderr=subprocess.STDOUT,
                    env=environment() | dict(variables) | (WITHOUT_LEAK_CHECK if wrapper else {}),
                )
            if server not in self.running:
                self.servers.append(server)
                self.running[server] = start
            if wait:
                server.await_ports(
                    http="--allow-http=false" not in flags, metrics="--allow-metrics=false" not in flags
                )
                if ready:
                    server.await_ready()

        server.opens_late = self.opens_late
        try:
            start()
        except AssertionError:
            if server.process.poll() is not None:
                self.running.pop(server, None)  # the next tests shall not start it again
            raise
        return server

    def stop_all(self):
        try:
            for server in self.servers:
                if server.process.poll() is None:
                    server.stop()
                else:
                    server.check_end()
        finally:
            for server in self.servers:
                self.running.pop(server, None)
                if server.process.poll() is None:
                    server.process.kill()
                    server.process.wait()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    """A failure comes with what its servers said last."""
    report = yield
    if report.failed and call.when == "call":
        report.sections += [(f"log of {server.log_path.name}", server.log[-6000:]) for server in Starter.running]
    return report


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item):
    """A server that the tests of a module share, and that ends in one of them: that one fails, and the next ones have another."""
    result = yield
    ended = [server for server in Starter.running if server.process.poll() is not None]
    texts = [f"the server ended with {server.process.returncode} in {item.name}:\n{server.log}" for server in ended]
    for server in ended:
        try:
            Starter.running[server]()
        except AssertionError as failure:
            texts.append(f"and did not start again: {failure}")
    if texts:
        raise Crash("\n".join(texts))
    return result


@pytest.fixture
def start_server(nereid, backends, tmp_path):
    starter = Starter(nereid, backends, tmp_path)
    yield starter
    starter.stop_all()


def release_starter(tmp_path_factory):
    build = ROOT / "build/release"
    path = build / "bin/nereid"
    assert path.exists(), f"{path} is missing: run scripts/build release first"
    directory = tmp_path_factory.mktemp("release")
    return Starter(path, link_backends(tmp_path_factory.mktemp("backends"), build), directory)


@pytest.fixture
def start_release(tmp_path_factory):
    """As start_server, but always the release build: memory and time mean nothing under a sanitizer."""
    starter = release_starter(tmp_path_factory)
    yield starter
    starter.stop_all()


@pytest.fixture(scope="session")
def server(nereid, backends, tmp_path_factory):
    """One server of the example models for all tests that change nothing."""
    starter = Starter(nereid, backends, tmp_path_factory.mktemp("server"))
    yield starter(ROOT / "model_repository", flags=["--model-control-mode=explicit", "--load-model=*"])
    starter.stop_all()


@pytest.fixture(scope="session")
def targets(tmp_path_factory):
    """A repository for attacks."""
    return make_targets(tmp_path_factory.mktemp("targets"))


@pytest.fixture(scope="session")
def target(nereid, backends, targets, tmp_path_factory):
    """One server of them for all attacks that need no settings."""
    starter = Starter(nereid, backends, tmp_path_factory.mktemp("target"))
    yield starter(targets, flags=EVERYTHING)
    starter.stop_all()


@pytest.fixture(scope="session")
def release_target(targets, tmp_path_factory):
    """The same of the release build."""
    starter = release_starter(tmp_path_factory)
    yield starter(targets, flags=EVERYTHING)
    starter.stop_all()


@pytest.fixture
def repository(tmp_path):
    directory = tmp_path / "models"
    directory.mkdir()
    return directory


@pytest.fixture(scope="module")
def machine_address():
    """An address of this machine that is not loopback: whoever comes from it counts as a stranger."""
    found = [a for a in subprocess.run(["hostname", "-I"], capture_output=True, text=True).stdout.split() if ":" not in a]
    assert found, "this test needs a network address besides loopback"
    return found[0]


EVERYTHING = ("--model-control-mode=explicit", "--load-model=*")  # every route does what it does
ELEMENT_SIZES = {
    "BOOL": 1, "UINT8": 1, "UINT16": 2, "UINT32": 4, "UINT64": 8, "INT8": 1, "INT16": 2, "INT32": 4, "INT64": 8,
    "FP16": 2, "BF16": 2, "FP32": 4, "FP64": 8, "BYTES": 0,
}

IDENTITY = """
backend: "identity"
max_batch_size: %(max_batch_size)d
input { name: "INPUT0" data_type: %(type)s dims: [ -1 ] }
output { name: "OUTPUT0" data_type: %(type)s dims: [ -1 ] }
%(more)s
"""
# So many rows are one batch: who comes first waits for the others, however late they are.
TOGETHER = f"dynamic_batching {{ preferred_batch_size: [ %d ] max_queue_delay_microseconds: {2 * PATIENCE}000000 }}"


def make_identity(repository, name, type="TYPE_FP32", max_batch_size=8, more="", versions=(1,)):
    """A model that gives back its input."""
    directory = repository / name
    for version in versions:
        (directory / str(version)).mkdir(parents=True, exist_ok=True)
    (directory / "config.pbtxt").write_text(IDENTITY % dict(type=type, max_batch_size=max_batch_size, more=more))
    return directory


def make_targets(directory):
    """The canary, and an identity of each type (t_fp32 and so on)."""
    make_identity(directory, "canary")
    for name in ELEMENT_SIZES:
        make_identity(directory, f"t_{name.lower()}", "TYPE_STRING" if name == "BYTES" else f"TYPE_{name}")
    return directory


def make_faulty(repository, name="faulty", fault=""):
    """A model that does what its `fault` says (tests/fakes/faulty_backend.c)."""
    directory = repository / name
    (directory / "1").mkdir(parents=True)
    (directory / "config.pbtxt").write_text(
        """
        backend: "faulty"
        input { name: "INPUT0" data_type: TYPE_INT32 dims: [ -1 ] }
        output { name: "OUTPUT0" data_type: TYPE_INT32 dims: [ -1 ] }
        parameters { key: "fault" value { string_value: "%s" } }
        """
        % fault
    )
    return directory


def copy_model(repository, name):
    shutil.copytree(ROOT / "model_repository" / name, repository / name)
    return repository / name


def pytest_configure():
    """tritonclient gives a request up after 60 seconds unless it is told otherwise."""
    import tritonclient.http as http  # here: programs that use this file need no client
    import tritonclient.http.aio as http_aio

    http.InferenceServerClient.__init__ = functools.partialmethod(
        http.InferenceServerClient.__init__, connection_timeout=PATIENCE, network_timeout=PATIENCE)
    http_aio.InferenceServerClient.__init__ = functools.partialmethod(http_aio.InferenceServerClient.__init__, conn_timeout=PATIENCE)


def pytest_addoption(parser):
    parser.addoption("--quick", action="store_true", help="only the tests of scripts/test without --all (lib/choices.py)")
    parser.addoption("--ours", action="store_true", help="not what Triton or the release build is asked, which no sanitizer changes, nor what is marked `once`")
    parser.addoption("--gpu-host", action="store_true", help="only the tests to run again with NEREID_FAKE_GPUS=1")
    parser.addoption("--part", choices=("beside", "alone"), help="only the tests that others may run beside; only those that run alone")


def pytest_collection_modifyitems(config, items):
    chosen, others = [], []
    for item in items:
        (chosen if is_chosen(item, config.option) else others).append(item)
    config.hook.pytest_deselected(items=others)
    items[:] = sorted(chosen, key=lambda item: not has(item, "long"))  # each in its order
    skip_strict_sandbox(items)


def skip_strict_sandbox(items):
    """Tests of the strict sandbox are skipped, with the launcher's words, where the system does not permit it.

    test_strict_is_had_or_refused_by_name runs everywhere.
    """
    wanted = [item for item in items if "strict" in item.name and item.path.name.startswith("test_python_")
              and "refused_by_name" not in item.name]
    launcher = BUILD / "backends/python/nereid-worker-launcher"
    if not wanted or not launcher.exists():
        return
    attempt = subprocess.run([launcher, "--sandbox=strict", "--", "/bin/true"], capture_output=True, text=True)
    if attempt.returncode != 0:
        for item in wanted:
            item.add_marker(pytest.mark.skip(reason=attempt.stderr.strip()))
