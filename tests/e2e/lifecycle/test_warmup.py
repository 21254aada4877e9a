# SPDX-License-Identifier: Apache-2.0
"""model_warmup, in nereid and in Triton 2.51: what runs before a model is ready, what is counted, and what fails the load."""
import json
import re
import signal
from concurrent.futures import ThreadPoolExecutor

import pytest
from conftest import PATIENCE, make_identity, wait_for
from grpc_sides import NEREID, SIDES, SideStarter, stop
from python_models import make_python

pytestmark = pytest.mark.gpu_host

SAMPLE = 'model_warmup { name: "%s" batch_size: %d count: %d %s }'
INPUT = 'inputs { key: "%s" value { data_type: %s dims: %s %s } }'


def sample(*inputs, name="one", batch_size=1, count=0):
    return SAMPLE % (name, batch_size, count, " ".join(inputs))


def data(what="zero_data: true", kind="TYPE_FP32", dims="[ 3 ]", name="INPUT0"):
    return INPUT % (name, kind, dims, what)


FILE = 'input_data_file: "f"'
TEXT = b"\x03\x00\x00\x00" b"233"
GOOD = {
    "random": sample(data("random_data: true"), batch_size=4, count=2) + "instance_group { count: 2 }",
    "nothing": sample(data(), batch_size=0),
    "zero_data_is_false": sample(data("zero_data: false")),
    "more_than_max": sample(data(), batch_size=9),
    "no_rows": sample(data(dims="[ 0 ]")),
    "no_name": sample(data(), name=""),
    "an_input_more": sample(data(), data(name="OTHER")),
    "ordered": sample(data(), batch_size=4) + "dynamic_batching { preserve_ordering: true }",
    "two": sample(data(), name="first") + sample(data(dims="[ 5 ]"), name="second", batch_size=3),
}
WITH_FILES = {  # the file's bytes, the sample
    "file": (b"123456789012", sample(data(FILE), batch_size=2)),
    "long_file": (b"123456789012xxxx", sample(data(FILE))),
}
STRINGS = {
    "string": (TEXT, sample(data(FILE, "TYPE_STRING", "[ 1 ]"), batch_size=2)),
    "empty_strings": (b"", sample(data("zero_data: true", "TYPE_STRING", "[ 5 ]"))),
    "random_strings": (b"", sample(data("random_data: true", "TYPE_STRING", "[ 5 ]"))),
}
WRONG = {  # the sample, what both servers say
    "open_dims": (sample(data(dims="[ -1 ]")), "warmup setting expects all variable-size dimensions are specified for input 'INPUT0'"),
    "no_data": (sample(data("")), "warmup setting expects input 'INPUT0' to have input_data_type set"),
    "no_inputs": (sample(), "expected 1 inputs but got 0 inputs for model 'no_inputs'. Got input(s) [], but missing required input(s) ['INPUT0']."),
    "other_inputs": (sample(data(name="OTHER")), "expected 1 inputs but got 0 inputs for model 'other_inputs'."),
    "wrong_type": (sample(data(kind="TYPE_INT32")), "inference input 'INPUT0' data-type is 'INT32', but model 'wrong_type' expects 'FP32'"),
    "no_type": (sample(data(kind="TYPE_INVALID")), "inference input 'INPUT0' data-type is '<invalid>', but model 'no_type' expects 'FP32'"),
    "wrong_dims": (sample(data(dims="[ 3, 1 ]")), "unexpected shape for input 'INPUT0' for model 'wrong_dims'. Expected [-1,-1], got [1,3,1]."),
    "no_dims": (sample(data(dims="[ ]")), "unexpected shape for input 'INPUT0' for model 'no_dims'. Expected [-1,-1], got [1]."),
    "no_file": (sample(data(FILE)), "failed to open text file for read"),
    "short_file": (sample(data(FILE)), "warmup setting expects 12 bytes, but the data provided from f"),
    "empty_file": (sample(data(FILE)), "warmup setting expects 12 bytes, but the data provided from f"),
    "elsewhere": (sample(data('input_data_file: "/etc/passwd"')), "failed to open text file for read"),
}
WRONG_STRINGS = {
    "too_few": (sample(data(FILE, "TYPE_STRING", "[ 2 ]")), "expected 2 string elements for inference input 'INPUT0' for model 'too_few', got 1"),
    "cut_off": (sample(data(FILE, "TYPE_STRING", "[ 1 ]")), "incomplete string length indicator for inference input 'INPUT0' for model 'cut_off'"),
}
FILES = {"short_file": b"1234", "empty_file": b"", "too_few": TEXT, "cut_off": b"233"}


