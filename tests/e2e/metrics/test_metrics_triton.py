# SPDX-License-Identifier: Apache-2.0
"""A scrape beside Triton's 2.51: after the same requests the same families, types, help, labels in the same order, and counts.

What a dashboard that was made for Triton asks for is there. Times and quantiles are the server's own, so only their names count.
"""
import concurrent.futures
import json
import re
import time
import uuid

import numpy
import pytest
import tritonclient.grpc as grpc
from conftest import make_identity, wait_for
from grpc_sides import client_of
from prometheus_client.parser import text_string_to_metric_families
from python_models import make_python
from python_sides import put_model
from test_http_triton import answer, infer, start_both
from tritonclient.utils import InferenceServerException

QUANTILES = "0.5:0.05,0.9:0.01,nonsense,0.25:0.01x,a:b,0.999:0.001"
SLOW = 'parameters { key: "execute_delay_ms" value { string_value: "30" } }'
FULL = "dynamic_batching { default_queue_policy { max_queue_size: 1 } }"
LATE = "dynamic_batching { default_queue_policy { default_timeout_microseconds: 600000000 allow_timeout_override: true } }"
SHORT_US = 50_000
# A request with an id is executed until it is let go.
HELD = """
def execute(self, requests):
    for request in requests:
        mark = "%s/" + request.request_id()
        if request.request_id():
            open(mark + ".begun", "w").close()
            while not os.path.exists(mark + ".go"):
                time.sleep(0.01)
    return [answer(value(request)) for request in requests]
"""
# What a label's name may be and a value may hold, as far as Triton lives with it.
TAGS = (("zone", "b"), ("", "empty"), ("version", r'blue\"\\\n,x=\"'), ("9", "nine"), ("empty", ""), ("le", "\\303\\274"), ("zone", "c"))


def make(directory, marks):
    make_identity(directory, "m", "TYPE_INT32")
    make_identity(directory, "unused", "TYPE_INT32")
    make_identity(directory, "tagged", "TYPE_INT32", more="".join(f'metric_tags {{ key: "{key}" value: "{value}" }}' for key, value in TAGS))
    make_python(directory, "full", HELD % marks, max_batch_size=1, more=FULL)
    make_python(directory, "late", HELD % marks, max_batch_size=1, more=LATE)
    make_identity(directory, "slow", "TYPE_INT32", more=SLOW)
    put_model(directory, "tell")
    return directory


@pytest.fixture(scope="module")
def marks(tmp_path_factory):
    return tmp_path_factory.mktemp("marks")


@pytest.fixture(scope="module")
def both(tmp_path_factory, marks):
    flags = ["summary_latencies=true", f"summary_quantiles={QUANTILES}", "summary_latencies=false", "counter_latencies=no", "x=1"]
    with start_both(tmp_path_factory, *(f"--metrics-config={flag}" for flag in flags), make=lambda directory: make(directory, marks)) as servers:
        yield servers


def scrape(server):
    """Triton says that its port is there before it is."""
    def text():
        try:
            return server.ask("/metrics", port=server.metrics_port).text
        except OSError:
            return None

    return wait_for("a scrape", text)


def series(text):
    """A line's name and labels → its value, as they stand there."""
    return dict(line.rsplit(" ", 1) for line in text.splitlines() if line and not line.startswith("#"))


def descriptions(text):
    """Of families that have samples."""
    return {line for line in text.splitlines() if line.startswith("#")}


def counts(text):
    """What must be alike after the same requests."""
    return {name: float(value) for name, value in series(text).items()
            if name.startswith(("nv_inference", "input_")) and not re.search(r"duration|_sum|quantile", name)}


FAILURE = re.compile(r'nv_inference_request_failure\{model="(\w+)",reason="(\w+)",version="1"\} (\d+)')


def failures(server, model):
    """By reason, and what the statistics say."""
    stats = json.loads(server.ask(f"/v2/models/{model}/stats").text)["model_stats"][0]["inference_stats"]
    counted = {reason: int(value) for name, reason, value in FAILURE.findall(scrape(server)) if name == model}
    return counted, stats["fail"]["count"], stats["success"]["count"]


def refused(server, model):
    found = re.findall(rf'nereid_inference_refused_total\{{model="{model}",reason="(\w+)",version="1"\}} (\d+)', scrape(server))
    return {reason: int(value) for reason, value in found if value != "0"}


