# SPDX-License-Identifier: Apache-2.0
"""A load that changes nothing but instance groups changes the instances of what serves (docs/repository.md)."""
import concurrent.futures
import json
import os
import re
import threading

import numpy as np
import pytest
import tritonclient.http as triton
from conftest import make_identity, wait_for
from http2 import pending
from python_models import infer, make_python, tensor
from python_sides import workers
from sequence_models import SUMS, http_client, make_sequences, step, values

EXPLICIT = ["--model-control-mode=explicit", "--load-model=*"]

# Each instance answers a number that is its own, so that it shows which of them are the same.
WHO = """
def initialize(self, args):
    self.who = int.from_bytes(os.urandom(3), "little")
    if os.path.exists(args["model_repository"] + "/refuse"):
        raise RuntimeError("no more of us")
def execute(self, requests):
    if "SLOW" in os.environ:
        time.sleep(0.05)
    return [answer(np.array([self.who], np.int32)) for _ in requests]
"""


def set_count(directory, count, more=""):
    config = directory / "config.pbtxt"
    text = config.read_text()
    head, _, tail = text.partition("instance_group")
    config.write_text(head + f"instance_group {{ count: {count} kind: KIND_CPU {more}}}" + tail[tail.index("}") + 1:])


def load(server, model, **body):
    return server.ask(f"/v2/repository/models/{model}/load", json.dumps(body).encode())


def groups(server, model):
    return json.loads(server.ask(f"/v2/models/{model}/config").body)["instance_group"]


def successes(server, model):
    return json.loads(server.ask(f"/v2/models/{model}/stats").body)["model_stats"][0]["inference_stats"]["success"]["count"]


def gone(server):
    """How many instances have gone, at once or late."""
    return sum(int(n) for n in re.findall(r"instances came, (\d+) went", server.log)) + server.log.count(WENT)


def answers(server, model, wanted):
    """Asks many at once, until `wanted` instances have answered; gives who they are."""
    seen = set()

    def some():
        with triton.InferenceServerClient(server.url, concurrency=8) as client:
            asked = [client.async_infer(model, [tensor(np.array([1], np.int32))]) for _ in range(16)]
            seen.update(int(answer.get_result().as_numpy("OUT")[0]) for answer in asked)
        return len(seen) >= wanted

    wait_for(f"{wanted} instances", some)
    return seen


def test_instances_come_and_go_and_the_others_stay(start_server, repository):
    directory = make_python(repository, "m", WHO)
    server = start_server(repository, flags=EXPLICIT, variables={"SLOW": "1"})
    one = answers(server, "m", 1)
    set_count(directory, 3)
    assert load(server, "m").status == 200
    three = answers(server, "m", 3)
    assert one < three and len(three) == 3
    assert groups(server, "m")[0]["count"] == 3
    before = successes(server, "m")
    set_count(directory, 1)
    assert load(server, "m").status == 200
    assert {int(infer(server, "m")[0]) for _ in range(20)} == one
    assert successes(server, "m") == before + 20
    assert server.log.count("loading: m:1") == 1


def test_a_new_instance_that_fails_leaves_the_old_ones(start_server, repository):
    directory = make_python(repository, "m", WHO)
    server = start_server(repository, flags=EXPLICIT)
    before = answers(server, "m", 1)
    (repository / "refuse").touch()
    set_count(directory, 2)
    (directory / "refuse").touch()  # is a change of the model's own directory, so that it is loaded whole
    failed = load(server, "m")
    assert (failed.status, "no more of us" in failed.text) == (400, True)
    assert answers(server, "m", 1) == before
    assert groups(server, "m")[0]["count"] == 1
    (directory / "refuse").unlink()
    assert load(server, "m").status == 200
    assert len(answers(server, "m", 2)) == 2


def test_instances_of_a_load_that_failed_leave_again(start_server, repository):
    """One version has them by the time that another fails; the configuration of before is no change, but they are."""
    directory = make_python(repository, "m", WHO, more="version_policy { all {} }")
    server = start_server(repository, flags=EXPLICIT)
    one = answers(server, "m", 1)
    before = (directory / "config.pbtxt").read_text()
    (directory / "2").mkdir()
    set_count(directory, 3)
    assert load(server, "m").status == 400
    (directory / "2").rmdir()
    (directory / "config.pbtxt").write_text(before)
    assert load(server, "m").status == 200
    assert groups(server, "m")[0]["count"] == 1
    assert {int(infer(server, "m")[0]) for _ in range(20)} == one


