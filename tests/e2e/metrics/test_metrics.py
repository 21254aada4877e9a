# SPDX-License-Identifier: Apache-2.0
"""Metrics as Prometheus sees them: its own parser, its own linter, and a real Prometheus that scrapes."""
import concurrent.futures
import contextlib
import gzip
import json
import os
import re
import socket
import subprocess
import threading
import urllib.request
import zlib

import pytest
from conftest import PATIENCE, copy_model, make_faulty, make_identity, wait_for
from prometheus import scraping
from prometheus_client.parser import text_string_to_metric_families
from test_sockets import UnixConnection

BODY = b'{"inputs":[{"name":"INPUT0","shape":[2,1],"datatype":"FP32","data":[1,2]}]}'


def scrape(server):
    answer = server.ask("/metrics", port=server.metrics_port)
    assert answer.status == 200 and answer.headers["Content-Type"].startswith("text/plain")
    return answer.text


def samples(server, **labels):
    """Name (and reason, where there is one) → value of the samples that carry these labels, of the model as a whole."""
    found = {}
    for family in text_string_to_metric_families(scrape(server)):
        for s in family.samples:
            if labels.items() <= s.labels.items() and "le" not in s.labels and "gpu_uuid" not in s.labels:
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
    assert server.ask("/v2/models/m/infer", BODY[:-3]).status == 400
    body = {"inputs": [{"name": "INPUT0", "shape": [1], "datatype": "INT32", "data": [1]}]}
    body["parameters"] = {"fault": "execute_error"}
    assert server.ask("/v2/models/faulty/infer", json.dumps(body).encode()).status == 500
    m = samples(server, model="m", version="1")
    assert m["nv_inference_request_success"] == 5
    assert m["nv_inference_count"] == 10
    assert m["nv_inference_exec_count"] == 5
    failures = {k.split(":")[1]: v for k, v in m.items() if k.startswith("nv_inference_request_failure")}
    assert failures == {"REJECTED": 0, "CANCELED": 0, "BACKEND": 0, "OTHER": 0}
    assert m["nereid_inference_refused:invalid"] == 1 and m["nereid_inference_refused:malformed"] == 1
    faulty = samples(server, model="faulty")
    failures = {k.split(":")[1]: v for k, v in faulty.items() if k.startswith("nv_inference_request_failure")}
    assert failures == {"REJECTED": 0, "CANCELED": 0, "BACKEND": 1, "OTHER": 0}
    assert m["nv_inference_pending_request_count"] == 0
    assert m["nv_model_load_duration_secs"] > 0
    assert m["nereid_request_duration_seconds_count"] == 5
    assert not any(name.startswith("nereid_inference_refused") for name in faulty)


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
    server = start_server(repository, flags=["--allow-cpu-metrics=false", "--metrics-config=nereid_histograms=none"])
    assert server.ask("/v2/models/m/infer", BODY).status == 200
    text = scrape(server)
    assert "nv_cpu" not in text and "nv_inference_count" in text and "_bucket" not in text
    server = start_server(repository, flags=["--allow-metrics=false"])
    assert "Metrics Service" not in server.log


def families(text):
    return {line.split()[2] for line in text.splitlines() if line.startswith("# TYPE")}


def test_the_http_port_has_metrics_where_they_are_asked_for(start_server, repository, machine_address):
    make_identity(repository, "m")
    server = start_server(repository)
    assert server.ask("/metrics").status == 404  # as Triton
    server = start_server(repository, flags=["--metrics-on-http", "--http-address=0.0.0.0"])
    assert server.ask("/v2/models/m/infer", BODY).status == 200
    for path in ("/metrics", "/metrics/"):
        answer = server.ask(path)
        assert answer.status == 200 and answer.headers["Content-Type"] == "text/plain; charset=utf-8"
        assert families(answer.text) == families(scrape(server)) and "nv_inference_request_success" in answer.text
    packed = server.ask("/metrics", headers={"Accept-Encoding": "gzip"})
    assert families(gzip.decompress(packed.body).decode()) == families(scrape(server))
    assert server.ask("/metrics", method="HEAD").status == 200
    assert server.ask("/metrics", b"").status == 405 and server.ask("/other").status == 404
    with urllib.request.urlopen(f"http://{machine_address}:{server.http_port}/metrics", timeout=PATIENCE) as reply:
        assert families(reply.read().decode()) == families(scrape(server))
    server = start_server(repository, flags=["--metrics-on-http", "--allow-metrics=false"])
    assert server.ask("/metrics").status == 404


