# SPDX-License-Identifier: Apache-2.0
"""Requests that a worker is given before it has answered those before: ends, order, times, and who waits for a turn.

How short executions must be for that is a matter of the machine (`hand-ahead-us`), so here they may take ten minutes.
"""
import json
import os
import signal
import threading

import numpy as np
import pytest
from conftest import PATIENCE, make_identity, wait_for
from oracle import Counters
from python_models import ask, await_gone, children, infer, make_python
from safety import on_threads
from wire import connect

MOST = 8  # that a worker is given
AHEAD = ["--backend-config=python,hand-ahead-us=600000000"]

# Tells the number that it was given, and stays there while the test holds that number.
HOLDS = """
def initialize(self, args):
    self.directory, self.took = args["model_repository"], 0.0
def execute(self, requests):
    began = time.monotonic()
    number = int(value(requests[0]).flat[0])
    with open(f"{self.directory}/entered", "a") as file:
        file.write(f"{number} ")
    while os.path.exists(f"{self.directory}/hold-{number}"):
        time.sleep(0.005)
    result = self.result(requests, number)
    self.took += time.monotonic() - began
    with open(f"{self.directory}/took", "w") as file:
        file.write(str(self.took))
    return [answer(np.full_like(value(request), result)) for request in requests]
def result(self, requests, number):
    return number
"""


class Crowd:
    """Requests 0, 1, 2, … of a model of HOLDS. 0 is held until the others wait. It is the model's first one, so that nothing
    is handed over behind it; when it is let go the worker is given as many as there can be."""

    def __init__(self, start_server, repository, code="", flags=AHEAD, **model):
        self.directory = make_python(repository, "crowd", HOLDS + code, **model)
        self.server = start_server(repository, flags=flags)
        (self.worker,) = children(self.server.process.pid)
        self.replies, self.threads = {}, {}
        self.shape = [1, 1] if "max_batch_size" in model else [1]

    def entered(self):
        path = self.directory / "entered"
        return list(map(int, path.read_text().split())) if path.exists() else []

    def pending(self):
        return Counters.of(self.server)["crowd"]["pending"]

    def hold(self, number):
        (self.directory / f"hold-{number}").touch()

    def let_go(self, number):
        (self.directory / f"hold-{number}").unlink()

    def body(self, number):
        return json.dumps({"inputs": [{"name": "IN", "datatype": "INT32", "shape": self.shape, "data": [number]}]}).encode()

    def ask(self, number):
        reply = self.server.ask("/v2/models/crowd/infer", self.body(number))
        self.replies[number] = reply.status, json.loads(reply.body)

    def send(self, number):
        self.threads[number] = threading.Thread(target=self.ask, args=[number])
        self.threads[number].start()

    def queue(self, numbers):
        before = self.pending()
        for sent, number in enumerate(numbers, 1):
            self.send(number)
            wait_for("one more in the queue", lambda: self.pending() == before + sent)

    def begin(self):
        self.hold(0)
        self.send(0)
        wait_for("the first one", lambda: self.entered() == [0])

    def gather(self, count, held=()):
        self.begin()
        self.queue(range(1, count))
        for number in held:
            self.hold(number)
        self.let_go(0)

    def join(self):
        for thread in self.threads.values():
            thread.join(PATIENCE)
        return [self.replies[number] for number in sorted(self.threads)]

    def values(self):
        return [reply["outputs"][0]["data"][0] if status == 200 else reply for status, reply in self.join()]

    def kill(self):
        os.kill(self.worker, signal.SIGKILL)
        await_gone(self.worker)


