# SPDX-License-Identifier: Apache-2.0
"""Memory that runs out, and calls of the system and of a GPU's driver that fail, one after another, while a server infers on a GPU
with a client's region (the driver is played, gpus.py; test_faults.py does the rest).
"""
import base64
import json
import re
import struct

import pytest
from conftest import make_identity, wait_for
from ensembles import chain, make_ensemble
from fault_replies import ask, gives_back, json_body, ok
from fault_scenarios import SCENARIOS
from fault_torture import FLAGS, Torture
from faults import Faults
from gpus import HELD, Client, fake_gpus
from test_gpu_identity import first_look

pytestmark = pytest.mark.slow

BASE = "/v2/cudasharedmemory"
ON_GPU = "instance_group { kind: KIND_GPU }"
COUNT = 5000
SIZE = 4 * COUNT
DATA = [float(i) for i in range(COUNT)]
NAMED = re.compile(r"INPUT0|OUTPUT0|region '?r'?\b|regions: r ,|model '?[abe]'?\b|GPU 0")  # what an error says of where it was
MOST = 3  # calls of one function by one request


class Region:
    """A client's memory: the tensor, and behind it where the output goes."""

    def __init__(self, process):
        self.process = process
        self.base = process.allocate(2 * SIZE)
        self.handle = base64.b64encode(process.handle(self.base)).decode()
        self.tensor = struct.pack(f"={COUNT}f", *DATA)
        process.write(self.base, self.tensor)

    def clear(self):
        self.process.write(self.base + SIZE, bytes(SIZE))

    def is_written(self):
        return self.process.read(self.base + SIZE, SIZE) == self.tensor


def make_models(repository):
    """Two models on the GPU, and an ensemble of them."""
    for name in "ab":
        make_identity(repository, name, more=ON_GPU)
    make_ensemble(repository, "e", chain("a", "b"))


def steps(region):
    """By name: what asks. Each needs those before, and what it makes of the region is right when it says so."""
    registration = json.dumps({"raw_handle": {"b64": region.handle}, "device_id": 0, "byte_size": 2 * SIZE}).encode()
    place = {"shared_memory_region": "r", "shared_memory_byte_size": SIZE}
    inference = json.dumps({
        "inputs": [{"name": "INPUT0", "shape": [1, COUNT], "datatype": "FP32", "parameters": place}],
        "outputs": [{"name": "OUTPUT0", "parameters": place | {"shared_memory_offset": SIZE}}]}).encode()
    written = lambda status, *_: status == 200 and region.is_written()  # noqa: E731
    body = json_body(DATA, "FP32")

    def in_region(server):
        region.clear()
        return ask(server, written, "/v2/models/a/infer", inference)

    return {
        "register": lambda server: ask(server, ok, f"{BASE}/region/r/register", registration),
        "infer": in_region,
        "ensemble": lambda server: ask(server, gives_back(DATA), "/v2/models/e/infer", body),
        "unregister": lambda server: ask(server, ok, f"{BASE}/unregister", b""),
    }


def take(server, steps, end=None):
    """All of them, or those before `end`, until one fails; a region that was left by a failure goes first."""
    replies = [steps["unregister"](server)]
    for name, step in steps.items():
        if name == end or not replies[-1].is_right():
            break
        replies.append(step(server))
    return replies


@pytest.fixture
def gpus(tmp_path):
    return fake_gpus(tmp_path)


@pytest.fixture
def region(gpus):
    with Client(gpus) as process:
        yield Region(process)


@pytest.fixture
def start(start_server, gpus):
    return lambda models, flags, variables: start_server(models, flags=flags, variables=gpus.variables | variables)


def held(gpus, server):
    """What the server has of the driver."""
    return {name: count for name, count in gpus.counters(server.process.pid).items() if HELD.match(name)}