def put_file(directory, content, name="f"):
    (directory / "warmup").mkdir(exist_ok=True)
    (directory / "warmup" / name).write_bytes(content)


def make(repository):
    for name, more in GOOD.items():
        make_identity(repository, name, more=more)
    make_identity(repository, "two_without_batches", max_batch_size=0, more=sample(data(), batch_size=2))
    for kind, cases in (("TYPE_FP32", WITH_FILES), ("TYPE_STRING", STRINGS)):
        for name, (content, more) in cases.items():
            put_file(make_identity(repository, name, kind, more=more), content)
    for kind, cases in (("TYPE_FP32", WRONG), ("TYPE_STRING", WRONG_STRINGS)):
        for name, (more, _) in cases.items():
            directory = make_identity(repository, name, kind, more=more)
            if name in FILES:
                put_file(directory, FILES[name])
    return repository


@pytest.fixture(scope="module", params=SIDES, ids=[side.name for side in SIDES])
def side(request):
    return request.param


@pytest.fixture(scope="module")
def server(side, tmp_path_factory):
    starter = SideStarter(side, side.backends(tmp_path_factory.mktemp("backends")), tmp_path_factory.mktemp("warmup"))
    try:
        yield starter(make(tmp_path_factory.mktemp("models")), flags=["--load-model=random", "--log-verbose=1"])
    finally:
        stop(starter)


def load(server, model):
    return server.ask(f"/v2/repository/models/{model}/load", b"{}")


@pytest.mark.parametrize("model", [*GOOD, *WITH_FILES, *STRINGS, "two_without_batches"])
def test_a_good_sample_runs(server, model):
    answer = load(server, model)
    assert answer.status == 200, answer.text
    assert server.ask(f"/v2/models/{model}/ready").status == 200
    ran = f"model '{model}' instance {model}_0" in server.log
    assert ran == (model != "nothing")
    if model == "nothing":
        assert "Skipping batch 0 warmup sample 'one'" in server.log


@pytest.mark.parametrize("model", [*WRONG, *WRONG_STRINGS])
def test_a_wrong_sample_fails_the_load(server, side, model):
    answer = load(server, model)
    assert answer.status == 400, answer.text
    text = json.loads(answer.body)["error"]
    assert (WRONG | WRONG_STRINGS)[model][1] in text
    if side is NEREID:
        assert "failed to prepare warmup sample 'one': " in text
    assert server.ask(f"/v2/models/{model}/ready").status != 200


def test_a_model_that_was_never_loaded_is_not_unloaded(start_server, repository):
    make_identity(repository, "m", more=WRONG["no_data"][0])
    server = start_server(repository, flags=["--exit-on-error=false"], ready=False)
    wait_for("the failure", lambda: "failed to load 'm'" in server.log)
    server.stop()  # it is gone then
    assert "successfully unloaded" not in server.log