def test_a_kill_fails_those_that_the_worker_was_given_and_no_others(start_server, repository):
    crowd = Crowd(start_server, repository)
    waiting = 3
    crowd.gather(1 + MOST + waiting, held=[1])
    wait_for("as many with the worker as there can be", lambda: crowd.entered() == [0, 1] and crowd.pending() == waiting)
    crowd.kill()
    crowd.let_go(1)
    replies = crowd.join()
    statuses = [status for status, _ in replies]
    assert statuses[:MOST] == [200] + [500] * (MOST - 1)  # who left the queue last may not have come to the worker yet
    assert statuses[MOST + 1:] == [200] * waiting
    for _, reply in replies[1:MOST]:
        for text in ("Failed to process the request(s) for model instance 'crowd_0_0', message: ",
                     "Stub process 'crowd_0_0' is not healthy.", "SIGKILL"):
            assert text in reply["error"], reply
    wait_for("its line", lambda: "the Python worker ended" in crowd.server.log)
    assert crowd.server.log.count("the Python worker ended") == 1
    counted = Counters.of(crowd.server)["crowd"]
    assert (counted["success"], counted["failed"], counted["pending"]) == (statuses.count(200), statuses.count(500), 0)


def test_with_a_setting_of_zero_a_kill_fails_only_what_is_executed(start_server, repository):
    crowd = Crowd(start_server, repository, flags=["--backend-config=python,hand-ahead-us=0"])
    crowd.gather(5, held=[1])
    wait_for("the second one", lambda: crowd.entered() == [0, 1])
    assert crowd.pending() == 3
    crowd.kill()
    crowd.let_go(1)
    assert [status for status, _ in crowd.join()] == [200, 500, 200, 200, 200]


def test_an_end_of_its_own_in_a_crowd_fails_those_behind_and_the_next_worker_goes_on(start_server, repository):
    crowd = Crowd(start_server, repository, code="""
def result(self, requests, number):
    return os._exit(3) if number == 3 else number
""")
    crowd.gather(3 * MOST)
    replies = crowd.join()
    statuses = [status for status, _ in replies]
    assert statuses[:4] == [200, 200, 200, 500] and statuses[-MOST:] == [200] * MOST
    failed = [reply["error"] for status, reply in replies if status == 500]
    assert 1 <= len(failed) <= MOST and all("it exited with status 3" in text for text in failed)
    wait_for("its line", lambda: "the Python worker ended" in crowd.server.log)
    assert crowd.server.log.count("the Python worker ended") == 1


def test_requests_are_executed_one_at_a_time_in_their_order(start_server, repository):
    crowd = Crowd(start_server, repository, code="""
def execute(self, requests, once=execute, inside=[]):
    assert len(requests) == 1 and not inside
    inside.append(1)
    responses = once(self, requests)
    inside.clear()
    return responses
""")
    count = 3 * MOST
    crowd.gather(count)
    assert crowd.values() == crowd.entered() == list(range(count))


def test_batches_are_not_taken_early(start_server, repository):
    crowd = Crowd(start_server, repository, max_batch_size=2, more="dynamic_batching { }")
    crowd.gather(4, held=[1])  # 1 and 2 come together, 3 is left
    wait_for("the second batch", lambda: crowd.entered() == [0, 1])
    crowd.queue([4])  # 3 has not been taken, or they could not come together
    assert crowd.pending() == 2
    crowd.let_go(1)
    assert crowd.values() == [0, 1, 1, 3, 3]  # each has the first number of its batch


@pytest.mark.alone
def test_the_time_with_the_worker_before_execute_is_queue_time(start_server, repository):
    crowd = Crowd(start_server, repository, code="""
def result(self, requests, number):
    time.sleep(0.1)
    return number
""")
    behind = MOST - 1
    crowd.gather(2 + behind)
    assert crowd.values() == list(range(2 + behind))
    stats = json.loads(crowd.server.ask("/v2/models/crowd/stats").body)["model_stats"][0]["inference_stats"]
    seconds = {name: stats[name]["ns"] / 1e9 for name in ("success", "queue", "compute_input", "compute_infer", "compute_output")}
    # The n-th of those behind waits for n others that take 0.1 s: all these waits are 2.8 s.
    waits = sum(range(1, behind + 1)) * 0.1
    took = float((crowd.directory / "took").read_text())
    assert seconds["queue"] >= waits
    assert took <= seconds["compute_infer"] < took + waits / 2
    assert seconds["compute_input"] < waits / 2
    assert sum(seconds.values()) - seconds["success"] <= seconds["success"]


