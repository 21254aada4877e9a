# SPDX-License-Identifier: Apache-2.0
"""Workers that become another program, or leave processes behind: both end at once, and nothing is left (rows 41, 44)."""
import glob
import os
import signal

import pytest
from conftest import PATIENCE, wait_for
from proc import has_ended, read
from python_models import ask, await_gone, children, guard_of, infer, make_python, together, worker_of

# IN[0] from 2 on: how to let go of the server.
LETS_GO = """
def initialize(self, args):
    self.directory = args["model_repository"]
    if os.path.exists(self.directory + "/fork"):
        self.child = os.fork()
        while self.child == 0:
            time.sleep(1000)
def execute(self, requests):
    way = int(value(requests[0])[0])
    if way == 2:
        os.execv("/bin/sleep", ["sleep", "1000"])
    if way == 3:
        os.execv(sys.executable, [sys.executable, "-c", "import time; time.sleep(1000)"])
    if way == 4:
        threading.Thread(target=os.execv, args=["/bin/sleep", ["sleep", "1000"]]).start()
        time.sleep(1000)
    return [answer(np.full_like(value(request), os.getpid())) for request in requests]
"""
LET_GO = "it let go of its connection to the server, as by os.exec, and was ended"


@pytest.mark.parametrize("way, forks", [(2, False), (3, False), (4, False), (2, True)])
def test_a_worker_that_becomes_another_program_fails_its_requests_and_is_started_again(start_server, repository, way, forks):
    directory = make_python(repository, "leaves", LETS_GO)
    if forks:
        (directory / "fork").touch()
    server = start_server(repository)
    first = worker_of(server, "leaves")
    status, reply = ask(server, "leaves", [way])
    assert status == 500
    for text in ("model instance 'leaves_0_0'", "The Python worker of model 'leaves' ended", LET_GO):
        assert text in reply["error"], reply
    assert worker_of(server, "leaves") != first
    await_gone(first)


def test_a_worker_that_becomes_another_program_between_requests_is_started_again(start_server, repository):
    directory = make_python(repository, "leaves", """
        def initialize(self, args):
            self.gate = args["model_repository"] + "/go"
        def leave(self):
            while not os.path.exists(self.gate):
                time.sleep(0.01)
            os.unlink(self.gate)
            os.execv("/bin/sleep", ["sleep", "1000"])
        def execute(self, requests):
            if value(requests[0])[0] == 2:
                threading.Thread(target=self.leave).start()
            return [answer(np.full_like(value(request), os.getpid())) for request in requests]
        """)
    server = start_server(repository)
    first = infer(server, "leaves", [2])[0]
    (directory / "go").touch()
    wait_for("the end of the worker", lambda: LET_GO in server.log)
    assert worker_of(server, "leaves") != first


def test_a_model_that_becomes_another_program_while_it_is_loaded_fails_the_load(start_server, repository):
    make_python(repository, "leaves", "def initialize(self, args):\n    os.execv('/bin/sleep', ['sleep', '1000'])\n")
    server = start_server(repository, flags=["--exit-on-error=false"], ready=False)
    wait_for("the reason", lambda: LET_GO in server.ask("/v2/repository/index", b"{}").text)
    assert not children(server.process.pid)


def test_a_model_that_closes_every_descriptor_goes_on(start_server, repository):
    make_python(repository, "closes", """
        def execute(self, requests):
            os.closerange(3, 1024)
            held = [open("/dev/null") for _ in range(4)]
            return [answer(np.full_like(value(request), os.getpid())) for request in requests]
        """)
    server = start_server(repository)
    pid = worker_of(server, "closes")
    assert worker_of(server, "closes") == pid
    server.stop()
    await_gone(pid)


def test_an_end_by_itself_is_not_taken_for_a_lost_connection(start_server, repository):
    # with many threads and much memory, an end takes its time after the connection is closed
    make_python(repository, "dies", """
        def execute(self, requests):
            self.much = np.ones(1 << 24)
            for _ in range(32):
                threading.Thread(target=time.sleep, args=[1000], daemon=True).start()
            os.kill(os.getpid(), int(value(requests[0])[0]))
            time.sleep(1000)
        """)
    server = start_server(repository)
    for number, name in ((signal.SIGKILL, "SIGKILL, not by the kernel"), (signal.SIGUSR1, "SIGUSR1"), (signal.SIGSEGV, "SIGSEGV")):
        wait_for("a worker", lambda: server.ask("/v2/models/dies/ready").status == 200)
        status, reply = ask(server, "dies", [number])
        assert status == 500 and f"it was ended by signal {name}" in reply["error"], reply


