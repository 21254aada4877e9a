# SPDX-License-Identifier: Apache-2.0
"""Workers that die, hang, flood or cannot be started: who notices, what they are told, and what is left (rows 30, 41-44)."""
import json
import os
import shutil
import signal
import threading
import time

import proc
import pytest
import tritonclient.http as triton
from conftest import DEADLINE, ROOT, wait_for
from faults import Faults, descriptors
from python_models import ECHO, PID, ask, await_gone, children, infer, make_python, together, worker_of

pytestmark = pytest.mark.long

# Gives its process's number; while a file `hold` is in the model's directory, execute waits.
HOLDS = """
def initialize(self, args):
    self.directory = args["model_repository"]
def execute(self, requests):
    open(f"{self.directory}/entered", "w").close()
    while os.path.exists(f"{self.directory}/hold"):
        time.sleep(0.01)
    return [answer(np.full_like(value(request), os.getpid())) for request in requests]
"""


def threads(server):
    """But for those of jobs: one more is there for each job that once came before all others were back."""
    names = list(proc.threads(server.process.pid).values())
    return len(names) - names.count("job")


def zombies(server):
    return [pid for pid, state in children(server.process.pid).items() if state == "Z"]


def test_kill_under_load_costs_the_requests_under_way_and_no_others(start_server, repository):
    directory = make_python(repository, "victim", HOLDS)
    make_python(repository, "other")
    server = start_server(repository)
    first = worker_of(server, "victim")
    (directory / "entered").unlink()
    (directory / "hold").touch()
    replies = {}

    def request(name):
        replies[name] = ask(server, "victim")

    under_way = threading.Thread(target=request, args=["under way"])
    under_way.start()
    wait_for("execute", (directory / "entered").exists)
    queued = threading.Thread(target=request, args=["queued"])
    queued.start()
    failures = []
    stop = threading.Event()

    def go_on():
        while not stop.is_set():
            status, reply = ask(server, "other")
            if status != 200:
                failures.append(reply)

    others = threading.Thread(target=go_on)
    others.start()
    os.kill(first, signal.SIGKILL)
    under_way.join(DEADLINE)
    (directory / "hold").unlink()
    queued.join(DEADLINE)
    stop.set()
    others.join(DEADLINE)
    status, reply = replies["under way"]
    assert status == 500
    for text in ("Failed to process the request(s) for model instance 'victim_0_0', message: ",
                 "Stub process 'victim_0_0' is not healthy.", "model 'victim'", "SIGKILL", "not by the kernel"):
        assert text in reply["error"], reply
    assert replies["queued"][0] == 200
    assert not failures
    assert worker_of(server, "victim") != first
    assert proc.is_gone(first)


@pytest.mark.slow
def test_dozens_of_kills_leave_nothing_behind(start_server, repository):
    make_python(repository, "victim", PID)
    server = start_server(repository, flags=["--model-control-mode=explicit", "--load-model=*"])

    def kill_one():
        wait_for("a worker", lambda: ask(server, "victim")[0] == 200)
        pid = worker_of(server, "victim")
        os.kill(pid, signal.SIGKILL)
        await_gone(pid)

    # Pauses between starts grow with each kill, and are forgotten when the model is loaded anew.
    def reload():
        with triton.InferenceServerClient(server.url) as client:
            client.unload_model("victim")
            wait_for("the unload", lambda: not children(server.process.pid))
            client.load_model("victim")

    before = None
    for i in range(24):
        kill_one()
        if i % 4 == 0:
            kill_one()
        reload()
        if i == 3:
            worker_of(server, "victim")
            before = descriptors(server), threads(server)
    worker_of(server, "victim")
    wait_for("as few descriptors as before", lambda: descriptors(server) <= before[0])
    wait_for("as few threads as before", lambda: threads(server) <= before[1])
    assert not zombies(server)
    assert len(children(server.process.pid)) == 1
    for pid in (server.process.pid, worker_of(server, "victim")):
        assert "/dev/shm" not in proc.read(pid, "maps")
    server.stop()


ENDS = {
    "os._exit(3)": "it exited with status 3; it last printed: the last line",
    "sys.stderr.flush(); os.abort()": "it was ended by signal SIGABRT",
    "os.kill(os.getpid(), 11)": "it was ended by signal SIGSEGV",
}


