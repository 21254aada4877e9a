# SPDX-License-Identifier: Apache-2.0
"""--rate-limit=execution_count: instances run when the resources that their groups name are there (docs/scheduling.md)."""
import json
import re
import threading

import numpy as np
import pytest
import tritonclient.grpc as grpc
import tritonclient.http as triton
from conftest import make_faulty, make_identity, wait_for
from python_models import infer, make_python, tensor
from test_cache import FAULTS
from test_exit_timeout import LEAVES_THREADS, end

ON = ["--rate-limit=execution_count"]
EXPLICIT = [*ON, "--model-control-mode=explicit", "--load-model=*"]

# Fails when another model with it executes at the same time; "hold" keeps it executing until "go" is there.
ALONE = """
def initialize(self, args):
    self.common = os.path.dirname(args["model_repository"])
def execute(self, requests):
    mark = self.common + "/executing"
    os.close(os.open(mark, os.O_CREAT | os.O_EXCL))
    try:
        while os.path.exists(self.common + "/hold") and not os.path.exists(self.common + "/go"):
            time.sleep(0.01)
        time.sleep(0.001)
        return [answer(value(request)) for request in requests]
    finally:
        os.unlink(mark)
"""


def limited(*resources, count=1, priority=0):
    listed = " ".join(f'resources {{ name: "{name}" count: {amount} global: {str(name.startswith("g")).lower()} }}' for name, amount in resources)
    return f"instance_group {{ count: {count} kind: KIND_CPU rate_limiter {{ {listed} priority: {priority} }} }}"


def make_alone(repository, name, *resources, more="", **options):
    directory = make_python(repository, name, ALONE, more=more)
    config = directory / "config.pbtxt"
    config.write_text(config.read_text().replace("instance_group { count: 1 kind: KIND_CPU }", limited(*resources, **options)))
    return directory


def load(server, model, what="load"):
    return server.ask(f"/v2/repository/models/{model}/{what}", b"{}")


def metric(server, name, resource):
    text = server.ask("/metrics", port=server.metrics_port).text
    found = re.search(rf'^{name}{{.*resource="{resource}".*}} (\d+)$', text, re.M)
    return int(found[1]) if found else None


def used(server, resource="r"):
    return metric(server, "nereid_rate_limiter_resource_used", resource)


class Asked:
    """Requests over gRPC, all under way at once; `order` has the models in the order of their answers."""

    def __init__(self, server):
        self.client = grpc.InferenceServerClient(f"127.0.0.1:{server.grpc_port}")
        self.order, self.errors, self.count = [], [], 0

    def ask(self, model, array=None, name="IN", datatype="INT32", **options):
        data = np.array([1], np.int32) if array is None else array
        given = grpc.InferInput(name, data.shape, datatype).set_data_from_numpy(data)
        self.count += 1
        return self.client.async_infer(model, [given], callback=lambda result, error: self._end(model, error), **options)

    def _end(self, model, error):
        if error is not None:
            self.errors.append(error)
        self.order.append(model)

    def wait(self):
        wait_for("all answers", lambda: len(self.order) == self.count)


@pytest.fixture
def held(repository):
    """Models wait while `held` says so, once one of them executes."""
    (repository / "hold").touch()
    return lambda: (repository / "go").touch()


def pending(server, model, count):
    def queued():
        text = server.ask("/metrics", port=server.metrics_port).text
        return f'nv_inference_pending_request_count{{model="{model}",version="1"}} {count}' in text

    wait_for(f"{count} of {model} in the queue", queued)


# ---- what there is ----