def test_what_runs_is_counted(server):
    """4 requests, twice, on two instances."""
    row = json.loads(server.ask("/v2/models/random/stats").body)["model_stats"][0]
    assert (row["inference_count"], row["execution_count"], row["inference_stats"]["success"]["count"]) == (16, 4, 16)
    assert row["inference_stats"]["queue"]["count"] == 16 and row["last_inference"] > 0
    assert [(batch["batch_size"], batch["compute_infer"]["count"]) for batch in row["batch_stats"]] == [(4, 4)]
    for instance in ("random_0_0", "random_0_1"):
        for iteration in (1, 2):
            assert f"model 'random' instance {instance} is running warmup sample 'one' for iteration {iteration}" in server.log

    def metrics():
        return server.ask("/metrics", port=server.metrics_port).text

    for name, count in (("nv_inference_request_success", 16), ("nv_inference_count", 16), ("nv_inference_exec_count", 4)):
        line = rf'^{name}{{(gpu_uuid="[^"]*",)?model="random",version="1"}} {count}$'
        wait_for(name, lambda line=line: re.search(line, metrics(), re.MULTILINE))


def tensors(kind="TYPE_FP32"):
    return 'backend: "python" max_batch_size: 4' + "".join(
        f'{way} {{ name: "{name}" data_type: {kind} dims: [ -1 ] }}' for way, name in (("input", "INPUT0"), ("output", "OUTPUT0")))


def test_a_failing_sample_fails_the_load_and_is_named(start_server, repository):
    make_python(repository, "m", """
        def execute(self, requests):
            bad = len(requests) == 3
            return [pb_utils.InferenceResponse(error=pb_utils.TritonError("An Error Occurred")) if bad
                    else answer(value(r, "INPUT0"), "OUTPUT0") for r in requests]
        """, config=tensors() + sample(data(), name="good") + sample(data(), name="bad sample", batch_size=3))
    server = start_server(repository, flags=["--exit-on-error=false"], ready=False)
    wait_for("the failure", lambda: "failed to load 'm'" in server.log)
    rows = json.loads(server.ask("/v2/repository/index", b"{}").body)
    assert [(row["state"], row["reason"]) for row in rows] == [
        ("UNAVAILABLE", "Invalid argument: failed to run warmup sample 'bad sample': " + "An Error Occurred; " * 3)]


def test_nothing_outside_is_read_for_a_client(start_server, repository, tmp_path):
    make_identity(repository, "m")
    (tmp_path / "secret").write_bytes(b"x" * 12)
    server = start_server(repository, flags=["--model-control-mode=explicit"])
    for path in ("../../../secret", str(tmp_path / "secret")):
        config = {
            "backend": "identity", "max_batch_size": 8, "input": [{"name": "INPUT0", "data_type": "TYPE_FP32", "dims": [-1]}],
            "output": [{"name": "OUTPUT0", "data_type": "TYPE_FP32", "dims": [-1]}],
            "model_warmup": [{"name": "one", "batch_size": 1, "inputs": {
                "INPUT0": {"data_type": "TYPE_FP32", "dims": [3], "input_data_file": path}}}],
        }
        answer = server.ask("/v2/repository/models/m/load", json.dumps({"parameters": {"config": json.dumps(config)}}).encode())
        assert answer.status == 400
        assert f"'input_data_file' of model 'm' leads out of the model's directory: '{path}'" in answer.text


def test_a_decoupled_model_warms_up(start_server, repository):
    make_python(repository, "m", """
        def execute(self, requests):
            for request in requests:
                sender = request.get_response_sender()
                for n in range(3):
                    sender.send(answer(value(request, "INPUT0"), "OUTPUT0"))
                threading.Timer(0.2, lambda s=sender: s.send(flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)).start()
            self.done = open(os.path.join(os.path.dirname(__file__), "ran"), "w")
        """, config=tensors() + sample(data(), batch_size=2) + "model_transaction_policy { decoupled: true }")
    server = start_server(repository)
    assert (repository / "m/1/ran").exists()
    row = json.loads(server.ask("/v2/models/m/stats").body)["model_stats"][0]
    assert row["inference_stats"]["fail"]["count"] == 0 and row["execution_count"] == 1


HANGS = """
def execute(self, requests):
    for request in requests:
        sender = request.get_response_sender()
        def wait(request=request, sender=sender):
            open(os.path.join(os.path.dirname(__file__), "begun"), "w").close()
            while not (%s and request.is_cancelled()):
                time.sleep(0.01)
            sender.send(flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)
        threading.Thread(target=wait, daemon=True).start()
"""