def tensor(rows, name="INPUT0"):
    return [grpc.InferInput(name, [rows, 1], "INT32").set_data_from_numpy(numpy.zeros((rows, 1), numpy.int32))]


def over_http(server, model, **more):
    """Whether there is an answer."""
    body = {"inputs": [{"name": "IN", "datatype": "INT32", "shape": [1, 1], "data": [1]}], **more}
    status = server.ask(f"/v2/models/{model}/infer", json.dumps(body).encode()).status
    assert status in (200, 503)
    return status == 200


def over_grpc(server, model, id="", parameters=None):
    with client_of(server) as client:
        try:
            client.infer(model, tensor(1, "IN"), request_id=id, **(parameters or {}))
        except InferenceServerException as failure:
            assert failure.status() == "StatusCode.UNAVAILABLE"
            return False
    return True


def staggered(server, ask, model, count, marks):
    """How many of that many requests got an answer: one, and while that is executed, all others at once."""
    name = str(uuid.uuid4())
    with concurrent.futures.ThreadPoolExecutor(count) as threads:
        first = threads.submit(ask, server, model, id=name)
        try:
            wait_for("its execution", (marks / f"{name}.begun").exists)
            others = [threads.submit(ask, server, model, parameters={"timeout": SHORT_US}) for _ in range(count - 1)]
            pending = f'nv_inference_pending_request_count{{model="{model}",version="1"}}'
            wait_for("the others", lambda: sum(other.done() for other in others) + int(series(scrape(server))[pending]) >= count - 1)
            time.sleep(2 * SHORT_US / 1e6)  # what waits has exceeded its timeout, if its model has one
        finally:
            (marks / f"{name}.go").touch()
        return sum(asked.result() for asked in (first, *others))


def of_both(both, *what):
    with concurrent.futures.ThreadPoolExecutor(2) as threads:
        return list(threads.map(lambda server: staggered(server, *what), both))


def alike(both, of):
    """What `of` says of both, once it is the same: a request is counted when its response is on its way."""
    return wait_for("the same of both", lambda: (of(both[0]) == of(both[1])) and of(both[0]))


def test_a_scrape_is_triton_s_and_more(both):
    for server in both:
        scrape(server)
        for _ in range(3):
            assert server.ask(*infer("m", (1, 2), (2, 1))).status == 200
        assert server.ask(*infer("tagged")).status == 200
        assert server.ask(*infer("tell", (1,), (1,))).status == 200
        assert server.ask(*infer("tell", (1,), (1,), parameters={"raise": "x"})).status == 500
    wait_for("the same counts", lambda: counts(scrape(both[1])).items() <= counts(scrape(both[0])).items())
    ours, theirs = map(scrape, both)
    assert descriptions(theirs) <= descriptions(ours)
    assert series(theirs).keys() <= series(ours).keys()
    assert {name for name in series(ours).keys() - series(theirs).keys()
            if not name.startswith(("nereid_", "nv_model_load_duration_secs"))} == set()
    everything = {s.name for family in text_string_to_metric_families(ours) for s in family.samples}
    assert "nv_inference_request_summary_us_count" in everything


def test_summaries_are_alike(both):
    for server in both:
        for _ in range(20):
            assert server.ask(*infer("slow")).status == 200

    def of(server):
        return {name: value for name, value in series(scrape(server)).items() if "summary_us_count" in name and '"slow"' in name}

    assert set(alike(both, of).values()) == {"20"} and len(of(both[0])) == 5
    for server in both:
        text = scrape(server)
        told = {name: float(value) for name, value in series(text).items() if "_summary_us{" in name and '"slow"' in name}
        assert [name.split("quantile=")[1] for name in told][:4] == ['"0.5"}', '"0.9"}', '"0.25"}', '"0.999"}']
        for part in ("request", "compute_infer"):
            values = {name.split('"')[-2]: value for name, value in told.items() if f"_{part}_summary_us" in name}
            assert 29_000 < values["0.25"] <= values["0.5"] <= values["0.9"] <= values["0.999"] < 30_000_000
        unused = [value for name, value in series(text).items() if "_summary_us{" in name and '"unused"' in name]
        assert len(unused) == 20 and all(value.lower() == "nan" for value in unused)


