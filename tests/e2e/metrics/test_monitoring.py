# SPDX-License-Identifier: Apache-2.0
"""deploy/monitoring: each expression of the dashboard and of the alerts finds something in a real Prometheus that scrapes real servers, and each alert
fires where it should and nowhere else."""
import concurrent.futures
import itertools
import json
import re
import subprocess

import pytest
import yaml
from caching import body as cached_body
from caching import local, make_cached, redis
from conftest import PATIENCE, ROOT, make_identity, wait_for
from gpus import fake_gpus
from prometheus import scraping
from python_models import make_python
from test_metrics import BODY
from tracing import ON, to_file

ALERTS = ROOT / "deploy/monitoring/alerts.yaml"
RULES = {rule["alert"]: rule for group in yaml.safe_load(ALERTS.read_text())["groups"] for rule in group["rules"]}
DASHBOARD = json.loads((ROOT / "deploy/monitoring/dashboard.json").read_text())
PANELS = [panel for panel in DASHBOARD["panels"] if panel["type"] != "row"]
SELECTOR = re.compile(r"\b(?:nv_\w+|nereid_\w+|up)\b(?:\{[^}]*\})?")

# ---- the dashboard ----


def test_panels_have_places_of_their_own_and_use_the_variables_that_there_are():
    taken = set()
    for panel in DASHBOARD["panels"]:
        place = panel["gridPos"]
        cells = {(place["x"] + x, place["y"] + y) for x in range(place["w"]) for y in range(place["h"])}
        assert not cells & taken and place["x"] + place["w"] <= 24, panel["title"]
        taken |= cells
    assert len({panel["id"] for panel in DASHBOARD["panels"]}) == len(DASHBOARD["panels"])
    used = set(re.findall(r"\$\{?(\w+)", json.dumps(DASHBOARD)))
    assert used - {"__rate_interval", "__all"} == {variable["name"] for variable in DASHBOARD["templating"]["list"]}


def expressions():
    """Of the dashboard, as Grafana asks them for all; of the alerts, what their thresholds are compared with."""
    for target in itertools.chain.from_iterable(panel["targets"] for panel in PANELS):
        yield re.sub(r"\$(job|instance|model)\b", ".*", target["expr"]).replace("$__rate_interval", "1m")
    for rule in RULES.values():
        yield from SELECTOR.findall(rule["expr"])


# ---- a real Prometheus ----

ODD = """
def execute(self, requests):
    return [answer(np.zeros(2, np.float32)) for request in requests]
"""
QUEUE_OF_ONE = 'parameters { key: "execute_delay_ms" value { string_value: "300" } } dynamic_batching { default_queue_policy { max_queue_size: 1 } }'


def on_gpu(number):
    return f"instance_group [ {{ kind: KIND_GPU gpus: [ {number} ] }} ] dynamic_batching {{ }}"


def infer(server, model, body=BODY):
    return server.ask(f"/v2/models/{model}/infer", body).status


def fill_queue(server):
    body = BODY.replace(b"[2,1]", b"[1,2]")
    with concurrent.futures.ThreadPoolExecutor(4) as threads:
        return 503 in threads.map(lambda _: infer(server, "busy", body), range(4))