def make_hanging(repository, heeds):
    more = sample(data()) + "model_transaction_policy { decoupled: true }"
    return make_python(repository, "m", HANGS % heeds, config=tensors() + more) / "1/begun"


def test_an_unload_cancels_the_warm_up(start_server, repository):
    begun = make_hanging(repository, True)
    server = start_server(repository, flags=["--model-control-mode=explicit"])
    with ThreadPoolExecutor() as threads:
        loading = threads.submit(load, server, "m")
        wait_for("the sample", begun.exists)
        assert server.ask("/v2/repository/models/m/unload", b"{}").status == 200
        answer = loading.result()
    assert answer.status == 400 and "Newer operation has been applied" in answer.text, answer.text
    assert server.ask("/v2/models/m/ready").status != 200


@pytest.mark.parametrize("heeds", [True, False], ids=["heeds", "does not heed"])
def test_a_warm_up_that_hangs_does_not_keep_the_server(start_server, repository, heeds):
    begun = make_hanging(repository, heeds)
    server = start_server(repository, flags=[] if heeds else ["--exit-timeout-secs=2"], ready=False)
    wait_for("the sample", begun.exists)
    server.process.send_signal(signal.SIGTERM)
    assert server.process.wait(PATIENCE) == (0 if heeds else 1)
    assert ("Exit timeout expired" in server.log) == (not heeds)


def test_instances_that_come_later_warm_up_too(start_server, repository):
    groups = "instance_group { count: %d }"
    directory = make_identity(repository, "m", more=sample(data()) + groups % 1)
    server = start_server(repository, flags=["--model-control-mode=explicit", "--load-model=m", "--log-verbose=1"])
    config = (directory / "config.pbtxt").read_text().replace(groups % 1, groups % 2)
    (directory / "config.pbtxt").write_text(config)
    assert load(server, "m").status == 200
    assert server.log.count("instance m_0_0 is running warmup sample 'one'") == 1
    assert server.log.count("instance m_0_1 is running warmup sample 'one'") == 1


def test_what_served_before_serves_until_the_warm_up_is_over(start_server, repository, tmp_path):
    """And what is new is not ready."""
    body = """
        def execute(self, requests):
            open("%s/begun", "w").close()
            while not os.path.exists("%s/gate"):
                time.sleep(0.01)
            return [answer(np.full((1, 1), 2, np.float32), "OUTPUT0") for _ in requests]
        """.replace("%s", str(tmp_path))
    for name in ("m", "new"):
        make_python(repository, name, body, config=tensors() + sample(data()))
    make_python(repository, "m", """
        def execute(self, requests):
            return [answer(np.full((1, 1), 1, np.float32), "OUTPUT0") for _ in requests]
        """, config=tensors())
    server = start_server(repository, flags=["--model-control-mode=explicit", "--load-model=m"])

    def infer():
        request = {"inputs": [{"name": "INPUT0", "shape": [1, 1], "datatype": "FP32", "data": [0]}]}
        return json.loads(server.ask("/v2/models/m/infer", json.dumps(request).encode()).body)["outputs"][0]["data"]

    assert infer() == [1]
    make_python(repository, "m", body, config=tensors() + sample(data()))
    for name in ("m", "new"):
        (tmp_path / "begun").unlink(missing_ok=True)
        (tmp_path / "gate").unlink(missing_ok=True)
        with ThreadPoolExecutor() as threads:
            loading = threads.submit(load, server, name)
            try:
                wait_for("the sample", (tmp_path / "begun").exists)
                assert server.ask(f"/v2/models/{name}/ready").status == (200 if name == "m" else 400)
                assert name == "new" or infer() == [1]
            finally:
                (tmp_path / "gate").touch()
            assert loading.result().status == 200
        assert server.ask(f"/v2/models/{name}/ready").status == 200 and infer() == [2]
