# SPDX-License-Identifier: Apache-2.0
"""The rate limiter beside Triton's: who runs how often, and what it says of models that could never run (qa/L0_rate_limiter)."""
import json

import numpy as np
import pytest
from conftest import make_identity, wait_for
from grpc_sides import SIDES, SideStarter, stop
from test_rate_limiter import Asked, limited, make_alone, pending

ASKED = 40
ONE = np.array([[1]], np.int32)


def delay(milliseconds):
    return f'parameters {{ key: "execute_delay_ms" value {{ string_value: "{milliseconds}" }} }}'


def make(directory):
    (directory / "hold").touch()
    make_alone(directory, "holder", ("r", 1))
    make_identity(directory, "often", "TYPE_INT32", more=limited(("r", 1)) + delay(20))
    make_identity(directory, "seldom", "TYPE_INT32", more=limited(("r", 1), ("g", 1), priority=2) + delay(20))
    make_identity(directory, "greedy", "TYPE_INT32", more=limited(("r", 4)))
    make_identity(directory, "unknown", "TYPE_INT32", more=limited(("x", 1)))
    make_identity(directory, "ambiguous", "TYPE_INT32", more=limited(("g", 1)).replace("global: true", "global: false"))
    return directory


@pytest.fixture(scope="module", params=SIDES, ids=[side.name for side in SIDES])
def limiter(request, tmp_path_factory):
    """The server, and its models' directory."""
    side = request.param
    starter = SideStarter(side, side.backends(tmp_path_factory.mktemp("backends")), tmp_path_factory.mktemp("limited"))
    loaded = [f"--load-model={model}" for model in ("holder", "often", "seldom")]
    flags = ["--rate-limit=execution_count", "--rate-limit-resource=r:1", "--rate-limit-resource=g:2:3", *loaded]
    try:
        models = make(tmp_path_factory.mktemp("models"))
        yield starter(models, flags=flags), models
    finally:
        stop(starter)


LIMITED = 'Resource count for "%s" is limited to %d which will prevent scheduling of one or more model instances, the minimum required count is %d'


@pytest.mark.parametrize("model,words", [
    ("greedy", LIMITED % ("r", 1, 4)),
    ("unknown", LIMITED % ("x", 0, 1)),
    # with counts given, what is not among them is what shows first
    ("ambiguous", 'Resource count for "g" is limited to 0 which will prevent scheduling of one or more model instances, the minimum required count is 1'),
], ids=("greedy", "unknown", "ambiguous"))
def test_what_can_never_run_is_not_loaded(limiter, model, words):
    server, _ = limiter
    failed = server.ask(f"/v2/repository/models/{model}/load", b"{}")
    assert (failed.status, words in json.loads(failed.body)["error"]) == (400, True), failed.text


def test_priority_2_runs_half_as_often(limiter):
    server, models = limiter
    asked = Asked(server)
    asked.ask("holder")
    wait_for("the holder", (models / "executing").exists)
    for _ in range(ASKED):
        asked.ask("often", ONE, "INPUT0")
        asked.ask("seldom", ONE, "INPUT0")
    for model in ("often", "seldom"):
        pending(server, model, ASKED)
    (models / "go").touch()
    asked.wait()
    assert asked.errors == []
    first = [model for model in asked.order if model != "holder"][:45]
    assert 27 <= first.count("often") <= 33, first