@pytest.mark.parametrize("flags,words", [
    (["r:1"], 'Resource count for "r" is limited to 1 which will prevent scheduling of one or more model instances, the minimum required count is 4'),
    (["r:3", "g:2"], 'Resource count for "r" is limited to 3 which'),
    (["R:4"], 'Resource count for "r" is limited to 0 which'),
    (["r:10:10", "g:2"], 'Resource count for "r" is limited to 0 which'),
    (["g:9"], 'Resource count for "r" is limited to 0 which'),
    (["r:5", "r:3", "g:2"], 'Resource count for "r" is limited to 3 which'),
], ids=lambda value: "+".join(value) if isinstance(value, list) else "")
def test_what_can_never_run_is_not_loaded(start_server, repository, flags, words):
    make_identity(repository, "m", more=limited(("r", 4)))
    make_identity(repository, "free")
    flags = [f"--rate-limit-resource={flag}" for flag in flags]
    server = start_server(repository, flags=[*ON, *flags, "--model-control-mode=explicit"])
    failed = load(server, "m")
    assert (failed.status, words in json.loads(failed.body)["error"]) == (400, True), failed.text
    assert load(server, "free").status == 200


@pytest.mark.parametrize("flags", [[], ["r:4", "g:2"], ["r:9:0", "g:2:7"]], ids="+".join)
def test_what_is_enough_is_loaded(start_server, repository, flags):
    make_identity(repository, "m", more=limited(("r", 4), ("g", 2)))
    server = start_server(repository, flags=[*ON, *(f"--rate-limit-resource={flag}" for flag in flags)])
    assert metric(server, "nereid_rate_limiter_resource_count", "r") == (9 if "r:9:0" in flags else 4)
    assert (metric(server, "nereid_rate_limiter_resource_count", "g"), used(server, "g")) == (2, 0)


def test_a_name_is_global_or_not(start_server, repository):
    make_identity(repository, "m", more=limited(("g", 1)))
    make_identity(repository, "n", more=limited(("g", 1)).replace("global: true", "global: false"))
    server = start_server(repository, flags=[*ON, "--model-control-mode=explicit", "--load-model=m"])
    failed = load(server, "n")
    assert failed.status == 400
    words = 'Resource "g" is present as both global and device-specific resource in the model configuration.'
    assert words in json.loads(failed.body)["error"]
    assert load(server, "m", "unload").status == 200
    wait_for("the resource to go", lambda: used(server, "g") is None)
    assert load(server, "n").status == 200


def test_what_there_is_follows_the_models(start_server, repository):
    make_identity(repository, "small", more=limited(("r", 2)))
    make_identity(repository, "great", more=limited(("r", 5)))
    server = start_server(repository, flags=EXPLICIT)

    def there(count):
        wait_for(f"{count} of it", lambda: metric(server, "nereid_rate_limiter_resource_count", "r") == count)

    there(5)
    assert load(server, "great", "unload").status == 200
    there(2)
    make_identity(repository, "small", more=limited(("r", 3), count=2))  # its instances alone change
    assert load(server, "small").status == 200
    there(3)
    make_identity(repository, "small", max_batch_size=4, more=limited(("r", 1)))  # a reload
    assert load(server, "small").status == 200
    there(1)


def test_without_the_flag_groups_mean_nothing(start_server, repository):
    make_identity(repository, "m", more=limited(("r", 4)))
    server = start_server(repository, flags=["--rate-limit-resource=r:1"])
    assert infer_identity(server, "m") == 1
    assert "nereid_rate_limiter" not in server.ask("/metrics", port=server.metrics_port).text


# ---- who runs ----

def infer_identity(server, model):
    with triton.InferenceServerClient(server.url) as client:
        return client.infer(model, [tensor(np.ones((1, 1), np.float32), "FP32", "INPUT0")]).as_numpy("OUTPUT0")[0][0]


@pytest.mark.slow
def test_no_two_run_that_need_the_same_while_instances_come_and_go(start_server, repository):
    make_alone(repository, "a", ("r", 1), count=2)
    make_alone(repository, "b", ("r", 1), ("g", 1))
    server = start_server(repository, flags=EXPLICIT)
    asked = Asked(server)
    for round in range(4):
        for _ in range(15):
            asked.ask("a")
            asked.ask("b")
        make_alone(repository, "a", ("r", 1), count=1 + round % 2)
        make_alone(repository, "b", ("r", 1), ("g", 1), more="" if round % 2 else "parameters { key: \"x\" value { string_value: \"y\" } }")
        assert load(server, "a").status == 200
        assert load(server, "b").status == 200
    asked.wait()
    assert asked.errors == []
    wait_for("all of it back", lambda: (used(server), used(server, "g")) == (0, 0))