MISTAKES = {  # what is wrong, and as what nereid counts it
    "another type": (infer("m", datatype="FP32"), "invalid"),
    "another shape": (infer("m", shape=(2,)), "invalid"),
    "no inputs": (("/v2/models/m/infer", b'{"inputs":[]}'), "invalid"),
    "an unknown output": (infer("m", outputs=[{"name": "X"}]), "invalid"),
    "too large a batch": (infer("m", [1] * 9, (9, 1)), "invalid"),
    "no JSON": (("/v2/models/m/infer", b'{"inputs":'), "malformed"),
    "too little data": (infer("m", (1,), (2, 1)), "malformed"),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_client_s_mistake_is_no_failed_request(both, name):
    request, reason = MISTAKES[name]
    before = [failures(server, "m") for server in both], refused(both[0], "m")
    for server in both:
        assert server.ask(*request).status in (400, 500)
    assert [failures(server, "m") for server in both] == before[0]
    assert refused(both[0], "m") == {**before[1], reason: before[1].get(reason, 0) + 1}


def test_a_client_s_mistake_over_grpc_is_no_failed_request(both):
    wrong = grpc.InferInput("INPUT0", [1, 1], "FP32").set_data_from_numpy(numpy.zeros((1, 1), numpy.float32))
    mistakes = [dict(inputs=[wrong]), dict(inputs=tensor(9)), dict(inputs=[]),
                dict(inputs=tensor(1), outputs=[grpc.InferRequestedOutput("X")])]
    before = [failures(server, "m") for server in both], refused(both[0], "m").get("invalid", 0)
    for server in both:
        with client_of(server) as client:
            for mistake in mistakes:
                with pytest.raises(InferenceServerException) as refusal:
                    client.infer("m", **mistake)
                assert refusal.value.status() == "StatusCode.INVALID_ARGUMENT"
    assert [failures(server, "m") for server in both] == before[0]
    assert refused(both[0], "m")["invalid"] == before[1] + len(mistakes)


@pytest.mark.parametrize("ask", [over_http, over_grpc])
def test_what_a_full_queue_refuses_is_no_failed_request(both, marks, ask):
    before = refused(both[0], "full").get("queue_full", 0)
    assert of_both(both, ask, "full", 4, marks) == [2, 2]
    counted, failed, _ = alike(both, lambda server: failures(server, "full"))
    assert set(counted.values()) == {0} and failed == 0
    assert refused(both[0], "full") == {"queue_full": before + 2}


@pytest.mark.parametrize("ask", [over_http, over_grpc])
def test_what_waits_too_long_is_a_rejected_request(both, marks, ask):
    before = failures(both[0], "late")[0]["REJECTED"]
    assert of_both(both, ask, "late", 3, marks) == [1, 1]
    counted, failed, _ = alike(both, lambda server: failures(server, "late"))
    assert counted == {"REJECTED": before + 2, "CANCELED": 0, "BACKEND": 0, "OTHER": 0} and failed == before + 2
    assert refused(both[0], "late") == {}


@pytest.mark.parametrize("parameters", [{"raise": "x"}, {"code": "INTERNAL"}, {"code": "CANCELLED"}], ids=str)
def test_a_model_s_error_is_a_failure_of_the_backend(both, parameters):
    before = failures(both[0], "tell")[0]["BACKEND"]
    request = infer("tell", (1,), (1,), parameters=parameters)
    assert answer(both[0], *request)[0] == answer(both[1], *request)[0] != 200
    wait_for("the failure", lambda: failures(both[0], "tell")[0]["BACKEND"] == before + 1)
    counted, failed, _ = alike(both, lambda server: failures(server, "tell"))
    assert counted == {"REJECTED": 0, "CANCELED": 0, "BACKEND": before + 1, "OTHER": 0} and failed == before + 1


def test_without_counters_of_latencies(tmp_path_factory):
    """Triton then stops all its counters; nereid leaves out what the setting is about and goes on counting."""
    def make_one(directory):
        make_identity(directory, "m", "TYPE_INT32")
        return directory

    flags = ("counter_latencies=true", "counter_latencies=false", "summary_latencies=TRUE")
    with start_both(tmp_path_factory, *(f"--metrics-config={flag}" for flag in flags), make=make_one) as servers:
        for server in servers:
            scrape(server)
            assert server.ask(*infer("m")).status == 200
        ours, theirs = (series(scrape(server)).keys() for server in servers)
        assert theirs <= ours
        assert not any("duration_us" in name or "summary" in name for name in ours)
        success = 'nv_inference_request_success{model="m",version="1"}'
        wait_for("the count", lambda: series(scrape(servers[0]))[success] == "1")
        assert series(scrape(servers[1]))[success] == "0"
