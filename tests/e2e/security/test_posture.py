# SPDX-License-Identifier: Apache-2.0
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
from conftest import PATIENCE, copy_model, make_identity, wait_for
from test_sockets import UnixConnection
from wire import talk

PAGE = pathlib.Path(__file__).with_name("posture.txt")
METHODS = ["GET", "HEAD", "POST", "PUT", "DELETE", "PATCH", "OPTIONS"]
EXPLICIT = ["--http-address=0.0.0.0", "--model-control-mode=explicit", "--load-model=identity"]
SECURE = [*EXPLICIT, "--secure", "--allow-root"]
EVERYWHERE = [*EXPLICIT, "--grpc-address=0.0.0.0"]
LOADED = EXPLICIT[1:]
COLUMNS = ["local", "stranger", "secure local", "secure stranger", "secure admin"]


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
    """`address` may be the path of a Unix socket."""
    connection = UnixConnection(address) if address.startswith("/") else http.client.HTTPConnection(address, port, timeout=PATIENCE)
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
def test_each_route_answers_as_the_page_says(start_server, models, machine_address, tmp_path, flags, prefix):
    admin = str(tmp_path / "admin.sock")
    server = start_server(models, flags=[*flags, f"--admin-address=unix:{admin}"])
    walk("127.0.0.1", server.http_port, prefix + "local")
    walk(machine_address, server.http_port, prefix + "stranger")
    walk(admin, None, "secure admin")


def test_the_metrics_listener_has_no_other_route(start_server, models):
    server = start_server(models, flags=EXPLICIT)
    for _, path, _, _ in page():
        assert ask("127.0.0.1", server.metrics_port, "GET", filled(path)) == (200, ""), path
        assert ask("127.0.0.1", server.metrics_port, "POST", filled(path))[0] == 405, path
    assert "nv_inference_count" in ask("127.0.0.1", server.metrics_port, "GET", "/metrics")[1]


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
    "written loosely": (config(runtime="x.so").replace('"', "'")[:-1] + ",}", "'runtime'"),
    "without quotes, and twice": (config(runtime="")[:-1] + ", runtime: 'x.so'}", "'runtime'"),
    "a member twice": (config()[:-1] + ', "backend": "other"}', "'backend'"),
    "a map twice": (config(parameters={})[:-1] + ", parameters: {plugin: {string_value: 'x.so'}}}", "'parameters'"),
    "a text where a list stands": (config(model_operations={"op_library_filename": "x.so"}), "'model_operations'"),
    "agents": (config(model_repository_agents={"agents": [{"name": "a"}]}), "'model_repository_agents'"),
    "environment": (config(**parameter("EXECUTION_ENV_PATH")), "'EXECUTION_ENV_PATH'"),
    "library": (config(**parameter("onnxruntime_library")), "'onnxruntime_library'"),
    **{name: (config(**parameter(name)), f"'{name}'") for name in ("openvino_library", "treelite_library")},
    "extension of OpenVINO": (config(**parameter("CPU_EXTENSION_PATH")), "'CPU_EXTENSION_PATH'"),
    "batching library": (config(**parameter("TRITON_BATCH_STRATEGY_PATH")), "'TRITON_BATCH_STRATEGY_PATH'"),
    "files by compute capability": (config(cc_model_filenames={"7.5": "other.plan"}), "'cc_model_filenames'"),
    "a path for a backend": (config(**parameter("executor_worker_path")), "'parameters'"),
    "a library for a backend": (config(parameters={"plugin": {"string_value": "x.so"}}), "'parameters'"),
    "a path for an accelerator": (config(optimization={"execution_accelerators": {"gpu_execution_accelerator": [
        {"name": "tensorrt", "parameters": {"trt_engine_cache_path": "/tmp/x"}}]}}), "'optimization'"),
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
    status, answer = load(machine_address, server, config=config()[:-1] + ", max_batch_size: True}")
    assert status == 400 and "expected a value, got 'True': write true" in answer, answer
    metadata = json.loads(ask("127.0.0.1", server.http_port, "GET", "/v2/models/spare/config")[1])
    assert metadata["max_batch_size"] == 4 and metadata["backend"] == "identity"


def test_strangers_bring_code_when_they_may(start_server, models, machine_address):
    server = start_server(models, flags=[*EXPLICIT, "--allow-model-upload"])
    assert load(machine_address, server, config=config())[0] == 200
    assert "strangers can bring code" in server.log


