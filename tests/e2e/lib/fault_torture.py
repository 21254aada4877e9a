# SPDX-License-Identifier: Apache-2.0
"""Torture: a server that serves while one thing after another fails (test_faults.py, test_faults_loads.py).

After each failure the process lives, the request has a well-formed answer or its connection is closed, and the next one is
answered exactly right. NEREID_FAULT_SITES=all fails every site (scripts/torture).
"""
import dataclasses
import errno
import json

from conftest import BUILD
from fault_scenarios import LOADS, MORE_FLAGS, SCENARIOS
from faults import SHORT, Tally, Unanswered, await_descriptors, await_quiet, descriptors, select, telling, threads

FLAGS = ["--model-control-mode=explicit", "--load-model=*", "--http-thread-count=2", "--allow-client-shm=true"]
SITES = 25
MORE_SITES = {"instances": 125} if BUILD.name == "asan" else {}  # nearly all: few of them could exchange instances
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


READING = ("metrics", "index", "reload", "instances", "unload", "load-override", "load-failure", "load-wide", "load-agents", "load-warm", "load-isolated", "load-onnx")
TRANSFERS = ("infer-fp32-large", "infer-binary", "infer-gzip", "infer-chunked", "infer-kept", "generate", "metrics", "refused", "reload", "load-onnx")
# A refusal does not wait for a client whose buffers are full: that may cost its connection.
PATIENT = tuple(name for name in TRANSFERS if name != "refused")

KINDS = {
    "memory": Kind(["memory"]),
    # A stream that has begun cannot be ended with an error when there is no memory for one.
    "no more memory": Kind(["memory"], by_site=False, count=FOR_EVER, scenarios=tuple(name for name in SCENARIOS if name != "ensemble-stream")),
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
        self.replies = self.act(self.server)
        loaded = self.server.log.count("loading: ")
        self.replies += self.act(self.server)
        assert (self.server.log.count("loading: ") > loaded) == (scenario in LOADS), self.server.log
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
        try:
            replies = self.act(self.server)
        except TimeoutError:
            raise Unanswered(f"no answer {when}\n{threads(self.server)}") from None
        self.replies += replies
        assert all(reply.is_right() for reply in replies), f"{when}: {replies}"

    def fail(self, kind, **plan):
        """Acts with a failure (`plan`: see Faults.arm), and once more without."""
        log_size = len(self.server.log)
        self.faults.arm(kind.sets, error=kind.error, count=kind.count, **plan)
        try:
            replies = self.act(self.server)
            await_quiet(self.faults)
        except (TimeoutError, Unanswered) as failure:
            raise Unanswered(f"{failure}: {plan} at {self.faults.where()}\n{threads(self.server)}") from None
        finally:
            self.faults.disarm()
        self.replies += replies
        with telling(lambda: f"after {plan} at {self.faults.where()}\nthen {replies}\n{self.server.log[log_size:]}"):
            assert self.server.process.poll() is None, "the server ended"
            assert all(reply.is_right() if kind.harmless else reply.is_fair() for reply in replies), "a wrong reply"
            self.expect_right("the next time")

    def fail_each(self, name):
        """One site or call after the other; what goes wrong is told at the end, all together."""
        kind = KINDS[name]
        stacks = self.find_stacks(kind)
        if kind.by_site:
            plans = [{"at": 1, "stack": stack} for stack in dict.fromkeys(stacks)]
        else:
            plans = [{"at": at} for at in range(1, len(stacks) + 1)]
        tally = Tally(self.scenario, name, len(plans))
        for plan in select(plans, MORE_SITES.get(self.scenario, SITES) if kind.by_site else CALLS):
            tally.run(self.faults, lambda: self.fail(kind, **plan))
            if self.server.process.poll() is not None or tally.unanswered:
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

    def fail_all(self):
        for name, kind in KINDS.items():
            if self.scenario in kind.scenarios:
                self.fail_each(name)
        self.finish()