def test_an_end_in_execute_is_told_with_its_cause(start_server, repository):
    body = "".join(f"    if value(requests[0])[0] == {i}: {code}\n" for i, code in enumerate(ENDS))
    make_python(repository, "ends", "def execute(self, requests):\n    print('the last line', file=sys.stderr)\n" + body
                + "    return [answer(value(r)) for r in requests]\n")
    server = start_server(repository)
    for i, expected in enumerate(ENDS.values()):
        status, reply = ask(server, "ends", [i])
        assert status == 500 and expected in reply["error"], reply
        wait_for("the next worker", lambda: ask(server, "ends", [9])[0] == 200)
    assert server.log.count("the Python worker ended") == len(ENDS)


def test_sys_exit_in_execute_is_an_exception_like_others(start_server, repository):
    make_python(repository, "exits", """
        def execute(self, requests):
            if value(requests[0])[0] == 0:
                sys.exit("enough")
            return [answer(value(r)) for r in requests]
        """)
    server = start_server(repository)
    status, reply = ask(server, "exits", [0])
    assert status == 500 and "enough" in reply["error"]
    wait_for("an answer", lambda: ask(server, "exits", [1])[0] == 200)


@pytest.mark.slow
def test_a_crash_loop_makes_the_model_unavailable_with_growing_pauses(start_server, repository):
    make_python(repository, "loop", "def execute(self, requests):\n    os._exit(1)\n")
    server = start_server(repository)
    statuses = []

    def crash():
        statuses.append(ask(server, "loop"))
        return statuses[-1][0] == 503

    wait_for("the model to be unavailable", crash)  # the pauses before are 7 s
    assert "is not healthy" in statuses[-1][1]["error"]
    (row,) = json.loads(server.ask("/v2/repository/index", b"{}").body)
    assert row["state"] == "UNAVAILABLE" and "'loop_0_0' is not healthy. It ended: it exited with status 1" in row["reason"]
    assert server.ask("/v2/models/loop/ready").status == 400
    wait_for("the pauses", lambda: server.log.count("the next one starts in ") == 5)
    pauses = [int(line.split("the next one starts in ")[1].split(" ")[0]) for line in server.log.splitlines()
              if "the next one starts in " in line]
    assert pauses == [0, 1, 2, 4, 8]


def test_a_restart_that_fails_is_tried_again(start_server, repository):
    directory = make_python(repository, "flaky", """
        def initialize(self, args):
            if os.path.exists(args["model_repository"] + "/broken"):
                raise RuntimeError("not today")
        """ + PID.replace("\n", "\n        "))
    server = start_server(repository)
    pid = worker_of(server, "flaky")
    (directory / "broken").touch()
    os.kill(pid, signal.SIGKILL)
    wait_for("the failed start", lambda: "not today" in server.log)
    assert ask(server, "flaky")[0] in (500, 503)
    (directory / "broken").unlink()
    wait_for("the next worker", lambda: ask(server, "flaky")[0] == 200)
    assert worker_of(server, "flaky") != pid


def test_open_requests_of_coroutines_fail_when_the_worker_dies(start_server, repository):
    directory = make_python(repository, "waits", """
        def initialize(self, args):
            self.directory, self.count = args["model_repository"], 0
        async def execute(self, requests):
            self.count += len(requests)
            if self.count == 5:
                open(f"{self.directory}/five", "w").close()
            if self.count == 6:
                os._exit(6)
            await __import__("asyncio").sleep(1000)
        """)
    server = start_server(repository)

    def one(i):
        if i == 5:
            wait_for("five under way", (directory / "five").exists)
        return ask(server, "waits", [i])

    replies = together(6, one)
    assert [status for status, _ in replies] == [500] * 6
    assert all("it exited with status 6" in reply["error"] for _, reply in replies)
    server.stop()  # while the next worker may be starting


