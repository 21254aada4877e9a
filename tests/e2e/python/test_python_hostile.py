# SPDX-License-Identifier: Apache-2.0
"""A worker that writes random bytes over all shared memory that it can write to (row 30, CVE-2025-23319 and its kin): the server
goes on, and what the worker had under way is answered when it dies.

NEREID_HOSTILE_SECONDS is how long each worker writes (default 1).
"""
import contextlib
import os
import signal
import subprocess
import threading
import time

import proc
import pytest
from conftest import PATIENCE, wait_for
from python_models import ask, await_gone, children, guard_of, make_python

pytestmark = pytest.mark.slow

SECONDS = float(os.environ.get("NEREID_HOSTILE_SECONDS", "1"))

SCRIBBLES = """
def initialize(self, args):
    self.writer = None
def scribble(self, reach):
    import ctypes, random
    places = []
    for line in open("/proc/self/maps"):
        if "memfd" in line and " rw-s " in line:
            places.append(tuple(int(number, 16) for number in line.split()[0].split("-")))
    assert places
    choice = random.Random(reach + os.getpid())
    open(f"/tmp/%(flag)s", "w").close()
    while True:
        start, end = choice.choice(places)
        at = choice.randrange(start, min(end, start + reach))
        data = choice.choice([os.urandom(64), bytes(64), b"\\xff" * 64, os.urandom(4)])
        ctypes.memmove(at, data, min(len(data), end - at))
def execute(self, requests):
    reach = int(value(requests[0])[0])
    if reach > 1 and self.writer is None:
        self.writer = threading.Thread(target=self.scribble, args=[reach], daemon=True)
        self.writer.start()
    return [answer(np.array([os.getpid()], np.int32)) for _ in requests]
"""


@pytest.mark.parametrize("reach", [4096, 300_000, 8 << 20])
def test_random_bytes_in_shared_memory_harm_their_writer_alone(start_server, repository, tmp_path, reach):
    make_python(repository, "hostile", SCRIBBLES.replace("/tmp/%(flag)s", str(tmp_path / "writes")))
    make_python(repository, "other")
    server = start_server(repository)
    pid = ask(server, "hostile", [1])[1]["outputs"][0]["data"][0]
    assert pid in children(server.process.pid)
    stop = threading.Event()
    answered = []

    def go_on():
        while not stop.is_set():
            answered.append(ask(server, "hostile", [reach])[0])

    clients = [threading.Thread(target=go_on, daemon=True) for _ in range(4)]
    for client in clients:
        client.start()
    wait_for("writing", (tmp_path / "writes").exists)
    end = time.monotonic() + SECONDS
    while time.monotonic() < end:
        assert ask(server, "other", [5])[1]["outputs"][0]["data"] == [5]
    stop.set()
    with contextlib.suppress(ProcessLookupError):  # it may have ended by itself
        os.kill(pid, signal.SIGKILL)
    for client in clients:
        client.join(PATIENCE)
    assert not any(client.is_alive() for client in clients), "a request has no answer"
    await_gone(pid)
    assert answered and set(answered) <= {200, 500, 503}
    wait_for("a new worker", lambda: ask(server, "hostile", [1])[0] == 200)
    assert ask(server, "other", [6])[1]["outputs"][0]["data"] == [6]


# Breaks all rings once the model is loaded, and stops, so that what it says does not mend them.
BREAKS = """
def initialize(self, args):
    self.directory = args["model_repository"]
    if not os.path.exists(self.directory + "/broken"):
        threading.Thread(target=self.break_rings).start()
def break_rings(self):
    import ctypes
    (start,) = [line.split("-")[0] for line in open("/proc/self/maps") if "memfd" in line and " rw-s 00000000 " in line]
    while not os.path.exists(self.directory + "/break"):
        time.sleep(0.01)
    ctypes.memset(int(start, 16) + 64, 0xff, 4096 - 64)
    open(self.directory + "/broken", "w").close()
    os.kill(os.getpid(), 19)
def execute(self, requests):
    return [answer(value(request)) for request in requests]
"""


@contextlib.contextmanager
def slow_to_see_ends(server):
    """While the threads that see workers end need three seconds for a look."""
    tasks = [task for task, name in proc.threads(server.process.pid).items() if name == "py process"]
    command = ["strace", *(f"--attach={task}" for task in tasks), "-o", "/dev/null", "-e", "inject=waitid:delay_enter=3000000"]
    with subprocess.Popen(command, stderr=subprocess.DEVNULL) as tracer:
        wait_for("strace", lambda: all(f"TracerPid:\t{tracer.pid}\n" in proc.read(task, "status") for task in tasks))
        try:
            yield
        finally:
            tracer.terminate()


def test_the_end_of_a_worker_that_breaks_its_rings_holds_no_other_clients_up(start_release, repository):
    directory = make_python(repository, "breaks", BREAKS)
    make_python(repository, "other")
    server = start_release(repository, flags=["--http-thread-count=1", "--model-control-mode=explicit", "--load-model=breaks"])
    (worker,) = children(server.process.pid)
    guard = guard_of(worker)
    assert server.ask("/v2/repository/models/other/load", b"{}").status == 200
    assert ask(server, "breaks", [1])[0] == 200  # from the second on the loop begins what is not known to be slow
    (directory / "break").touch()
    wait_for("broken rings", lambda: children(server.process.pid)[worker] == "T")
    replies = []
    client = threading.Thread(target=lambda: replies.append(ask(server, "breaks", [1])))
    with slow_to_see_ends(server):
        client.start()
        wait_for("the end of the worker", lambda: proc.has_ended(guard))
        assert ask(server, "other", [5])[1]["outputs"][0]["data"] == [5]
        assert client.is_alive() and replies == []
    client.join(PATIENCE)
    ((status, reply),) = replies
    assert status == 500 and "The Python worker of model 'breaks' ended: it " in reply["error"], reply
    wait_for("a new worker", lambda: ask(server, "breaks", [1])[0] == 200)
