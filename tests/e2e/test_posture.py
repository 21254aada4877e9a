"""Who may do what: every route, method and listener, from this machine and from another, by default and under --secure
(rows 53, 55 and 56 of the scorecard; docs/security.md)."""
import http.client
import json
import os
import pathlib
import re
import socket
import subprocess

import pytest
from conftest import copy_model, make_identity, wait_for

PAGE = pathlib.Path(__file__).with_name("posture.txt")
METHODS = ["GET", "HEAD", "POST", "PUT", "DELETE", "PATCH", "OPTIONS"]
EXPLICIT = ["--http-address=0.0.0.0", "--model-control-mode=explicit", "--load-model=identity"]
SECURE = [*EXPLICIT, "--secure", "--allow-root"]
EVERYWHERE = [*EXPLICIT, "--grpc-address=0.0.0.0"]
COLUMNS = ["local", "stranger", "secure local", "secure stranger"]


def page():
    """(methods, path, category, statuses by column)"""
    for line in PAGE.read_text().splitlines():
        if line and not line.startswith("#"):
            methods, path, category, *statuses = line.split()
            yield methods.split(","), path, category, dict(zip(COLUMNS, map(int, statuses), strict=True))


@pytest.fixture
def models(repository):
    make_identity(repository, "identity")
    make_identity(repository, "spare")
    return repository


def ask(address, port, method, path, body=None, headers=None):
    connection = http.client.HTTPConnection(address, port, timeout=60)
    try:
        connection.request(method, path, body, headers or {})
        answer = connection.getresponse()
        return answer.status, answer.read().decode()
    finally:
        connection.close()


def filled(path):
    model = "spare" if path.startswith("/v2/repository") else "identity"
    for name, value in {"{model}": model, "{version}": "1", "{repository}": "r", "{region}": "r"}.items():
        path = path.replace(name, value)
    return path


def walk(address, port, column):
    allowed = {}
    for methods, path, _, _ in page():
        allowed.setdefault(path, set()).update(methods)
    for methods, path, _, statuses in page():
        for method in methods:
            status, text = ask(address, port, method, filled(path))
            assert status == statuses[column], f"{column}: {method} {path}: {status} {text}"
            if status >= 400 and text:
                assert isinstance(json.loads(text)["error"], str)
    for path, methods in allowed.items():
        for method in METHODS:
            if method not in methods and not (method == "HEAD" and "GET" in methods):
                assert ask(address, port, method, filled(path))[0] == 405, f"{method} {path}"


@pytest.mark.parametrize("flags, prefix", [(EXPLICIT, ""), (SECURE, "secure ")], ids=["default", "secure"])
def test_each_route_answers_as_the_page_says(start_server, models, machine_address, flags, prefix):
    server = start_server(models, flags=flags)
    walk("127.0.0.1", server.http_port, prefix + "local")
    walk(machine_address, server.http_port, prefix + "stranger")


def test_the_metrics_listener_has_no_other_route(start_server, models):
    server = start_server(models, flags=EXPLICIT)
    for _, path, _, _ in page():
        assert ask("127.0.0.1", server.metrics_port, "GET", filled(path)) == (200, ""), path
        assert ask("127.0.0.1", server.metrics_port, "POST", filled(path))[0] == 405, path
    assert "nv_inference_count" in ask("127.0.0.1", server.metrics_port, "GET", "/metrics")[1]


