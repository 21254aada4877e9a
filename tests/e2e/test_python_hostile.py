"""A worker that writes random bytes over all shared memory that it can write to (row 30, CVE-2025-23319 and its kin): the server
goes on, and what the worker had under way is answered when it dies.

NEREID_HOSTILE_SECONDS is how long each worker writes (default 1).
"""
import os
import signal
import threading
import time

import pytest
from conftest import wait_for
from python_models import ask, await_gone, children, make_python

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
    if pid in children(server.process.pid):
        os.kill(pid, signal.SIGKILL)
    for client in clients:
        client.join(30)
    assert not any(client.is_alive() for client in clients), "a request has no answer"
    await_gone(pid)
    assert answered and set(answered) <= {200, 500, 503}
    wait_for("a new worker", lambda: ask(server, "hostile", [1])[0] == 200)
    assert ask(server, "other", [6])[1]["outputs"][0]["data"] == [6]
