"""Memory that runs out and system calls that fail, one site after another, while a server serves (test_faults_life.py: while
it starts and stops).

After each failure the process lives, the request has a well-formed answer or its connection is closed, and the next one is
answered exactly right. NEREID_FAULT_SITES=all fails every site (scripts/torture).
"""
import errno
import json

import pytest
from fault_scenarios import SCENARIOS
from faults import SHORT, Faults, Tally, await_descriptors, await_quiet, descriptors, select

# What fails: sets, errno (0: what fits each call).
KINDS = {
    "memory": (["memory"], 0),
    "calls": (["accept", "epoll", "descriptors", "files", "map", "threads", "net"], 0),
    "interrupted": (["accept", "wait", "read", "write"], errno.EINTR),
    "short": (["read", "write"], SHORT),
    "again": (["accept", "read", "write"], errno.EAGAIN),
    "reset": (["read", "write"], errno.ECONNRESET),
    "input-output": (["read", "write", "files"], errno.EIO),
}
FLAGS = ["--model-control-mode=explicit", "--load-model=*", "--http-thread-count=2"]
SITES = 25
LONG_SITES = 8  # where a failure lasts, or is of a call and not of a site
TRANSFERS = [
    "infer-fp32-large", "infer-binary", "infer-gzip", "infer-chunked", "infer-kept", "metrics", "refused", "reload", "load-onnx",
]


@pytest.fixture
def faults(tmp_path):
    return Faults(tmp_path / "faults")


class Torture:
    """One server in which one thing after another fails while a scenario acts."""

    def __init__(self, start_server, repository, faults, scenario, kind):
        self.faults, self.scenario, self.kind = faults, scenario, kind
        self.sets, self.error = KINDS[kind]
        self.act = SCENARIOS[scenario](repository)
        self.server = start_server(repository, flags=FLAGS, variables=faults.variables)
        self.replies = self.act(self.server) + self.act(self.server)
        self.open_before = descriptors(self.server)
        self.stacks = self.find_stacks()

    def find_stacks(self):
        """The stacks of all calls while all goes well, in order."""
        for _ in range(2):  # the second time nothing is made that stays
            self.faults.arm(self.sets)
            self.expect_right("without a failure")
            await_quiet(self.faults)
            self.faults.disarm()
        return list(self.faults.stacks())

    def expect_right(self, when):
        replies = self.act(self.server)
        self.replies += replies
        assert all(reply.is_right() for reply in replies), f"{when}: {replies}"

    def fail(self, always_right=False, **plan):
        """Acts with a failure (`plan`: see Faults.arm), and once more without."""
        log_size = len(self.server.log)
        self.faults.arm(self.sets, error=self.error, **plan)
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
        assert all(reply.is_right() if always_right else reply.is_fair() for reply in replies), told
        self.expect_right(f"the next time, after {told}")

    def fail_each(self, plans, of, most, **more):
        """Each plan in turn; what fails is told at the end, all together."""
        tally = Tally(self.scenario, self.kind, of)
        for plan in select(plans, most):
            tally.run(lambda: self.fail(**plan, **more))
            if self.server.process.poll() is not None:
                break
        tally.finish()
        self.finish()

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


READING = ["metrics", "index", "reload", "unload", "load-override", "load-failure", "load-wide", "load-onnx"]
PAIRS = [(scenario, kind) for kind in ("memory", "calls") for scenario in SCENARIOS]
PAIRS += [(scenario, "input-output") for scenario in READING]


@pytest.mark.parametrize("scenario, kind", PAIRS)
def test_a_server_outlives_each_failure(start_server, repository, faults, scenario, kind):
    torture = Torture(start_server, repository, faults, scenario, kind)
    sites = list(dict.fromkeys(torture.stacks))
    torture.fail_each([{"at": 1, "stack": stack} for stack in sites], len(sites), SITES)


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_a_server_outlives_a_time_without_memory(start_server, repository, faults, scenario):
    """From one call on there is no memory at all, until the scenario is over."""
    torture = Torture(start_server, repository, faults, scenario, "memory")
    torture.kind = "no more memory"
    plans = [{"at": at, "count": 1 << 40} for at in range(1, len(torture.stacks) + 1)]
    torture.fail_each(plans, len(plans), LONG_SITES)


@pytest.mark.parametrize("kind", ["interrupted", "short", "again", "reset"])
@pytest.mark.parametrize("scenario", TRANSFERS)
def test_transfers_that_stop_halfway_are_gone_on_with(start_server, repository, faults, scenario, kind):
    # A refusal does not wait for a client whose buffers are full: it may cost the connection.
    always_right = kind != "reset" and (scenario, kind) != ("refused", "again")
    torture = Torture(start_server, repository, faults, scenario, kind)
    plans = [{"at": at} for at in range(1, len(torture.stacks) + 1)]
    torture.fail_each(plans, len(plans), LONG_SITES, always_right=always_right)