@pytest.fixture
def servers(start_server, tmp_path):
    """Two that have met all that is counted: with GPUs of which one is lost, models on demand and the local cache; with Redis."""
    gpus = fake_gpus(tmp_path, 2)
    models, others = tmp_path / "models", tmp_path / "others"
    make_identity(models, "m", more=on_gpu(0))
    make_identity(models, "lost", more=on_gpu(1))
    make_identity(models, "busy", max_batch_size=1, more=QUEUE_OF_ONE)
    make_python(models, "odd", ODD)
    for repository in (models, others):
        make_cached(repository, "cached")
    flags = ["--model-control-mode=ondemand", f"--access-log={tmp_path}/access.log", *local(), *ON, to_file(tmp_path / "trace.json")]
    with redis(tmp_path) as store:
        first = start_server(models, flags=flags, variables=gpus.variables)
        second = start_server(others, flags=store.flags())
        assert [infer(first, name) for name in ("m", "lost")] == [200, 200]
        assert infer(first, "m", BODY.replace(b"FP32", b"INT8")) == 400
        assert infer(first, "odd", b'{"inputs":[{"name":"IN","shape":[1],"datatype":"INT32","data":[1]}]}') == 200
        wait_for("a full queue", lambda: fill_queue(first))
        wait_for("the watch", lambda: gpus.counters()["nvmlDeviceRegisterEvents"] > 0)
        gpus.devices[1]["xids"] = [79]
        gpus.write()
        yield first, second


@pytest.mark.slow
def test_each_expression_finds_something(servers, tmp_path):
    left, news = set(expressions()), itertools.count()
    with scraping(tmp_path, [server.metrics_port for server in servers], [ALERTS]) as prometheus:
        def all_found():
            assert infer(servers[0], "m") == 200
            for server in servers:
                assert [infer(server, "cached", cached_body([value])) for value in (0, next(news))] == [200, 200]
            left.difference_update([expression for expression in left if prometheus.values(expression)])
            return not left

        try:
            wait_for("samples", all_found)
        finally:
            print("without a sample:", *sorted(left), sep="\n  ")
        groups = prometheus.ask("rules")["groups"]
        rules = wait_for("the rules' evaluation", lambda: [
            rule for group in prometheus.ask("rules")["groups"] for rule in group["rules"] if rule["health"] != "unknown"])
        assert len(groups) == 1 and {rule["name"]: rule["health"] for rule in rules} == dict.fromkeys(RULES, "ok")
        alert, = wait_for("the GPU's alert", lambda: [a for a in prometheus.ask("alerts")["alerts"] if a["labels"]["alertname"] == "NereidGpuFault"])
        assert alert["state"] == "firing" and "cannot be used any more (Xid 79)" in alert["annotations"]["summary"]


# ---- when alerts fire ----

UP = {'up{job="nereid",instance="a"}': "1x60"}
LABELS = 'job="nereid",instance="a"'
MODEL = f'{LABELS},model="m"'
SUCCESS = f"nv_inference_request_success{{{MODEL}}}"


def failure(reason):
    return f'nv_inference_request_failure{{{MODEL},reason="{reason}"}}'


def refused(reason):
    return f'nereid_inference_refused_total{{{MODEL},reason="{reason}"}}'


def durations(part, count):
    return f"nv_inference_{part}_duration_us{{{MODEL}}}", f"0+{count}x60"


def of_server(name, values, more=""):
    return {f"{name}{{{LABELS}{more}}}": values}


