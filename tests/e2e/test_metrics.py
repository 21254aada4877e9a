"""Metrics as Prometheus sees them: its own parser, its own linter, and a real Prometheus that scrapes."""
import json
import socket
import subprocess
import urllib.parse
import urllib.request

from conftest import make_faulty, make_identity, wait_for
from prometheus_client.parser import text_string_to_metric_families

BODY = b'{"inputs":[{"name":"INPUT0","shape":[2,1],"datatype":"FP32","data":[1,2]}]}'


def scrape(server):
    answer = server.ask("/metrics", port=server.metrics_port)
    assert answer.status == 200 and answer.headers["Content-Type"].startswith("text/plain")
    return answer.text


def samples(server, **labels):
    """Name (and reason, where there is one) → value of the samples that carry these labels."""
    found = {}
    for family in text_string_to_metric_families(scrape(server)):
        for s in family.samples:
            if labels.items() <= s.labels.items() and "le" not in s.labels:
                name = s.name.removesuffix("_total")  # the parser adds it to counters
                found[name + (":" + s.labels["reason"] if "reason" in s.labels else "")] = s.value
    return found


def test_counters_count_requests_rows_and_failures(start_server, repository):
    make_identity(repository, "m")
    make_faulty(repository)
    server = start_server(repository)
    for _ in range(5):
        assert server.ask("/v2/models/m/infer", BODY).status == 200
    assert server.ask("/v2/models/m/infer", BODY.replace(b"FP32", b"INT8")).status == 400
    body = {"inputs": [{"name": "INPUT0", "shape": [1], "datatype": "INT32", "data": [1]}]}
    body["parameters"] = {"fault": "execute_error"}
    assert server.ask("/v2/models/faulty/infer", json.dumps(body).encode()).status == 500
    m = samples(server, model="m", version="1")
    assert m["nv_inference_request_success"] == 5
    assert m["nv_inference_count"] == 10
    assert m["nv_inference_exec_count"] == 5
    failures = {k.split(":")[1]: v for k, v in m.items() if k.startswith("nv_inference_request_failure")}
    assert failures == {"REJECTED": 0, "CANCELED": 0, "BACKEND": 0, "OTHER": 1}
    faulty = samples(server, model="faulty")
    failures = {k.split(":")[1]: v for k, v in faulty.items() if k.startswith("nv_inference_request_failure")}
    assert failures == {"REJECTED": 0, "CANCELED": 0, "BACKEND": 1, "OTHER": 0}
    assert m["nv_inference_pending_request_count"] == 0
    assert m["nv_model_load_duration_secs"] > 0
    assert m["nereid_request_duration_seconds_count"] == 5 and m["nereid_batch_size_sum"] == 10
    assert m["nereid_queue_duration_seconds_count"] == 5
    assert m["nv_inference_first_response_histogram_ms_count"] == 5


def test_the_machine_is_measured(server):
    everything = samples(server)
    assert 0 <= everything["nv_cpu_utilization"] <= 1
    assert 0 < everything["nv_cpu_memory_used_bytes"] < everything["nv_cpu_memory_total_bytes"]


def test_counters_end_with_the_model(start_server, repository):
    make_identity(repository, "m")
    server = start_server(repository, flags=["--model-control-mode=explicit", "--load-model=m"])
    server.ask("/v2/models/m/infer", BODY)
    assert server.ask("/v2/repository/models/m/unload", b"").status == 200
    wait_for("the model's end", lambda: samples(server, model="m").keys() <= {"input_byte_size_counter"})


def test_promtool_has_nothing_to_say_of_our_own_names(start_server, repository):
    """Triton's names break Prometheus' conventions and stay as they are; the text must parse, and ours must be clean."""
    make_identity(repository, "m")
    server = start_server(repository)
    server.ask("/v2/models/m/infer", BODY)
    checked = subprocess.run(["promtool", "check", "metrics"], input=scrape(server), capture_output=True, text=True)
    complaints = [line for line in checked.stderr.splitlines() if line]
    assert checked.returncode in (0, 3), checked.stderr  # 1: it could not be parsed
    assert [c for c in complaints if not c.startswith(("nv_", "input_byte_size_counter"))] == []


def test_metrics_can_be_turned_off(start_server, repository):
    make_identity(repository, "m")
    server = start_server(repository, flags=["--allow-cpu-metrics=false", "--metrics-config=histogram_latencies=false"])
    text = scrape(server)
    assert "nv_cpu" not in text and "nv_inference_count" in text and "_bucket" not in text
    server = start_server(repository, flags=["--allow-metrics=false"])
    assert "Metrics Service" not in server.log


def test_a_real_prometheus_scrapes_it(start_server, repository, tmp_path):
    make_identity(repository, "m")
    server = start_server(repository)
    for _ in range(4):
        server.ask("/v2/models/m/infer", BODY)
    config = tmp_path / "prometheus.yml"
    config.write_text(
        "scrape_configs:\n- job_name: nereid\n  scrape_interval: 100ms\n  scrape_timeout: 100ms\n"
        f"  static_configs:\n  - targets: ['localhost:{server.metrics_port}']\n"
    )
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        prometheus = free.getsockname()[1]
    with open(tmp_path / "prometheus.log", "w") as log:
        process = subprocess.Popen(
            ["prometheus", f"--config.file={config}", f"--storage.tsdb.path={tmp_path}/data",
             f"--web.listen-address=127.0.0.1:{prometheus}"], stdout=log, stderr=subprocess.STDOUT,
        )
    try:
        def scraped():
            query = urllib.parse.urlencode({"query": 'nv_inference_request_success{model="m",version="1"}'})
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{prometheus}/api/v1/query?{query}", timeout=5) as reply:
                    result = json.load(reply)["data"]["result"]
            except OSError:
                return None
            return result and result[0]["value"][1]

        assert wait_for("a scraped sample", scraped) == "4"
    finally:
        process.terminate()
        process.wait()