def test_who_may_read_statistics_may_read_metrics_at_the_http_port(start_server, repository, tmp_path):
    make_identity(repository, "m")
    admin = str(tmp_path / "admin.sock")
    flags = ["--metrics-on-http", "--secure", "--allow-root"]
    assert start_server(repository, flags=flags).ask("/metrics").status == 200  # statistics are no admin requests
    server = start_server(repository, flags=[*flags, f"--admin-address=unix:{admin}", "--http-restricted-api=statistics:the-key=secret"])
    refused = server.ask("/metrics")
    assert refused.status == 403 and json.loads(refused.text)["error"] == "This API is restricted, expecting header 'the-key'"
    assert server.ask("/metrics", headers={"the-key": "wrong"}).status == 403
    assert server.ask("/metrics", headers={"the-key": "secret"}).status == 200
    assert scrape(server)  # its own port wants none
    with contextlib.closing(UnixConnection(admin)) as connection:
        connection.request("GET", "/metrics")
        assert connection.getresponse().status == 200


def buckets(text, family):
    return [line.split('le="')[1].split('"')[0] for line in text.splitlines() if line.startswith(f"{family}_bucket") and 'model="m"' in line]


def test_all_histograms_are_there_where_they_are_asked_for(start_server, repository):
    make_identity(repository, "m")
    server = start_server(repository, flags=["--metrics-config=nereid_histograms=all"])
    assert "_bucket" not in scrape(server)  # before a request
    assert server.ask("/v2/models/m/infer", BODY).status == 200
    m, text = samples(server, model="m"), scrape(server)
    for part in ("request", "queue", "compute_infer"):
        assert m[f"nereid_{part}_duration_seconds_count"] == 1 and len(buckets(text, f"nereid_{part}_duration_seconds")) == 23
    assert m["nereid_batch_size_sum"] == 2 and len(buckets(text, "nereid_batch_size")) == 12
    assert m["nv_inference_first_response_histogram_ms_count"] == 1
    assert len(buckets(text, "nv_inference_first_response_histogram_ms")) == 15


def test_few_buckets_count_what_many_do(start_server, repository):
    """The bounds that are shown are among those that count."""
    make_identity(repository, "m", more='parameters { key: "execute_delay_ms" value { string_value: "20" } }')
    server = start_server(repository)
    assert server.ask("/v2/models/m/infer", BODY).status == 200
    text = scrape(server)
    assert buckets(text, "nereid_request_duration_seconds") == ["0.01", "0.1", "1", "+Inf"]
    counts = [int(line.split()[-1]) for line in text.splitlines() if line.startswith("nereid_request_duration_seconds_bucket")]
    assert counts[0] == 0 and counts[-1] == 1 and counts == sorted(counts)


def test_a_model_has_few_series(start_server, repository):
    """15 until it is used, 22 with its first request, 27 with its first refusal."""
    more = ('parameters { key: "execute_delay_ms" value { string_value: "300" } }'
            "dynamic_batching { default_queue_policy { max_queue_size: 1 } }")
    make_identity(repository, "m", max_batch_size=1, more=more)
    server = start_server(repository)

    def series():
        return [line for line in scrape(server).splitlines() if 'model="m"' in line and not line.startswith("input_byte_size")]

    assert len(series()) == 15
    body = BODY.replace(b"[2,1]", b"[1,2]")
    assert server.ask("/v2/models/m/infer", body).status == 200
    assert len(series()) == 22
    with concurrent.futures.ThreadPoolExecutor(4) as threads:
        wait_for("a refusal", lambda: 503 in [answer.status for answer in threads.map(lambda _: server.ask("/v2/models/m/infer", body), range(4))])
    assert server.ask("/v2/models/m/infer", body[:-3]).status == 400
    assert len(series()) == 27


def test_a_scrape_of_5000_used_models_is_at_most_8_mb(start_server, repository):
    """Of as many as these; a number counts as one digit, since a loaded machine's are longer."""
    names = [f"model_{i:04}" for i in range(20)]
    for name in names:
        make_identity(repository, name)
    server = start_server(repository)
    for name in names:
        assert server.ask(f"/v2/models/{name}/infer", BODY).status == 200
    lines = [line.rsplit(" ", 1)[0] + " 7\n" for line in scrape(server).splitlines() if 'model="model_' in line]
    assert sum(map(len, lines)) / len(names) * 5000 <= 8_000_000


BUCKETS = """
model_metrics { metric_control {
  metric_identifier { family: "%s" } histogram_options { buckets: %s } } }
"""