@pytest.mark.parametrize("before,after", [("", "dynamic_batching {}"), ("dynamic_batching {}", "dynamic_batching {}")])
def test_anything_else_that_changes_loads_it_again(start_server, repository, before, after):
    directory = make_identity(repository, "m", more=before)
    server = start_server(repository, flags=EXPLICIT)
    make_identity(repository, "m", more=after + "instance_group { count: 2 kind: KIND_CPU }")
    assert load(server, "m").status == 200
    assert server.log.count("loading: m:1") == (2 if before != after else 1)
    assert groups(server, "m")[0]["count"] == 2
    assert directory.exists()


@pytest.mark.slow
def test_no_request_is_lost_while_instances_come_and_go(start_server, repository):
    """Of a model that runs on the threads of connections when it can, too."""
    quick = make_identity(repository, "quick", more="instance_group { count: 1 kind: KIND_CPU }")
    slow = make_python(repository, "slow", WHO)
    server = start_server(repository, flags=EXPLICIT)
    over, failures, counts = threading.Event(), [], {"quick": 0, "slow": 0}

    def ask(model, *inputs):
        try:
            with triton.InferenceServerClient(server.url) as client:
                while not over.wait(0.002):  # leaves the processor to the instances that begin
                    client.infer(model, list(inputs))
                    counts[model] += 1
        except Exception as failure:
            failures.append(failure)

    quick_input = tensor(np.ones((1, 1), np.float32), "FP32", "INPUT0")
    threads = [threading.Thread(target=ask, args=("quick", quick_input)) for _ in range(3)]
    threads += [threading.Thread(target=ask, args=("slow", tensor(np.array([1], np.int32)))) for _ in range(2)]
    for thread in threads:
        thread.start()
    for count in (3, 1, 2, 4, 1):
        for model, directory in (("quick", quick), ("slow", slow)):
            set_count(directory, count)
            assert load(server, model).status == 200
            assert groups(server, model)[0]["count"] == count
            until = counts[model] + 20
            wait_for(f"more answers of {model}", lambda: failures or counts[model] > until)  # noqa: B023
    over.set()
    for thread in threads:
        thread.join()
    assert failures == []
    assert {model: successes(server, model) for model in counts} == counts
    assert server.log.count("loading: ") == 2


@pytest.fixture
def begin():
    """Begins a sequence of m while the test goes on; gives a Future of OUT's first element.

    The HTTP client's async_infer would not do: it sends only while the test waits for another of its requests.
    """
    threads = concurrent.futures.ThreadPoolExecutor(2)

    def begin(server, *numbers, sequence):
        def ask():
            with http_client(server) as client:
                return client.infer("m", [values(*numbers)], sequence_id=sequence, sequence_start=True).as_numpy("OUT").reshape(-1)[0]

        return threads.submit(ask)

    yield begin
    threads.shutdown(wait=False)  # the server ends later, and with it what still waits


@pytest.mark.parametrize("strategy", ["direct { }", "oldest { max_candidate_sequences: 1 }"], ids=["direct", "oldest"])
def test_sequences_go_on_while_instances_come(start_server, repository, begin, strategy):
    """Whoever waits for a slot gets one of the new instance."""
    directory = make_sequences(repository, strategy=strategy, max_batch_size=1, idle_us=10**9)
    server = start_server(repository, flags=EXPLICIT)
    with http_client(server) as client:
        assert step(client, 5, 1, start=True)[0] == 5
        waiting = begin(server, 3, sequence=2)
        wait_for("the backlog", lambda: pending(server) == 1)
        set_count(directory, 2)
        assert load(server, "m").status == 200
        assert waiting.result() == 3
        assert step(client, 2, 1)[0] == 7 and step(client, 1, 2)[0] == 4
        assert "model 'm' version 1: 1 instances came, 0 went" in server.log
        assert groups(server, "m")[0]["count"] == 2
        assert step(client, 1, 2, end=True)[0] == 5 and step(client, 9, 3, start=True)[0] == 9


def leave(server, directory, count=1):
    """A load after which instances go, but for those with sequences."""
    set_count(directory, count)
    assert load(server, "m").status == 200
    assert groups(server, "m")[0]["count"] == count
    assert server.log.count("loading: m:1") == 1


LATE = "instances go when their sequences have ended"
WENT = "went: its sequences have ended"