def test_whatever_a_backend_does_its_resources_come_back(start_server, repository):
    """Errors, answers that come twice, late or from another thread; a worker that dies while it executes."""
    for fault in FAULTS:
        config = make_faulty(repository, fault, fault) / "config.pbtxt"
        config.write_text(config.read_text() + limited(("r", 1), ("g", 2)))
    make_python(repository, "dies", "def execute(self, requests):\n    os._exit(3)", more=limited(("r", 1)))
    config = repository / "dies/config.pbtxt"
    config.write_text(config.read_text().replace("instance_group { count: 1 kind: KIND_CPU }\n", ""))
    server = start_server(repository, flags=ON)
    body = b'{"inputs": [{"name": "%s", "datatype": "INT32", "shape": [2], "data": [1, 2]}]}'
    for model, name in (*((fault, b"INPUT0") for fault in FAULTS), ("dies", b"IN"), ("good", b"INPUT0")):
        answered = [server.ask(f"/v2/models/{model}/infer", body % name).status for _ in range(2)]
        wait_for("all of it back", lambda: (used(server), used(server, "g")) == (0, 0))
    assert answered == [200, 200]


def test_who_has_priority_2_runs_half_as_often(start_server, repository, held):
    make_alone(repository, "holder", ("r", 1))
    make_alone(repository, "often", ("r", 1))
    make_alone(repository, "seldom", ("r", 1), priority=2)
    server = start_server(repository, flags=ON)
    asked = Asked(server)
    asked.ask("holder")
    wait_for("the first one to have it", lambda: used(server) == 1)
    for _ in range(40):
        asked.ask("often")
        asked.ask("seldom")
    pending(server, "often", 40)
    pending(server, "seldom", 40)
    held()
    asked.wait()
    assert asked.errors == []
    first = [model for model in asked.order if model != "holder"][:45]
    assert abs(first.count("often") - 30) <= 2, first


def test_who_needs_nothing_or_something_else_does_not_wait(start_server, repository, held):
    """Nor does an instance of another group of a model whose first one waits."""
    make_alone(repository, "holder", ("r", 1))
    make_identity(repository, "free", "TYPE_INT32")
    make_identity(repository, "elsewhere", "TYPE_INT32", more=limited(("s", 1)))
    make_identity(repository, "either", "TYPE_INT32", more=limited(("r", 1)) + limited(("s", 1)))
    server = start_server(repository, flags=ON)
    asked = Asked(server)
    asked.ask("holder")
    wait_for("the first one to have it", lambda: used(server) == 1)
    for _ in range(10):
        for model in ("free", "elsewhere", "either"):
            asked.ask(model, np.array([[1]], np.int32), "INPUT0")
    wait_for("all others", lambda: len(asked.order) == 30)
    assert "holder" not in asked.order and used(server) == 1
    held()
    asked.wait()
    assert asked.errors == []


def test_batches_are_made_when_the_resources_are_there(start_server, repository, held):
    make_alone(repository, "holder", ("r", 1))
    make_identity(repository, "batched", "TYPE_INT32", more=limited(("r", 1)) + "dynamic_batching {}")
    server = start_server(repository, flags=ON)
    asked = Asked(server)
    asked.ask("holder")
    wait_for("the first one to have it", lambda: used(server) == 1)
    for _ in range(16):
        asked.ask("batched", np.array([[1]], np.int32), "INPUT0")
    pending(server, "batched", 16)
    held()
    asked.wait()
    stats = json.loads(server.ask("/v2/models/batched/stats").body)["model_stats"][0]
    assert (stats["inference_count"], stats["execution_count"]) == (16, 2)