@pytest.mark.parametrize("family, given, shown, said", [
    ("nv_inference_first_response_histogram_ms", "[1, 2.5, 1e3]", ["1", "2.5", "1000", "+Inf"], None),
    ("nv_inference_first_response_histogram_ms", "[2, 1]", ["100", "500", "2000", "5000", "+Inf"],
     "has no effect: Bucket Boundaries must be strictly sorted"),
    ("other", "[2, 1]", ["100", "500", "2000", "5000", "+Inf"], "is not a customizable metric in Triton core"),
], ids=("good", "unsorted", "another family"))
def test_a_model_chooses_its_buckets(start_server, repository, family, given, shown, said):
    make_identity(repository, "m", more=BUCKETS % (family, given))
    server = start_server(repository, flags=["--metrics-config=histogram_latencies=true"])
    assert buckets(scrape(server), "nv_inference_first_response_histogram_ms") == shown
    assert said is None or f"model 'm': Metric family '{family}' in 'metric_identifier' {said}" in server.log
    assert said is not None or "Metric family" not in server.log


@pytest.mark.parametrize("count", [1, 30], ids=("small", "large"))
def test_a_scrape_is_packed_for_who_takes_it(start_server, repository, count):
    for i in range(count):
        make_identity(repository, f"m{i}", more="".join(tag(f"k{k}", f"{i}, {k}") for k in range(500)) if count > 1 else "")
    server = start_server(repository, flags=["--allow-cpu-metrics=false"])
    plain = server.ask("/metrics", port=server.metrics_port)
    assert (len(plain.body) > 2**21) == (count > 1)
    for accepted, coding in (("gzip", "gzip"), ("deflate", "deflate"), ("br", None), ("identity", None), ("gzip;q=0, *", None)):
        packed = server.ask("/metrics", port=server.metrics_port, headers={"Accept-Encoding": accepted})
        assert packed.headers.get("Content-Encoding") == coding and packed.headers["Vary"] == "Accept-Encoding"
        unpack = {"gzip": gzip.decompress, "deflate": zlib.decompress, None: bytes}[coding]
        assert unpack(packed.body) == plain.body
        assert coding is None or len(packed.body) < len(plain.body) / 3
    head = server.ask("/metrics", method="HEAD", port=server.metrics_port, headers={"Accept-Encoding": "gzip"})
    assert head.status == 200 and head.headers["Content-Encoding"] == "gzip" and head.body == b""


def test_times_of_http_are_not_those_of_scrapes(start_server, repository):
    """A scrape that pauses is answered though HTTP's clients had to be quicker meanwhile."""
    server = start_server(repository, flags=["--http-header-timeout-ms=100", "--http-idle-timeout-ms=100"], ready=False)

    def connect(port):
        connection = socket.create_connection(("localhost", port), timeout=PATIENCE)
        connection.sendall(b"GET /metrics HTTP/1.1\r\n")
        return connection

    with connect(server.metrics_port) as scraping:
        for _ in range(2):  # what watches the two ports looks at them at different times
            with connect(server.http_port) as slow:
                assert slow.recv(1) == b""
        scraping.sendall(b"Host: x\r\n\r\n")
        assert scraping.recv(12) == b"HTTP/1.1 200"


def test_a_client_that_speaks_another_protocol_is_told_of_with_the_ports_name(start_server, repository):
    server = start_server(repository)
    with socket.create_connection(("localhost", server.metrics_port), timeout=PATIENCE) as client:
        client.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
        assert client.recv(12) == b"HTTP/1.1 505"
    wait_for("the line", lambda: "a client of the metrics port was refused" in server.log)
    assert "of the HTTP port" not in server.log


def tag(key, value="v"):
    def text(data):
        return '"' + "".join(f"\\{byte:03o}" for byte in data.encode(errors="surrogateescape")) + '"'

    return f"metric_tags {{ key: {text(key)} value: {text(value)} }}\n"


HOSTILE = ['a"b', "a\\b", "a\nb", 'version="1"', '",x="', "}", "ü\u2028\U0001f600", "\t\r\x01\x7f", "\\", '"', "", "#", "{} 1"]