GPU = ',gpu_uuid="GPU-1"'
GROWS, STAYS = "0x30 2x30", "2x60"  # a counter, seen at minute 40
# By alert: series for a minute each, once such that it fires and once such that it just does not. Minute 40 is looked at.
SITUATIONS = {
    "NereidDown": ([{'up{job="nereid",instance="a"}': "0x60"}], UP),
    "NereidAbsent": ([{'up{job="other",instance="a"}': "1x60"}], UP),
    "NereidRequestsFail": (
        [UP | {SUCCESS: "0+100x60", failure("BACKEND"): "0+10x60"}, UP | {SUCCESS: "0x60", failure("OTHER"): "0+1x60"}],
        UP | {SUCCESS: "0+100x60", failure("BACKEND"): "0+5x60", failure("CANCELED"): "0+100x60"}),
    "NereidOverloaded": (
        [UP | {SUCCESS: "0+100x60", failure("REJECTED"): "0+3x60", refused("latency"): "0+3x60"}, UP | {SUCCESS: "0x60", refused("queue_full"): "0+1x60"}],
        UP | {SUCCESS: "0+100x60", failure("REJECTED"): "0+5x60", refused("invalid"): "0+100x60"}),
    "NereidRequestsWait": (
        [UP | dict([(SUCCESS, "0+100x60"), durations("queue", 12_000_000)])], UP | dict([(SUCCESS, "0+100x60"), durations("queue", 9_000_000)])),
    "NereidSlow": (
        [UP | {f'nereid_request_duration_seconds_bucket{{{MODEL},le="1"}}': "0+97x60", f"nereid_request_duration_seconds_count{{{MODEL}}}": "0+100x60"}],
        UP | {f'nereid_request_duration_seconds_bucket{{{MODEL},le="1"}}': "0+199x60", f"nereid_request_duration_seconds_count{{{MODEL}}}": "0+200x60"}),
    "NereidOutputMismatch": (
        [UP | of_server("nereid_output_mismatch_total", "_x30 1x30", ',model="m",output="OUT"'),
         UP | of_server("nereid_output_mismatch_total", GROWS, ',model="m",output="OUT"')],
        UP | of_server("nereid_output_mismatch_total", STAYS, ',model="m",output="OUT"')),
    "NereidLoadsFail": ([UP | of_server("nereid_demand_failures_total", GROWS)], UP | of_server("nereid_demand_failures_total", STAYS)),
    "NereidMemoryFull": (
        [UP | of_server("nv_cpu_memory_used_bytes", "96x60") | of_server("nv_cpu_memory_total_bytes", "100x60")],
        UP | of_server("nv_cpu_memory_used_bytes", "94x60") | of_server("nv_cpu_memory_total_bytes", "100x60")),
    "NereidGpuFault": ([UP | of_server("nereid_gpu_fault", "1x60", GPU + ',code="Xid 79"')], UP),
    "NereidGpuXid": ([UP | of_server("nereid_gpu_xids_total", GROWS, GPU)], UP | of_server("nereid_gpu_xids_total", STAYS, GPU)),
    "NereidGpuMemoryFull": (
        [UP | of_server("nv_gpu_memory_used_bytes", "96x60", GPU) | of_server("nv_gpu_memory_total_bytes", "100x60", GPU)],
        UP | of_server("nv_gpu_memory_used_bytes", "94x60", GPU) | of_server("nv_gpu_memory_total_bytes", "100x60", GPU)),
    "NereidCacheLost": ([UP | of_server("nereid_cache_redis_up", "0x60")], UP | of_server("nereid_cache_redis_up", "0x37 1x20")),
    "NereidLinesLost": (
        [UP | of_server(f"nereid_{log}_dropped_lines_total", GROWS) for log in ("log", "access_log")],
        UP | of_server("nereid_log_dropped_lines_total", STAYS) | of_server("nereid_access_log_dropped_lines_total", STAYS)),
    "NereidTracesLost": ([UP | of_server("nereid_trace_dropped_total", GROWS)], UP | of_server("nereid_trace_dropped_total", STAYS)),
}


def situation(series, firing):
    expected = [{"labels": f'{{alertname="{name}"}}', "value": 1} for name in firing]
    return {"interval": "1m", "input_series": [{"series": name, "values": values} for name, values in series.items()],
            "promql_expr_test": [{"expr": 'count by (alertname) (ALERTS{alertstate="firing"})', "eval_time": "40m", "exp_samples": expected}]}


@pytest.mark.slow
def test_each_alert_fires_where_it_should_and_no_other_does(tmp_path):
    assert SITUATIONS.keys() == RULES.keys()
    cases = [(series, [alert]) for alert, (firing, _) in SITUATIONS.items() for series in firing]
    cases += [(quiet, []) for _, quiet in SITUATIONS.values()]
    tests = tmp_path / "tests.yaml"
    tests.write_text(yaml.safe_dump({"rule_files": [str(ALERTS)], "tests": [situation(*case) for case in cases]}))
    done = subprocess.run(["promtool", "test", "rules", tests], capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode == 0, done.stdout + done.stderr