def test_a_fast_model_waits_too(start_server, repository, held):
    """Of such a model connections' threads execute."""
    make_alone(repository, "holder", ("r", 1))
    make_identity(repository, "fast", "TYPE_INT32", more=limited(("r", 1)))
    server = start_server(repository, flags=ON)
    asked, one = Asked(server), np.array([[1]], np.int32)
    for count in range(1, 20):
        asked.ask("fast", one, "INPUT0")
        wait_for("its answer", lambda: len(asked.order) == count)  # noqa: B023
    asked.ask("holder")
    wait_for("the first one to have it", lambda: used(server) == 1)
    asked.ask("fast", one, "INPUT0")
    pending(server, "fast", 1)
    assert len(asked.order) == 19
    held()
    asked.wait()
    assert asked.errors == [] and asked.order[-2:] == ["holder", "fast"]


def test_time_limits_and_cancellations_hold_while_instances_wait(start_server, repository, held):
    make_alone(repository, "holder", ("r", 1))
    queue = "dynamic_batching { default_queue_policy { default_timeout_microseconds: 600000000 allow_timeout_override: true } }"
    make_identity(repository, "batched", "TYPE_INT32", more=limited(("r", 1)) + queue)
    server = start_server(repository, flags=ON)
    asked, one = Asked(server), np.array([[1]], np.int32)
    asked.ask("holder")
    wait_for("the first one to have it", lambda: used(server) == 1)
    asked.ask("batched", one, "INPUT0", timeout=50000)
    wait_for("its refusal", lambda: asked.order == ["batched"])
    assert "Request timeout expired" in str(asked.errors.pop())
    held()
    wait_for("the holder", lambda: asked.order == ["batched", "holder"])
    asked.ask("batched", one, "INPUT0")
    asked.wait()
    assert asked.errors == []
    wait_for("the resource", lambda: used(server) == 0)


def test_a_model_whose_instance_waits_can_go(start_server, repository, held):
    make_alone(repository, "holder", ("r", 1))
    make_alone(repository, "waits", ("r", 1), count=2)
    server = start_server(repository, flags=EXPLICIT)
    asked = Asked(server)
    asked.ask("holder")
    wait_for("the first one to have it", lambda: used(server) == 1)
    asked.ask("waits")
    pending(server, "waits", 1)
    make_alone(repository, "waits", ("r", 1), count=1)
    assert load(server, "waits").status == 200  # one instance has gone, and was the one that waited or not
    assert load(server, "waits", "unload").status == 200
    held()
    asked.wait()
    assert asked.errors == []
    wait_for("its end", lambda: "successfully unloaded 'waits'" in server.log)


def test_a_server_ends_while_an_instance_waits(start_server, repository, held):
    make_alone(repository, "holder", ("r", 1))
    make_alone(repository, "waits", ("r", 1))
    server = start_server(repository, flags=[*ON, "--exit-timeout-secs=1"], variables=LEAVES_THREADS)
    asked = Asked(server)
    asked.ask("holder")
    wait_for("the first one to have it", lambda: used(server) == 1)
    asked.ask("waits")
    pending(server, "waits", 1)
    end(server)
    wait_for("the refusal of what waits", lambda: "waits" in asked.order)


def test_a_warmup_takes_what_it_needs(start_server, repository, held):
    make_alone(repository, "holder", ("r", 1))
    warmup = 'model_warmup { name: "w" inputs { key: "IN" value { data_type: TYPE_INT32 dims: [ 1 ] zero_data: true } } }'
    make_alone(repository, "warm", ("r", 1), more=warmup)
    server = start_server(repository, flags=[*ON, "--model-control-mode=explicit", "--load-model=holder"])
    asked = Asked(server)
    asked.ask("holder")
    wait_for("the first one to have it", lambda: used(server) == 1)
    loaded = []
    loading = threading.Thread(target=lambda: loaded.append(load(server, "warm").status))
    loading.start()
    wait_for("the load", lambda: "loading: warm" in server.log)
    held()
    loading.join()
    asked.wait()
    assert loaded == [200] and asked.errors == []
    assert infer(server, "warm")[0] == 1