@pytest.mark.parametrize("strategy", ["direct { }", "oldest { max_candidate_sequences: 1 }"], ids=["direct", "oldest"])
def test_an_instance_goes_when_its_sequences_have_ended(start_server, repository, begin, strategy):
    """It takes no new one meanwhile, and what it has counted stays counted."""
    directory = make_sequences(repository, strategy=strategy, max_batch_size=1, idle_us=10**9, count=2)
    server = start_server(repository, flags=EXPLICIT)
    with http_client(server) as client:
        assert step(client, 5, 1, start=True)[0] == 5 and step(client, 7, 2, start=True)[0] == 7
        both = len(workers(server))
        leave(server, directory)
        assert f"model 'm' version 1: 1 {LATE}" in server.log
        assert step(client, 1, 1)[0] == 6 and step(client, 1, 2)[0] == 8
        waiting = begin(server, 3, sequence=3)
        wait_for("the backlog", lambda: pending(server) == 1)
        assert step(client, 9, 2, start=True)[0] == 9  # begins anew in its place
        assert step(client, 1, 2, end=True)[0] == 10
        wait_for("the end of the instance", lambda: server.log.count(WENT) == 1 and len(workers(server)) < both)
        assert pending(server) == 1 and successes(server, "m") == 6
        assert step(client, 1, 1, end=True)[0] == 7
        assert waiting.result() == 3
        assert step(client, 1, 3)[0] == 4
        assert successes(server, "m") == 9
        assert server.log.count(WENT) == 1


def test_an_instance_goes_when_its_last_sequence_is_idle_for_too_long(start_server, repository, begin):
    begins = f"def execute(self, requests):\n    open('{repository}/begun-' + self.name, 'w').close()"
    directory = make_sequences(repository, body=SUMS.replace("def execute(self, requests):", begins), max_batch_size=1, idle_us=50_000, count=2)
    server = start_server(repository, flags=EXPLICIT)
    with http_client(server) as client:
        under_way = [begin(server, n, 0, sequence=n) for n in (1, 2)]
        wait_for("both executions", lambda: len(list(repository.glob("begun-*"))) == 2)
        leave(server, directory)
        assert LATE in server.log and WENT not in server.log
        (directory / "1/go").touch()
        assert [answer.result() for answer in under_way] == [1, 2]
        wait_for("the end of the instance", lambda: WENT in server.log)
        assert step(client, 4, 4, start=True, end=True)[0] == 4


def test_an_unload_ends_instances_that_leave(start_server, repository):
    directory = make_sequences(repository, max_batch_size=1, idle_us=10**9, count=3)
    server = start_server(repository, flags=EXPLICIT)
    with http_client(server) as client:
        assert [step(client, n, n, start=True)[0] for n in (1, 2, 3)] == [1, 2, 3]
        leave(server, directory, 2)
        leave(server, directory, 1)
        assert server.log.count(LATE) == 2
        assert [step(client, 1, n)[0] for n in (1, 2, 3)] == [2, 3, 4]
        assert server.ask("/v2/repository/models/m/unload", b"{}").status == 200
        wait_for("the model's end", lambda: "successfully unloaded 'm'" in server.log and workers(server) == set())


def test_no_sequence_is_lost_while_instances_come_and_go(start_server, repository):
    directory = make_sequences(repository, strategy="oldest { max_candidate_sequences: 2 }", max_batch_size=2, idle_us=10**9)
    server = start_server(repository, flags=EXPLICIT)
    over, failures, counts = threading.Event(), [], [0] * 6

    def ask(who):
        try:
            with http_client(server) as client:
                while not over.is_set():
                    sums = [step(client, 1, who + 1, start=n == 0, end=n == 4)[0] for n in range(5)]
                    assert sums == [1, 2, 3, 4, 5]
                    counts[who] += 5
        except Exception as failure:
            failures.append(failure)

    threads = [threading.Thread(target=ask, args=(who,)) for who in range(len(counts))]
    for thread in threads:
        thread.start()
    for count in (3, 1, 2, 1, 3, 2, 1):
        leave(server, directory, count)
        before = list(counts)
        wait_for("more sequences", lambda: failures or all(n > b for n, b in zip(counts, before)))  # noqa: B023
    over.set()
    for thread in threads:
        thread.join()
    assert failures == []
    assert successes(server, "m") == sum(counts)
    wait_for("the end of those that left", lambda: gone(server) == 5)


def test_an_instance_that_does_not_come_leaves_sequences_as_they_are(start_server, repository):
    refuse = "def initialize(self, args):\n    if os.path.exists(args['model_repository'] + '/refuse'):\n        raise RuntimeError('no more of us')"
    directory = make_sequences(repository, body=SUMS.replace("def initialize(self, args):", refuse), max_batch_size=1, idle_us=10**9)
    server = start_server(repository, flags=EXPLICIT)
    with http_client(server) as client:
        assert step(client, 5, 1, start=True)[0] == 5
        set_count(directory, 2)
        (directory / "refuse").touch()
        answer = load(server, "m")
        assert answer.status == 400 and "no more of us" in answer.text
        assert step(client, 2, 1)[0] == 7
        (directory / "refuse").unlink()
        assert load(server, "m").status == 200
        assert step(client, 9, 2, start=True)[0] == 9 and step(client, 1, 1)[0] == 8