def test_no_tag_breaks_a_scrape(start_server, repository):
    """Triton 2.51 ends with a label that Prometheus does not know, and shows bytes that are no UTF-8 as they are."""
    values = dict(zip((f"k{i}" for i in range(len(HOSTILE))), HOSTILE))
    make_identity(repository, "plain")
    make_identity(repository, "m", more="".join(tag(*pair) for pair in values.items()) + tag("version", "blue") + tag("k0", HOSTILE[0]))
    make_identity(repository, "many", more="".join(tag(f"k{i}") for i in range(500)))
    make_identity(repository, "odd", more="".join(tag(key) for key in ("a-b", "_x", "é", "a b", "\n", "9", "", "model", "le"))
                  + tag("cut", "a\udcffb"))
    server = start_server(repository)
    for name in ("plain", "m", "many", "odd"):
        assert server.ask(f"/v2/models/{name}/infer", BODY).status == 200
        assert server.ask(f"/v2/models/{name}/infer", BODY.replace(b"FP32", b"INT8")).status == 400
    found = {}
    for family in text_string_to_metric_families(scrape(server)):
        for s in family.samples:
            if family.name.startswith(("nv_inf", "nereid_inf", "nereid_req")) and s.name != "input_byte_size_counter":
                found.setdefault(s.labels["model"], []).append({k: v for k, v in s.labels.items() if k not in ("le", "reason")})
    expected = {
        "plain": {},
        "m": {**{f"_{key}": value for key, value in values.items()}, "_version": "blue"},
        "many": {f"_k{i}": "v" for i in range(500)},
        "odd": {"_9": "v", "_": "v", "_model": "v", "_le": "v", "_cut": "a\ufffdb"},
    }
    for name, labels in expected.items():
        assert found[name] and all(row == {**labels, "model": name, "version": "1"} for row in found[name])
    lines = [line for line in server.log.splitlines() if "metric_tags" in line]
    assert len(lines) == 1 and "'odd'" in lines[0] and "'a-b', '_x'" in lines[0]
    checked = subprocess.run(["promtool", "check", "metrics"], input=scrape(server), capture_output=True, text=True)
    assert checked.returncode in (0, 3), checked.stderr


def test_scrapes_go_on_while_models_come_and_go(start_server, repository):
    """A version has one row though a reload has two copies of it, and nothing waits for a scrape."""
    for name in "abc":
        make_identity(repository, name)
    server = start_server(repository, flags=["--model-control-mode=explicit", "--load-model=*",
                                             "--metrics-config=summary_latencies=true", "--metrics-config=nereid_histograms=all"])
    done = threading.Event()

    def scrape_on():
        seen = 0
        while not done.is_set():
            text = scrape(server)
            names = [line.rsplit(" ", 1)[0] for line in text.splitlines()]
            assert len(names) == len(set(names))
            list(text_string_to_metric_families(text))
            seen += 1
        return seen

    def reload(name):
        for _ in range(10):
            assert server.ask(f"/v2/models/{name}/infer", BODY).status == 200
            os.utime(repository / name / "config.pbtxt")
            assert server.ask(f"/v2/repository/models/{name}/load", b"").status == 200
        assert server.ask(f"/v2/repository/models/{name}/unload", b"").status == 200

    with concurrent.futures.ThreadPoolExecutor(4) as threads:
        scraper = threads.submit(scrape_on)
        list(threads.map(reload, "abc"))
        done.set()
        assert scraper.result() > 0
    wait_for("the models' end", lambda: "nv_inference_count{" not in scrape(server))


def test_a_real_prometheus_scrapes_it(start_server, repository, tmp_path):
    make_identity(repository, "m")
    server = start_server(repository)
    for _ in range(4):
        server.ask("/v2/models/m/infer", BODY)
    with scraping(tmp_path, [server.metrics_port]) as prometheus:
        success = 'nv_inference_request_success{model="m",version="1"}'
        assert wait_for("a scraped sample", lambda: prometheus.values(success)) == [4]


def test_opened_frameworks_are_told(start_server, repository):
    """Each library once, however many models run on it, and the same in metrics, table and log."""
    copy_model(repository, "digits")
    copy_model(repository, "add_sub")
    make_identity(repository, "m")
    server = start_server(repository)
    families = {f.name: f for f in text_string_to_metric_families(scrape(server))}
    (sample,) = families["nereid_framework_open_seconds"].samples
    labels = sample.labels
    assert set(labels) == {"backend", "framework", "version", "path"} and labels["backend"] == "onnxruntime"
    assert f'using {labels["framework"]} {labels["version"]} from {labels["path"]}"' in server.log
    assert 0 < sample.value <= max(s.value for s in families["nv_model_load_duration_secs"].samples)
    rows = [line.split("|") for line in server.log.splitlines() if line.startswith("| ") and line.count("|") == 5]
    assert [cell.strip() for cell in rows[0][1:5]] == ["Backend", "Path", "Config", "Framework"]
    cell = "".join(row[4].strip() for row in rows[1:])  # it goes on in as many lines as it needs
    assert cell.replace(" ", "") == f'{labels["framework"]}{labels["version"]}from{labels["path"]}'.replace(" ", "")


def test_without_a_framework_the_table_of_backends_is_tritons(start_server, repository):
    make_identity(repository, "m")
    server = start_server(repository)
    assert re.search(r"^\| Backend +\| Path +\| Config +\|$", server.log, re.M)
    assert "nereid_framework_open_seconds" not in scrape(server)