UPLOAD = json.dumps({"parameters": {"config": config(backend="onnxruntime")}}).encode()
INDEX = "/v2/repository/index"
LOAD = "/v2/repository/models/spare/load"
PROXIED = "a proxy forwarded it"
# What tells that a request on a loopback connection was sent by somebody elsewhere, and the word of the refusal.
FOREIGN = {
    "Host of another": (["Host: attacker.example:8000"], "Host"),
    "Host like ours": (["Host: localhost.attacker.example"], "Host"),
    "Host with a user": (["Host: localhost:80@attacker.example"], "Host"),
    "Host with a dot": (["Host: localhost."], "Host"),
    "Host in hexadecimal": (["Host: 0x7f.1"], "Host"),
    "Host behind brackets": (["Host: [::1].attacker.example"], "Host"),
    "Host of nobody": (["Host:"], "Host"),
    "Origin of another": (["Host: localhost", "Origin: http://attacker.example"], "Origin"),
    "Origin on another port": (["Host: localhost", "Origin: http://localhost:1"], "Origin"),
    "Origin of nobody": (["Host: localhost", "Origin: null"], "Origin"),
    "Origin of nowhere": (["Host: localhost", "Origin: http://"], "Origin"),
    "Origin twice": (["Host: localhost", "Origin: http://localhost", "Origin: http://localhost"], "Origin"),
    "X-Forwarded-For": (["Host: localhost", "X-Forwarded-For: 127.0.0.1"], PROXIED),
    "in odd case": (["Host: localhost", "x-fOrWaRdEd-FoR: 127.0.0.1"], PROXIED),
    "empty": (["Host: localhost", "X-Forwarded-For:"], PROXIED),
    "twice": (["Host: localhost", "Via: 1.1 a", "Via: 1.1 b"], PROXIED),
    "several": (["Host: localhost", "X-Real-IP: 127.0.0.1", "Via: 1.1 a", "Forwarded: for=127.0.0.1"], PROXIED),
    "with underscores": (["Host: localhost", "X_Forwarded_For: 127.0.0.1"], PROXIED),
    **{name: (["Host: localhost", f"{name}: x"], PROXIED) for name in (
        "Forwarded", "Via", "X-Real-IP", "X-Forwarded-Proto", "X-Forwarded-Host", "CF-Connecting-IP", "CF-Ray", "True-Client-IP",
        "X-Original-URL", "X-Original-For", "X-Client-IP", "CDN-Loop")},
}
OWN = {
    "localhost": ["Host: localhost"],
    "an address and a port": ["Host: 127.0.0.1:8000"],
    "IPv6": ["Host: [::1]:8000"],
    "our own Origin": ["Host: localhost:8000", "Origin: http://localhost:8000"],
    "what clients send": ["Host: LOCALHOST", "User-Agent: curl/8", "X-Request-Id: 1", "traceparent: 00-0-0-0"],
}


def upload(server, fields, version="1.1", place=""):
    """The reply to a load with another backend, which the server is not going to load for other reasons where it may come."""
    head = [f"POST {place}{LOAD} HTTP/{version}", *fields, f"Content-Length: {len(UPLOAD)}", "Connection: close"]
    reply = talk(server, "\r\n".join(head).encode() + b"\r\n\r\n" + UPLOAD)[0]
    return reply.status, reply.error


def test_who_came_another_way_brings_no_code(start_server, models):
    server = start_server(models, flags=EXPLICIT)
    for name, (fields, words) in FOREIGN.items():
        status, text = upload(server, fields)
        assert status == 403 and words in text and "'backend'" in text, f"{name}: {status} {text}"
    for fields in ([], ["Host: localhost"]):
        status, text = upload(server, fields, version="1.0")
        assert status == 403 and "HTTP/1.0" in text, text
    for name, fields in OWN.items():
        status, text = upload(server, fields)
        assert status == 400 and "taken from this machine" not in text, f"{name}: {status} {text}"
    for place in ("http://evil", "HTTPS://127.0.0.1.evil:80", "http://localhost@evil", "http://evil:80@localhost"):
        for fields in ([], ["Host: localhost"]):
            status, text = upload(server, fields, place=place)
            assert status == 403 and "its URL does not name localhost" in text, f"{place}: {status} {text}"
    status, text = upload(server, ["Host: evil"], place="http://localhost")
    assert status == 403 and "Host" in text, text
    status, text = upload(server, ["Host: localhost", "Origin: http://localhost"], place="http://localhost:8000")
    assert status == 403 and "Origin" in text, text
    for fields, place in (([], "http://localhost:8000"), (["Host: localhost"], "http://[::1]:8000")):
        status, text = upload(server, fields, place=place)
        assert status == 400 and "taken from this machine" not in text, f"{place}: {status} {text}"
    for path in (INDEX, LOAD, "/v2/logging"):  # as Triton
        assert ask("127.0.0.1", server.http_port, "POST", path, b"{}", {"X-Forwarded-For": "10.0.0.1"})[0] == 200, path
    body = json.dumps({"inputs": [{"name": "INPUT0", "shape": [1, 1], "datatype": "FP32", "data": [7]}]}).encode()
    headers = {"Host": "models.example", "Origin": "http://app.example", "Content-Type": "text/plain"}
    assert ask("127.0.0.1", server.http_port, "POST", "/v2/models/identity/infer", body, headers)[0] == 200