def test_children_of_a_worker_end_with_it(start_server, repository):
    make_python(repository, "parent", """
        def execute(self, requests):
            import subprocess
            child = subprocess.Popen(["sleep", "1000"])
            return [answer(np.array([os.getpid(), child.pid], np.int32)) for _ in requests]
        """)
    server = start_server(repository)
    worker, child = map(int, infer(server, "parent"))
    os.kill(worker, signal.SIGKILL)
    wait_for("the worker's end to be seen", lambda: "the Python worker ended" in server.log)
    wait_for("the child's end", lambda: proc.has_ended(child))
    assert proc.is_gone(worker)
    wait_for("the next worker", lambda: ask(server, "parent")[0] == 200)
    _, child = map(int, infer(server, "parent"))
    server.stop()
    wait_for("the child's end", lambda: proc.has_ended(child))


def test_a_model_that_never_returns_does_not_hold_the_exit(start_server, repository):
    directory = make_python(repository, "endless", HOLDS)
    server = start_server(repository, flags=["--exit-timeout-secs=1"])
    pid = worker_of(server, "endless")
    (directory / "entered").unlink()
    (directory / "hold").touch()
    client = threading.Thread(target=lambda: pytest.raises(Exception, ask, server, "endless"))
    client.start()
    wait_for("execute", (directory / "entered").exists)
    server.process.send_signal(signal.SIGTERM)
    server.process.wait(DEADLINE)
    wait_for("the worker's end", lambda: proc.has_ended(pid))
    client.join(DEADLINE)


def test_an_initialize_that_never_returns_does_not_hold_the_exit(start_server, repository):
    make_python(repository, "endless", "def initialize(self, args):\n    print('begins')\n    time.sleep(1000)\n")
    server = start_server(repository, flags=["--exit-timeout-secs=1"], ready=False)
    wait_for("initialize", lambda: "begins" in server.log)
    pids = list(children(server.process.pid))
    assert pids
    server.process.send_signal(signal.SIGTERM)
    server.process.wait(DEADLINE)
    for pid in pids:
        wait_for("the worker's end", lambda: proc.has_ended(pid))


def test_a_finalize_that_never_returns_is_cut_off(start_server, repository):
    make_python(repository, "endless", ECHO + "\ndef finalize(self):\n    time.sleep(1000)\n")
    server = start_server(repository)  # stub-timeout-seconds as it is by default: a worker has as long to start
    assert infer(server, "endless").tolist() == [1]
    pids = list(children(server.process.pid))
    server.stop()
    assert all(map(proc.is_gone, pids)) and pids


@pytest.mark.slow
def test_megabytes_of_prints_hold_nobody_up(start_release, repository):
    make_python(repository, "loud", """
        def execute(self, requests):
            for _ in range(64):
                os.write(1, b"y" * (1 << 20))
            for _ in range(64):
                os.write(2, (b"z" * 99 + b"\\n") * 10000)
            return [answer(value(r)) for r in requests]
        """)
    make_python(repository, "quiet")
    server = start_release(repository)
    assert infer(server, "quiet").tolist() == [1]
    before = memory(server)
    loud = threading.Thread(target=infer, args=[server, "loud"])
    loud.start()
    asked = 0
    while loud.is_alive():
        assert infer(server, "quiet").tolist() == [1]
        asked += 1
    assert asked > 1
    assert memory(server) - before < 16 << 20
    wait_for("all lines", lambda: server.log.count("z" * 99) == 640000)
    assert max(map(len, server.log.splitlines())) < 9000


def memory(server):
    return proc.status(server.process.pid, "VmRSS") << 10


def test_a_server_that_is_killed_takes_its_workers_along(start_server, repository):
    directory = make_python(repository, "idle", PID, count=2)
    busy = make_python(repository, "busy", HOLDS)
    server = start_server(repository)
    worker_of(server, "busy")
    (busy / "entered").unlink()
    (busy / "hold").touch()
    client = threading.Thread(target=lambda: pytest.raises(Exception, ask, server, "busy"))
    client.start()
    wait_for("execute", (busy / "entered").exists)
    pids = list(children(server.process.pid))
    assert len(pids) == 3 and directory.exists()
    server.process.kill()
    server.process.wait()
    for pid in pids:
        wait_for("the worker's end", lambda: proc.has_ended(pid))
    client.join(DEADLINE)


