"""Memory that runs out and system calls that fail, one site after another, while a server serves (test_faults_life.py: while
it starts and stops).

After each failure the process lives, the request has a well-formed answer or its connection is closed, and the next one is
answered exactly right. NEREID_FAULT_SITES=all fails every site (scripts/torture).
"""
import dataclasses
import errno
import json

import pytest
from conftest import make_identity
from fault_scenarios import MORE_FLAGS, SCENARIOS
from faults import SHORT, Faults, Tally, await_descriptors, await_quiet, descriptors, select
from safety import instances

FLAGS = ["--model-control-mode=explicit", "--load-model=*", "--http-thread-count=2", "--allow-client-shm=true"]
SITES = 25
CALLS = 6  # instead, where each call counts and not each site
FOR_EVER = 1 << 40


@dataclasses.dataclass
class Kind:
    """What fails and how."""

    sets: list
    error: int = 0  # 0: what fits each call
    by_site: bool = True  # each stack once, or the calls by their numbers
    count: int = 1  # so many calls from then on
    harmless: bool = False  # the client notices nothing
    scenarios: tuple = tuple(SCENARIOS)


READING = ("metrics", "index", "reload", "unload", "load-override", "load-failure", "load-wide", "load-onnx")
TRANSFERS = ("infer-fp32-large", "infer-binary", "infer-gzip", "infer-chunked", "infer-kept", "generate", "metrics", "refused", "reload", "load-onnx")
# A refusal does not wait for a client whose buffers are full: that may cost its connection.
PATIENT = tuple(name for name in TRANSFERS if name != "refused")

KINDS = {
    "memory": Kind(["memory"]),
    "no more memory": Kind(["memory"], by_site=False, count=FOR_EVER),
    "calls": Kind(["accept", "epoll", "descriptors", "files", "map", "threads", "net"]),
    "input-output": Kind(["read", "write", "files"], errno.EIO, scenarios=READING),
    "interrupted": Kind(["accept", "wait", "read", "write"], errno.EINTR, False, harmless=True, scenarios=TRANSFERS),
    "short": Kind(["read", "write"], SHORT, False, harmless=True, scenarios=TRANSFERS),
    "again": Kind(["accept", "read", "write"], errno.EAGAIN, False, harmless=True, scenarios=PATIENT),
    "reset": Kind(["read", "write"], errno.ECONNRESET, False, scenarios=TRANSFERS),
}


class Torture:
    """One server in which one thing after another fails while a scenario acts."""

    def __init__(self, start_server, repository, faults, scenario):
        self.faults, self.scenario = faults, scenario
        self.act = SCENARIOS[scenario](repository)
        self.server = start_server(repository, flags=[*FLAGS, *MORE_FLAGS.get(scenario, [])], variables=faults.variables)
        self.replies = self.act(self.server) + self.act(self.server)
        self.open_before = descriptors(self.server)

    def find_stacks(self, kind):
        """The stacks of all calls while all goes well, in order."""
        for _ in range(2):  # the second time nothing is made that stays
            self.faults.arm(kind.sets)
            self.expect_right("without a failure")
            await_quiet(self.faults)
            self.faults.disarm()
        return list(self.faults.stacks())

    def expect_right(self, when):
        replies = self.act(self.server)
        self.replies += replies
        assert all(reply.is_right() for reply in replies), f"{when}: {replies}"

    def fail(self, kind, **plan):
        """Acts with a failure (`plan`: see Faults.arm), and once more without."""
        log_size = len(self.server.log)
        self.faults.arm(kind.sets, error=kind.error, count=kind.count, **plan)
        try:
            replies = self.act(self.server)
            await_quiet(self.faults)
        except TimeoutError:
            replies = None
        finally:
            self.faults.disarm()
        assert replies is not None, f"no answer: {plan} at {self.faults.where()}"
        self.replies += replies
        told = f"{plan} at {self.faults.where()}\nthen {replies}\n{self.server.log[log_size:]}"
        assert self.server.process.poll() is None, f"the server ended after {told}"
        assert all(reply.is_right() if kind.harmless else reply.is_fair() for reply in replies), told
        self.expect_right(f"the next time, after {told}")

    def fail_each(self, name):
        """One site or call after the other; what goes wrong is told at the end, all together."""
        kind = KINDS[name]
        stacks = self.find_stacks(kind)
        if kind.by_site:
            plans = [{"at": 1, "stack": stack} for stack in dict.fromkeys(stacks)]
        else:
            plans = [{"at": at} for at in range(1, len(stacks) + 1)]
        tally = Tally(self.scenario, name, len(plans))
        for plan in select(plans, SITES if kind.by_site else CALLS):
            tally.run(self.faults, lambda: self.fail(kind, **plan))
            if self.server.process.poll() is not None:
                break
        tally.finish()

    def finish(self):
        await_descriptors(self.server, self.open_before)
        if self.scenario.startswith("infer"):
            self.check_counters()
        self.server.stop()

    def check_counters(self):
        """Each request is counted that was answered, none twice, and none is thought to be inside."""
        for model in json.loads(self.server.ask("/v2/models/stats").body)["model_stats"]:
            counted = model["inference_stats"]["success"]["count"]
            lost = sum(reply.answer is None or reply.answer[0] in (500, 503) for reply in self.replies)
            answered = sum(reply.answer is not None and reply.answer[0] == 200 for reply in self.replies)
            assert answered <= counted <= answered + lost, f"{counted} counted, {answered} answered, {lost} lost"
        text = self.server.ask("/metrics", port=self.server.metrics_port).text
        pending = [line for line in text.splitlines() if line.startswith("nv_inference_pending_request_count{")]
        assert pending and all(line.endswith(" 0") for line in pending), pending


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_a_server_outlives_each_failure(start_server, repository, tmp_path, scenario):
    torture = Torture(start_server, repository, Faults(tmp_path / "faults"), scenario)
    for name, kind in KINDS.items():
        if scenario in kind.scenarios:
            torture.fail_each(name)
    torture.finish()


@pytest.mark.parametrize("failing", [1, 2])
def test_an_instances_thread_that_cannot_start_is_told_and_comes_with_the_next_request(start_server, repository, tmp_path, failing):
    faults = Faults(tmp_path / "faults")
    make_identity(repository, "m", more="instance_group { count: 2 }")
    server = start_server(repository, flags=FLAGS, variables=faults.variables)
    body = json.dumps({"inputs": [{"name": "INPUT0", "shape": [1, 1], "datatype": "FP32", "data": [7]}]}).encode()
    assert instances(server) == []
    faults.arm(["threads"], at=failing)
    refused = server.ask("/v2/models/m/infer", body)
    assert faults.failed == 1
    faults.disarm()
    assert refused.status == 503 and "failed to start thread 'm_0_%d'" % (failing - 1) in refused.text
    assert len(instances(server)) == failing - 1
    assert server.ask("/v2/models/m/infer", body).status == 200
    assert instances(server) == ["m_0_0", "m_0_1"]
    server.stop()