INDEX = "/v2/repository/index"
FOREIGN = {
    "Host of another": ({"Host": "attacker.example:8000"}, 403, "Host"),
    "Host like ours": ({"Host": "localhost.attacker.example"}, 403, "Host"),
    "Origin of another": ({"Origin": "http://attacker.example"}, 403, "Origin"),
    "Origin on another port": ({"Origin": "http://localhost:1"}, 403, "Origin"),
    "Origin of nobody": ({"Origin": "null"}, 403, "Origin"),
    "through a proxy": ({"X-Forwarded-For": "127.0.0.1"}, 403, "proxy"),
    "through a proxy, standard": ({"Forwarded": "for=127.0.0.1"}, 403, "proxy"),
    "a form": ({"Content-Type": "application/x-www-form-urlencoded"}, 415, "application/json"),
    "plain text": ({"Content-Type": "text/plain"}, 415, "text/plain"),
    "JSON in name only": ({"Content-Type": "application/jsonp"}, 415, "application/jsonp"),
    "JSON": ({"Content-Type": "application/json; charset=utf-8"}, 200, ""),
    "our own Origin": ({"Host": "localhost:8000", "Origin": "http://localhost:8000"}, 200, ""),
    "no type": ({}, 200, ""),
}


def test_secure_refuses_pages_of_other_sites(start_server, models):
    server = start_server(models, flags=SECURE)
    for name, (headers, status, words) in FOREIGN.items():
        answer = ask("127.0.0.1", server.http_port, "POST", INDEX, b"{}", headers)
        assert answer[0] == status and words in answer[1], f"{name}: {answer}"
    body = json.dumps({"inputs": [{"name": "INPUT0", "shape": [1, 1], "datatype": "FP32", "data": [7]}]}).encode()
    headers = {"Host": "models.example", "Origin": "http://app.example", "Content-Type": "text/plain"}
    assert ask("127.0.0.1", server.http_port, "POST", "/v2/models/identity/infer", body, headers)[0] == 200


def config(**changes):
    whole = {
        "name": "spare",
        "backend": "identity",
        "max_batch_size": 8,
        "input": [{"name": "INPUT0", "data_type": "TYPE_FP32", "dims": [-1]}],
        "output": [{"name": "OUTPUT0", "data_type": "TYPE_FP32", "dims": [-1]}],
    }
    return json.dumps(whole | changes)


def parameter(key):
    return {"parameters": {key: {"string_value": "/etc/passwd"}}}


# What strangers may not bring, and the word of the refusal.
CODE = {
    "backend": (config(backend="onnxruntime"), "'backend'"),
    "platform": (config(backend="", platform="onnxruntime_onnx"), "'platform'"),
    "runtime": (config(runtime="libtriton_other.so"), "'runtime'"),
    "file of the model": (config(default_model_filename="other.py"), "'default_model_filename'"),
    "operators": (config(model_operations={"op_library_filename": ["x.so"]}), "'model_operations'"),
    "operators, other spelling": (config(modelOperations={"opLibraryFilename": ["x.so"]}), "'model_operations'"),
    "agents": (config(model_repository_agents={"agents": [{"name": "a"}]}), "'model_repository_agents'"),
    "environment": (config(**parameter("EXECUTION_ENV_PATH")), "'EXECUTION_ENV_PATH'"),
    "library": (config(**parameter("onnxruntime_library")), "'onnxruntime_library'"),
    "batching library": (config(**parameter("TRITON_BATCH_STRATEGY_PATH")), "'TRITON_BATCH_STRATEGY_PATH'"),
}


def load(address, server, **parameters):
    body = json.dumps({"parameters": parameters}).encode()
    return ask(address, server.http_port, "POST", "/v2/repository/models/spare/load", body)


def test_strangers_bring_no_code(start_server, models, machine_address):
    server = start_server(models, flags=EXPLICIT)
    status, text = load(machine_address, server, config=config())
    assert status == 403 and "'backend'" in text and "--allow-model-upload" in text, text  # it is not loaded: nothing to compare
    assert load("127.0.0.1", server)[0] == 200
    assert load(machine_address, server, config=config(max_batch_size=4))[0] == 200  # the code that runs already
    for name, (text, words) in CODE.items():
        status, answer = load(machine_address, server, config=text)
        assert status == 403 and words in answer, f"{name}: {status} {answer}"
    status, answer = load(machine_address, server, **{"config": config(), "file:1/model.onnx": "AAAA"})
    assert status == 403 and "a file of a model" in answer, answer
    twice = config()[:-1] + ', "backend": "other"}'
    assert load(machine_address, server, config=twice)[0] == 400
    metadata = json.loads(ask("127.0.0.1", server.http_port, "GET", "/v2/models/spare/config")[1])
    assert metadata["max_batch_size"] == 4 and metadata["backend"] == "identity"