def load_steps():
    """The device has nobody when they are loaded; the reply is the first that is wrong, else the last."""

    def change(what, models):
        def act(server):
            for model in models:
                reply = ask(server, ok, f"/v2/repository/models/{model}/{what}", b"{}")
                if not reply.is_right():
                    break
            return reply

        return act

    return {"unload": change("unload", "eba"), "load": change("load", "abe")}


@pytest.mark.parametrize("scenario", ["gpu", "gpu-loads"])
def test_a_server_outlives_each_failure_on_a_gpu(start, repository, tmp_path, monkeypatch, gpus, region, scenario):
    all_steps = steps(region) if scenario == "gpu" else load_steps() | steps(region)
    make_models(repository)
    monkeypatch.setitem(SCENARIOS, scenario, lambda _: lambda server: take(server, all_steps))
    monkeypatch.setattr("fault_torture.LOADS", ("gpu-loads",))
    torture = Torture(start, repository, Faults(tmp_path / "faults"), scenario)
    first_look(gpus)
    kept = held(gpus, torture.server)
    for name in ("memory", "no more memory", "calls"):
        torture.fail_each(name)
    wait_for("what was held before", lambda: held(gpus, torture.server) == kept)
    torture.finish()


def assert_all_right(replies, told):
    assert all(reply.is_right() for reply in replies), f"{told}: {replies}"


def calls_of(gpus, server, step):
    """How often which function is called."""
    before = gpus.counters(server.process.pid)
    assert_all_right([step(server)], "without a failure")
    done = gpus.counters(server.process.pid).since(before)
    return {function: count for function, count in done.items() if function.startswith("cu") and count > 0}


def fail_each_call(gpus, server, step, before, after):
    """Of a step's calls of the driver one after the other; gives how many failed it. `before` and `after` say what is right each time."""
    failed = 0
    before("at first")
    for function, count in calls_of(gpus, server, step).items():
        for at in range(1, min(count, MOST) + 1):
            told = f"call {at} of {function}"
            before(told)
            gpus.fault(function, 1, at=at)
            reply = step(server)
            gpus.heal()
            if not reply.is_right():
                failed += 1
                status, _, body = reply.answer
                assert status >= 400 and NAMED.search(json.loads(body)["error"]), f"{told}: {reply}"
            after(told)
    return failed


@pytest.mark.parametrize("name", ["register", "infer", "ensemble", "unregister"])
def test_a_call_of_the_driver_that_fails_fails_its_request_by_name_and_no_other(start, repository, gpus, region, name):
    all_steps = steps(region)
    make_models(repository)
    server = start(repository, FLAGS, {})
    first_look(gpus)
    for _ in range(2):  # the second time nothing is made that stays
        assert_all_right(take(server, all_steps), "without a failure")
    kept = held(gpus, server)

    def after(told):
        assert_all_right(take(server, all_steps), f"after {told}")
        if name != "unregister":  # what the driver does not take back stays
            wait_for(f"what was held before {told}", lambda: held(gpus, server) == kept)

    assert fail_each_call(gpus, server, all_steps[name], lambda told: assert_all_right(take(server, all_steps, name), told), after) > 1
    server.stop()


@pytest.mark.parametrize("what", ["load", "unload"])
def test_a_call_of_the_driver_that_fails_while_models_come_or_go_harms_no_later_one(start, repository, gpus, region, what):
    change, infer = load_steps(), steps(region)["ensemble"]
    make_models(repository)
    server = start(repository, FLAGS, {})

    def serve(told):
        assert_all_right([change["load"](server), infer(server)], told)

    def go(told):
        assert_all_right([change["unload"](server)], told)
        wait_for(f"nothing that is held: {told}", lambda: not any(held(gpus, server).values()))

    if what == "load":
        assert fail_each_call(gpus, server, change["load"], go, serve) > 1
    else:  # what the driver does not take back stays
        fail_each_call(gpus, server, change["unload"], serve, serve)
    server.stop()