def test_a_request_that_waits_with_the_worker_can_be_cancelled(start_server, repository):
    crowd = Crowd(start_server, repository, code="""
def result(self, requests, number):
    while number == 2 and not requests[0].is_cancelled():
        time.sleep(0.005)
    return number
""")
    with connect(crowd.server) as client:
        crowd.begin()
        crowd.queue([1])
        body = crowd.body(2)
        client.sendall(b"POST /v2/models/crowd/infer HTTP/1.1\r\nHost: h\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
        wait_for("the one that goes", lambda: crowd.pending() == 2)
        crowd.queue([3])
        crowd.hold(1)
        crowd.let_go(0)
        wait_for("all with the worker", lambda: crowd.entered() == [0, 1] and crowd.pending() == 0)
    crowd.let_go(1)
    assert crowd.values() == [0, 1, 3]
    assert crowd.entered() == [0, 1, 2, 3]


def test_a_first_call_goes_on_with_others_behind_it(start_server, repository):
    make_identity(repository, "callee", type="TYPE_INT32", max_batch_size=0)
    crowd = Crowd(start_server, repository, code="""
def result(self, requests, number):
    if number == 0:
        return number
    called = pb_utils.InferenceRequest(model_name="callee", requested_output_names=["OUTPUT0"],
                                       inputs=[pb_utils.Tensor("INPUT0", np.array([number + 100], np.int32))])
    response = called.exec()
    if response.has_error():
        raise pb_utils.TritonModelException(response.error().message())
    return pb_utils.get_output_tensor_by_name(response, "OUTPUT0").as_numpy()[0]
""")
    count = 1 + MOST + 3
    crowd.gather(count)
    assert crowd.values() == [0] + [number + 100 for number in range(1, count)]
    assert crowd.entered() == [*range(count)]


def test_a_call_of_a_model_by_itself_is_told_of_the_circle_with_others_behind_it(start_server, repository):
    crowd = Crowd(start_server, repository, code="""
def result(self, requests, number):
    if number == 0:
        return number
    called = pb_utils.InferenceRequest(model_name="crowd", requested_output_names=["OUT"],
                                       inputs=[pb_utils.Tensor("IN", np.array([0], np.int32))])
    response = called.exec()
    return -1 if "crowd (version 1) -> crowd (version 1);" in response.error().message() else 0
""")
    count = 1 + MOST + 3
    crowd.gather(count)
    assert crowd.values() == [0] + [-1] * (count - 1)
    assert crowd.entered() == [*range(count)]


def test_a_question_for_readiness_gets_its_turn_in_a_crowd(start_server, repository):
    make_python(repository, "crowd", """
        def is_ready(self):
            return True
        def execute(self, requests):
            time.sleep(0.02)
            return [answer(value(request)) for request in requests]
        """)
    server = start_server(repository, flags=AHEAD)
    is_asked = threading.Event()
    asked = []

    def work(number):
        while number > 0 and not is_asked.is_set():  # so many that the worker always has work
            assert ask(server, "crowd", [number])[0] == 200
        try:
            asked.extend(server.ask("/v2/models/crowd/ready").status for _ in range(10) if number == 0)
        finally:
            is_asked.set()

    on_threads(2 * MOST, work)
    assert asked == [200] * 10


def test_a_coroutine_and_a_sender_answer_behind_others(start_server, repository):
    crowd = Crowd(start_server, repository, code="""
def execute(self, requests, once=execute):
    number = int(value(requests[0])[0])
    if number % 3 == 0:
        return once(self, requests)
    sender, (response,) = requests[0].get_response_sender(), once(self, requests)
    if number % 3 == 1:
        sender.send(response, pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)
        return [None]
    async def later():
        sender.send(response, pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)
    return later()
""")
    count = 2 * MOST
    crowd.gather(count)
    assert crowd.values() == list(range(count))


def test_two_instances_share_what_waits(start_server, repository):
    make_python(repository, "two", """
        def execute(self, requests):
            return [answer(np.full_like(value(request), os.getpid())) for request in requests]
        """, count=2)
    server = start_server(repository, flags=AHEAD)
    workers = set(children(server.process.pid))
    seen = []
    on_threads(8, lambda _: seen.extend(int(infer(server, "two")[0]) for _ in range(40)))
    assert len(seen) == 320 and set(seen) == workers