def test_strangers_bring_code_when_they_may(start_server, models, machine_address):
    server = start_server(models, flags=[*EXPLICIT, "--allow-model-upload"])
    assert load(machine_address, server, config=config())[0] == 200
    assert "strangers can bring code" in server.log


@pytest.mark.parametrize(
    "flags, words",
    [
        (EVERYWHERE, r'can reach at 0\.0\.0\.0:%d: model-repository, trace, logging \(--secure keeps them to this machine\)"'),
        ([*EVERYWHERE, *SECURE], r'can reach at 0\.0\.0\.0:%d: none \(--secure\)"'),
        ([], r"can reach at 127\.0\.0\.1:%d: none, the address is this machine's only\""),
    ],
    ids=["default", "secure", "loopback"],
)
def test_a_line_says_what_strangers_reach(start_server, models, flags, words):
    server = start_server(models, flags=flags)
    lines = [line for line in server.log.splitlines() if "strangers can reach" in line]
    ports = (server.http_port, server.grpc_port)
    assert len(lines) == 2 and all(re.search(words % port, line) for port, line in zip(ports, lines)), server.log


def test_secure_does_not_run_as_root(nereid):
    done = subprocess.run([nereid, "--model-repository=/no/such", "--secure"], capture_output=True, text=True)
    refused = done.stderr.startswith("error: --secure does not run as root")
    assert done.returncode == 1 and refused == (os.geteuid() == 0), done.stderr


def test_the_file_can_ask_for_strict_security(start_server, models, tmp_path):
    file = tmp_path / "nereid.yaml"
    file.write_text("security: strict\nallow-root: true\nhttp-idle-timeout-ms: 1\n")
    server = start_server(models, flags=[f"--config={file}", "--http-address=0.0.0.0"], ready=False)
    wait_for("the line", lambda: "none (--secure)" in server.log)


def test_a_timeout_that_is_given_counts_under_secure(start_server, models):
    """A request without an end: what the flag gives it counts, not the 5 s of --secure."""
    server = start_server(models, flags=[*SECURE, "--http-header-timeout-ms=300"])
    with socket.create_connection(("127.0.0.1", server.http_port)) as silent:
        silent.settimeout(20)
        silent.sendall(b"GET /v2 HTTP/1.1\r\n")
        assert silent.recv(100) == b""  # closed


def test_nothing_goes_out(start_server, repository, tmp_path):
    """Row 56: from its start to its stop the server connects to nobody and asks for no name."""
    make_identity(repository, "identity")
    copy_model(repository, "add_sub")
    record = tmp_path / "calls"
    trace = ["strace", "-D", "-f", "-qq", "-e", "trace=connect,sendto,sendmsg,sendmmsg,socket", "-e", "signal=none", "-o", str(record)]
    server = start_server(repository, flags=["--model-control-mode=explicit", "--load-model=*"], wrapper=trace)
    values = [{"name": f"INPUT{i}", "shape": [1, 16], "datatype": "FP32", "data": [1] * 16} for i in range(2)]
    body = json.dumps({"inputs": values}).encode()
    assert ask("127.0.0.1", server.http_port, "POST", "/v2/models/add_sub/infer", body)[0] == 200
    assert ask("127.0.0.1", server.http_port, "POST", "/v2/repository/models/add_sub/unload", b"")[0] == 200
    server.stop()
    calls = record.read_text().splitlines()
    assert any("socket(AF_INET" in call for call in calls)  # the listeners: something was recorded
    outward = [c for c in calls if re.search(r"sa_family=AF_INET6?\b", c) or re.search(r"socket\(AF_INET6?, SOCK_DGRAM", c)]
    assert outward == []
