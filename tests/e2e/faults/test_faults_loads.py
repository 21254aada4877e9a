# SPDX-License-Identifier: Apache-2.0
"""Memory that runs out and system calls that fail, one site after another, while models are loaded."""
import itertools
import json

import pytest
from conftest import make_identity, wait_for
from fault_scenarios import LOADS
from fault_torture import FLAGS, KINDS, Torture
from faults import Faults, Tally, select, telling
from safety import instances

pytestmark = [pytest.mark.slow, pytest.mark.long]


@pytest.mark.parametrize("scenario", LOADS)
def test_a_server_outlives_each_failure(start_server, repository, tmp_path, scenario):
    Torture(start_server, repository, Faults(tmp_path / "faults"), scenario).fail_all()


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
    assert refused.status == 503 and "failed to start thread 'm_0_%d'" % (2 - failing) in refused.text
    wait_for("the other one, which names itself", lambda: len(instances(server)) == failing - 1)
    assert server.ask("/v2/models/m/infer", body).status == 200
    wait_for("both", lambda: instances(server) == ["m_0_0", "m_0_1"])
    server.stop()


def test_polls_go_on_after_each_failure(start_server, repository, tmp_path):
    """Something fails while a change is looked at, settles and is loaded: the models serve on, and the next change comes in."""
    faults = Faults(tmp_path / "faults")
    body = json.dumps({"inputs": [{"name": "INPUT0", "shape": [1, 1], "datatype": "FP32", "data": [7]}]}).encode()
    make_identity(repository, "m", max_batch_size=1)
    server = start_server(repository, flags=["--model-control-mode=poll", "--repository-poll-secs=1"], variables=faults.variables)
    sizes = itertools.count(2)

    def change():
        size = next(sizes)
        make_identity(repository, "m", max_batch_size=size)
        return size

    def loads():
        return server.log.count("successfully loaded 'm'")

    def go_on(kind, stack):
        loaded = loads()
        faults.arm(kind.sets, at=1, stack=stack, error=kind.error)
        change()
        wait_for("the failure", lambda: faults.failed > 0 or loads() > loaded)
        faults.disarm()
        size = change()
        with telling(lambda: f"after {faults.where()}"):
            wait_for("the next change", lambda: json.loads(server.ask("/v2/models/m/config").body)["max_batch_size"] == size)
            assert server.ask("/v2/models/m/infer", body).status == 200

    for name, most in (("memory", 5), ("input-output", 3)):
        kind, loaded = KINDS[name], loads()
        faults.arm(kind.sets)
        change()
        wait_for("the change", lambda: loads() > loaded)
        faults.disarm()
        stacks = list(dict.fromkeys(faults.stacks()))
        tally = Tally("poll", name, len(stacks))
        for stack in select(stacks, most):
            tally.run(faults, lambda: go_on(kind, stack))
        tally.finish()
    server.stop()