# A daemon as people write them: its own session, and no parent. It writes its number where it is told.
DAEMONS = """
def initialize(self, args):
    self.directory = args["model_repository"]
    if os.path.exists(self.directory + "/daemon"):
        self.start_daemon()
def start_daemon(self):
    import subprocess
    script = ("import os, sys, time\\nif os.fork(): os._exit(0)\\nos.setsid()\\nif os.fork(): os._exit(0)\\n"
              "with open(sys.argv[1], 'w') as out: print(os.getpid(), file=out)\\n"
              "sys.stdout.write('here'); sys.stdout.flush(); os.close(1); time.sleep(1000)")
    pids = f"{self.directory}/pid{time.monotonic_ns()}"
    subprocess.run([sys.executable, "-c", script, pids], stdout=subprocess.PIPE, start_new_session=True, check=True)
    with open(pids) as file:
        return int(file.read())
def execute(self, requests):
    return [answer(np.array([os.getpid(), self.start_daemon()], np.int32)) for _ in requests]
"""


@pytest.fixture(params=["standard", "strict"])
def daemons(request, start_server, repository):
    """A server with a model that has started three daemons; the worker, and all that it has started."""
    body = DAEMONS if request.param == "standard" else DAEMONS.replace('f"{self.directory}/pid', 'f"/dev/shm/pid')
    make_python(repository, "parent", body)
    server = start_server(repository, flags=["--model-control-mode=explicit", "--load-model=*", f"--worker-sandbox={request.param}"])
    started = [infer(server, "parent").tolist() for _ in range(3)]
    worker = started[0][0]
    assert {pid for pid, _ in started} == {worker}
    family = [worker, *(child for _, child in started)]
    assert not any(map(has_ended, family))
    return server, worker, [*family, guard_of(worker)]


def await_ends(family):
    wait_for("the ends of all", lambda: all(map(has_ended, family)))


def test_daemons_of_a_model_end_when_it_is_unloaded(daemons):
    server, _, family = daemons
    assert server.ask("/v2/repository/models/parent/unload", b"{}").status == 200
    await_ends(family)


def test_daemons_of_a_model_end_when_its_worker_is_killed(daemons):
    server, worker, family = daemons
    os.kill(worker, signal.SIGKILL)
    wait_for("the next worker", lambda: ask(server, "parent")[0] == 200)
    await_ends(family)  # the next worker comes after the end of all


def test_daemons_of_a_model_end_when_the_server_is_killed(daemons):
    server, _, family = daemons
    server.process.kill()
    server.process.wait()
    await_ends(family)


def test_daemons_of_a_model_that_does_not_start_end(start_server, repository):
    directory = make_python(repository, "fails", DAEMONS.replace("self.start_daemon()\n", "self.start_daemon(); raise ValueError('no')\n", 1))
    (directory / "daemon").touch()
    start_server(repository, flags=["--exit-on-error=false"], ready=False)
    wait_for("the daemon", lambda: [path for path in directory.glob("pid*") if path.read_text().strip()])
    (path,) = directory.glob("pid*")
    await_ends([int(path.read_text())])


def test_a_guard_that_is_told_to_end_takes_all_along(daemons):
    server, worker, family = daemons
    os.kill(guard_of(worker), signal.SIGRTMAX)  # as the server does
    await_ends(family)
    wait_for("the next worker", lambda: ask(server, "parent")[0] == 200)


def groups():
    return glob.glob("/sys/fs/cgroup/**/nereid-workers-*", recursive=True)


def test_no_control_group_stays_behind(start_server, repository):
    make_python(repository, "pair", LETS_GO, count=2)
    for end in (signal.SIGTERM, signal.SIGKILL):
        server = start_server(repository, flags=["--backend-config=python,worker-processes=4000"])
        own = f"nereid-workers-{server.process.pid}"
        workers = children(server.process.pid)
        assert len(workers) == 2
        bound = any(own in read(pid, "cgroup") for pid in workers)
        assert bound == any(path.endswith(own) for path in groups())
        server.process.send_signal(end)
        server.process.wait(PATIENCE)
        await_ends(workers)
        wait_for("the end of the group", lambda: not any(path.endswith(own) for path in groups()))


def test_the_daemons_of_many_workers_end_with_the_server(start_server, repository):
    make_python(repository, "many", DAEMONS, count=4)
    server = start_server(repository)
    pids = [pid for reply in together(8, lambda _: infer(server, "many").tolist()) for pid in reply]
    assert len(set(pids)) >= 9  # eight daemons and a worker
    server.stop()
    await_ends(pids)