PROXY = "A proxy on this machine would open to strangers besides: "
UPLOADS = "code that comes with a load"
ADMIN = "model-repository, trace, logging"
KEYS = "--restricted-api=model-repository,shared-memory,trace,logging:k=v"
# What the start says of strangers at each listener, and of a proxy in front of them (None: nothing).
STARTS = {
    "default": (EVERYWHERE, r"0\.0\.0\.0:%d: model-repository, trace, logging \(--secure wants a key for them\)", UPLOADS),
    "nothing is loaded": (["--http-address=0.0.0.0", "--grpc-address=0.0.0.0"], r"0\.0\.0\.0:%d: model-repository, trace, logging ", None),
    "uploads of strangers": ([*EVERYWHERE, "--allow-model-upload"], r"0\.0\.0\.0:%d: model-repository, trace, logging ", None),
    "uploads without loads": (
        ["--http-address=0.0.0.0", "--grpc-address=0.0.0.0", "--allow-model-upload"], r"0\.0\.0\.0:%d: model-repository, trace, logging ", None),
    "uploads with a key": (
        [*EVERYWHERE, "--allow-model-upload", "--restricted-api=model-repository:k=v"], r"0\.0\.0\.0:%d: trace, logging ", None),
    "memory of strangers": (
        [*EVERYWHERE, "--allow-client-shm=true"], r"0\.0\.0\.0:%d: shared-memory, model-repository, trace, logging ", UPLOADS),
    "secure": ([*EVERYWHERE, "--allow-model-upload", "--allow-client-shm=true", *SECURE], r"0\.0\.0\.0:%d: none \(--secure\)", None),
    "keys": ([*EVERYWHERE, KEYS], r"0\.0\.0\.0:%d: none, they want a key", None),
    "loopback": (LOADED, r"127\.0\.0\.1:%d: none, the address is this machine's only", f"{ADMIN}, {UPLOADS}"),
    "loopback, nothing is loaded": ([], r"127\.0\.0\.1:%d: none, the address is this machine's only", ADMIN),
    "loopback, memory": (
        ["--allow-client-shm=true"], r"127\.0\.0\.1:%d: none, the address", "shared-memory, model-repository, trace, logging"),
    "loopback, some keys": (
        [*LOADED, "--restricted-api=model-repository:k=v"], r"127\.0\.0\.1:%d: none, the address", "trace, logging"),
    "loopback, keys": ([*LOADED, KEYS], r"127\.0\.0\.1:%d: none, the address is this machine's only", None),
    "loopback, secure": ([*LOADED, *SECURE[3:]], r"127\.0\.0\.1:%d: none, the address is this machine's only", None),
}


@pytest.mark.parametrize("case", STARTS)
def test_a_line_says_what_strangers_reach(start_server, models, case):
    flags, words, proxy = STARTS[case]
    server = start_server(models, flags=flags)
    ports = (server.http_port, server.grpc_port)
    lines = [line for line in server.log.splitlines() if "strangers can reach" in line]
    assert len(lines) == 2 and all(re.search(words % port, line) for port, line in zip(ports, lines)), server.log
    lines = [line for line in server.log.splitlines() if PROXY in line]
    expected = [] if proxy is None else [f'{PROXY}{proxy} (--secure wants a key for it)"']
    assert [line[line.index(PROXY):] for line in lines] == expected, server.log
    assert server.log.count("strangers can bring code") == (2 if case == "uploads of strangers" else 0)
    assert server.log.count("strangers can have memory objects") == (2 if case == "memory of strangers" else 0)


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
    server = start_server(models, flags=[*SECURE, "--http-header-timeout-ms=300"], ready=False)
    with socket.create_connection(("127.0.0.1", server.http_port)) as silent:
        silent.settimeout(PATIENCE)
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