# Root is not bound by limits of processes, so the limit is played: some processes or threads start, then none does. What fails
# first is a process with 4 and a thread with 9; with TSan, which keeps posix_spawn to itself, a thread.
@pytest.mark.parametrize("allowed", [4, 9])
def test_more_instances_than_processes_are_allowed_fail_the_load(start_server, repository, tmp_path, allowed):
    directory = make_python(repository, "many", count=8)
    shutil.move(directory, tmp_path / "many")
    faults = Faults(tmp_path / "control")
    python = tmp_path / "python"  # the faults are the server's, not the workers'
    python.write_text(f'#!/bin/sh\nunset LD_PRELOAD\nexec {ROOT}/.venv/bin/python "$@"\n')
    python.chmod(0o755)
    server = start_server(
        repository, variables=faults.variables,
        flags=["--model-control-mode=explicit", f"--backend-config=python,python-executable={python}"],
    )
    before = descriptors(server)
    shutil.move(tmp_path / "many", directory)
    faults.arm(["threads"], at=allowed, count=1000)
    reply = server.ask("/v2/repository/models/many/load", b"{}")
    assert faults.failed > 0
    assert reply.status == 400 and "Resource temporarily unavailable" in reply.text, reply.text
    faults.disarm()
    wait_for("the ends of those that did start", lambda: not children(server.process.pid))
    assert server.ask("/v2/repository/models/many/load", b"{}").status == 200
    assert infer(server, "many").tolist() == [1]
    assert server.ask("/v2/repository/models/many/unload", b"{}").status == 200
    wait_for("the unload", lambda: not children(server.process.pid))
    wait_for("as few descriptors as before", lambda: descriptors(server) <= before + 4)


@pytest.mark.slow
@pytest.mark.alone
def test_an_idle_worker_uses_no_processor(start_release, repository):
    make_python(repository, "idle", PID)
    server = start_release(repository)
    pid = worker_of(server, "idle")

    def used(process):
        return sum(int(text.split()[2]) for text in proc.of_threads(process, "schedstat").values())

    def in_a_while(seconds):
        """Times that worker and server are put on a processor."""
        before = used(pid), used(server.process.pid)
        time.sleep(seconds)
        return used(pid) - before[0], used(server.process.pid) - before[1]

    wait_for("what is given back after a second", lambda: in_a_while(1.5)[0] == 0)
    worker, own = in_a_while(3)
    assert worker == 0 and own < 20  # the server's own clocks


def test_replies_that_find_no_room_come_when_there_is_room(start_server, repository):
    signs = make_python(repository, "later", """
        def initialize(self, args):
            self.directory, self.senders = args["model_repository"], []
        def execute(self, requests):
            self.senders += [request.get_response_sender() for request in requests]
            if len(self.senders) == 1500:
                threading.Thread(target=self.finish).start()
        def finish(self):
            open(f"{self.directory}/all", "w").close()
            while not os.path.exists(f"{self.directory}/go"):
                time.sleep(0.01)
            for sender in self.senders[1:]:
                sender.send(flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)
            self.senders[0].is_cancelled()  # when it is answered, the server has dealt with what was before
            open(f"{self.directory}/sent", "w").close()
            self.senders[0].send(flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)
        """, more="model_transaction_policy { decoupled: true }")
    make_python(repository, "caller", """
        def initialize(self, args):
            with open(args["model_repository"] + "/pid", "w") as file:
                file.write(str(os.getpid()))
        def execute(self, requests):
            array = value(requests[0])
            calls = [pb_utils.InferenceRequest(model_name="later", inputs=[pb_utils.Tensor("IN", array)],
                                               requested_output_names=["OUT"]).exec(decoupled=True) for _ in range(1500)]
            return [answer(np.array([len(list(call)) for call in calls], np.int32))]
        """)
    server = start_server(repository)
    replies = []
    request = threading.Thread(target=lambda: replies.append(infer(server, "caller")))
    request.start()
    wait_for("the calls", (signs / "all").exists)
    worker = int((repository / "caller/pid").read_text())
    os.kill(worker, signal.SIGSTOP)
    (signs / "go").touch()
    wait_for("the replies", (signs / "sent").exists)
    os.kill(worker, signal.SIGCONT)
    request.join()
    assert replies[0].tolist() == [1] * 1500
