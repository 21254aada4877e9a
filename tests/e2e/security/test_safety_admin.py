# SPDX-License-Identifier: Apache-2.0
"""What clients write to get at admin requests under --secure without a key, byte by byte; and what names a load with the key may have."""
import json
import re
import socket

import pytest
from conftest import DEADLINE, Starter, make_identity
from http2 import PROTOCOL_ERROR, UNAVAILABLE, UNIMPLEMENTED, Connection
from test_posture import INDEX, LOAD, SECURE, ask, config
from test_restricted import ATTEMPTS, KEY, VARIANTS
from wire import receive_all, send

ADMIN = [("POST", INDEX), ("POST", LOAD), ("POST", "/v2/repository/models/identity/unload"),
         ("POST", "/v2/repository/r/models/identity/unload"), ("POST", "/v2/logging"), ("GET", "/v2/logging"),
         ("POST", "/v2/trace/setting"), ("GET", "/v2/systemsharedmemory/status")]
BODY = json.dumps({"log_verbose_level": 3, "parameters": {"config": config(max_batch_size=7)}}).encode()


@pytest.fixture(scope="module")
def directory(tmp_path_factory):
    return tmp_path_factory.mktemp("admin")


@pytest.fixture(scope="module")
def server(nereid, backends, directory):
    """--secure; a key for model-repository alone."""
    starter = Starter(nereid, backends, directory)
    for name in ("identity", "spare"):
        make_identity(directory / "models", name)
    flags = [f"--admin-address=unix:{directory}/admin.sock", f"--restricted-api=model-repository:the-key={KEY}"]
    yield starter(directory / "models", flags=[*SECURE, *flags])
    starter.stop_all()


@pytest.fixture(autouse=True)
def unchanged(server, directory):
    """Whatever a test writes, the operator finds everything as it was."""
    yield
    operator = str(directory / "admin.sock")
    index = json.loads(ask(operator, None, "POST", INDEX, b"")[1])
    assert {model["name"]: model.get("state") for model in index} == {"identity": "READY", "spare": None}
    assert json.loads(ask(operator, None, "GET", "/v2/logging")[1])["log_verbose_level"] == 0


def statuses(server, text):
    """The status codes of what comes back for these bytes."""
    with socket.create_connection(("127.0.0.1", server.http_port), DEADLINE) as client:
        send(client, text)
        client.shutdown(socket.SHUT_WR)
        answer = receive_all(client)
    return [int(status) for status in re.findall(rb"HTTP/1\.[01] (\d{3}) ", answer)]


def head(line, *fields):
    return "\r\n".join([line, *fields]).encode("latin-1") + b"\r\n\r\n"


SIZE = f"Content-Length: {len(BODY)}"
FIELDS = {
    "none": ["Host: localhost"],
    "loopback": ["Host: 127.0.0.1", "X-Forwarded-For: 127.0.0.1", "X-Real-IP: 127.0.0.1"],
    "override": ["Host: localhost", "X-HTTP-Method-Override: GET", "X-Original-URL: /v2", "X-Rewrite-URL: /v2"],
    "upgrade": ["Host: localhost", "Connection: Upgrade, HTTP2-Settings", "Upgrade: h2c", "HTTP2-Settings: AAMAAABk"],
    "expect": ["Host: localhost", "Expect: 100-continue"],
}
LINES = {  # how a request line can be written
    "as it is": "{method} {path} HTTP/1.1",
    "HTTP/1.0": "{method} {path} HTTP/1.0",
    "HTTP/0.9": "{method} {path}",
    "a later version": "{method} {path} HTTP/1.9",
    "absolute": "{method} http://localhost{path} HTTP/1.1",
    "absolute, another host": "{method} http://attacker.example{path} HTTP/1.1",
    "authority": "{method} localhost:8000 HTTP/1.1",
    "asterisk": "{method} * HTTP/1.1",
    "CONNECT": "CONNECT localhost:8000 HTTP/1.1",
    "CONNECT to the path": "CONNECT {path} HTTP/1.1",
    "HEAD": "HEAD {path} HTTP/1.1",
    "OPTIONS": "OPTIONS {path} HTTP/1.1",
    "TRACE": "TRACE {path} HTTP/1.1",
    "PRI": "PRI * HTTP/2.0",
    "small letters": "post {path} HTTP/1.1",
    "two blanks": "{method}  {path} HTTP/1.1",
    "tab": "{method}\t{path} HTTP/1.1",
    "fragment": "{method} {path}#x HTTP/1.1",
    "backslashes": "{method} \\v2\\logging HTTP/1.1",
    "NUL": "{method} {path}%00 HTTP/1.1",
    "bare NUL": "{method} {path}\x00/x HTTP/1.1",
    "overlong slash": "{method} /v2%c0%aflogging HTTP/1.1",
    "full width": "{method} /v2%ef%bc%8flogging HTTP/1.1",
    "query": "{method} {path}?the-key=Secret-1&category=health HTTP/1.1",
}


@pytest.mark.parametrize("name", LINES)
def test_no_way_to_write_a_request_is_an_admin_request_without_a_key(server, name):
    for method, path in ADMIN:
        line = LINES[name].format(method=method, path=path)
        for fields in [*FIELDS.values(), []]:
            answer = statuses(server, head(line, *fields, SIZE, "Connection: close") + BODY)
            assert all(status >= 400 for status in answer if status != 100), f"{line}, {fields}: {answer}"


def test_no_other_path_leads_there(server):
    for name, variant in VARIANTS.items():
        for method, path in ADMIN:
            answer = statuses(server, head(f"{method} {variant(path)} HTTP/1.1", "Host: localhost", SIZE, "Connection: close") + BODY)
            assert answer and all(status in (400, 403, 404) for status in answer), f"{name}, {path}: {answer}"


# Lines that hold the key and are no field with it.
SMUGGLED = {
    "blank before the colon": ["the-key : Secret-1"],
    "folded": ["the-key:", " Secret-1"],
    "folded into another": ["X: y", " the-key: Secret-1"],
    "bare CR": ["X: y\rthe-key: Secret-1"],
    "bare LF": ["X: y\nthe-key: Secret-2"],
    "NUL before": ["the-key: \0Secret-1"],
    "NUL behind": ["the-key: Secret-1\0"],
    "NUL in the name": ["the-key\0: Secret-1"],
    "underscore": ["the_key: Secret-1"],
    "no colon": ["the-key Secret-1"],
    "list": ["the-key: Secret-1, Secret-1"],
    "semicolon": ["the-key: Secret-1;"],
    "twice in odd case": ["THE-KEY: Secret-1", "the-KEY: Secret-1"],
    "an empty one beside it": ["the-key: Secret-1", "the-key:"],
    "encoded": ["the-key: Secret%2D1"],
    "quoted": ['the-key: "Secret-1"'],
    "of another kind": ["Authorization: the-key Secret-1", "Cookie: the-key=Secret-1"],
    **{f"restricted, {name}": fields for name, fields in ATTEMPTS.items()},
}


@pytest.mark.parametrize("name", SMUGGLED)
def test_a_key_is_one_whole_field(server, name):
    answer = statuses(server, head(f"POST {LOAD} HTTP/1.1", "Host: localhost", *SMUGGLED[name], SIZE, "Connection: close") + BODY)
    assert answer and all(status in (400, 403) for status in answer), answer
    body = b"5;the-key=Secret-1\r\n{   }\r\n0\r\nthe-key: Secret-1\r\n\r\n"  # as a chunk's extension, and behind the body
    assert statuses(server, head(f"POST {INDEX} HTTP/1.1", "Host: localhost", "Transfer-Encoding: chunked", "Connection: close") + body)[0] in (400, 403)  # some libmicrohttpd refuse extensions


def test_a_key_is_for_one_request(server):
    one = head(f"POST {INDEX} HTTP/1.1", "Host: localhost", f"the-key: {KEY}", "Content-Length: 0")
    other = head(f"POST {INDEX} HTTP/1.1", "Host: localhost", "Content-Length: 0", "Connection: close")
    assert statuses(server, one + other) == [200, 403]


NAMES = ["..", ".", "%2e%2e", "%2e%2e%2fspare", "..%5cspare", "spare%00", "spare%0a", "%ff", "%c0%ae%c0%ae", "spare%20", "%20spare", "~", "*",
         "spare%2f", "%2fetc%2fpasswd", "spare;x", "x" * 255, "x" * 256, "x" * 4000, "none", "-", "%25s%25n", "%3cscript%3e", "spare%e2%80%ae"]


@pytest.mark.parametrize("action", ["load", "unload"])
def test_odd_names_of_models_are_none(server, action):
    for name in NAMES:
        for path in (f"/v2/repository/models/{name}/{action}", f"/v2/repository/{name}/models/spare/{action}"):
            line = head(f"POST {path} HTTP/1.1", "Host: localhost", f"the-key: {KEY}", "Content-Length: 0", "Connection: close")
            answer = statuses(server, line)
            unknown = action == "unload" and answer == [200] and "/models/spare/" not in path  # as in Triton
            # 500: "failed to poll from model repository", as in Triton
            assert unknown or (len(answer) == 1 and answer[0] in (400, 404, 414, 500, 501)), f"{path}: {answer}"


def test_grpc_methods_have_one_name_each(server):
    service = "/inference.GRPCInferenceService/"
    for path in ("RepositoryIndex/", "/RepositoryIndex", "repositoryIndex", "REPOSITORYINDEX", "RepositoryIndex?x", "RepositoryIndex#x",
                 "%52epositoryIndex", "./RepositoryIndex", "ServerLive/../RepositoryIndex", "ServerLive/RepositoryIndex",
                 "RepositoryIndex%00", " RepositoryIndex"):
        with Connection(server) as connection:
            answer = connection.ask(service + path, [b"\0\0\0\0\0"])
            assert answer.status == UNIMPLEMENTED or answer.reset == PROTOCOL_ERROR, f"{path}: {answer}"
    with Connection(server) as connection:
        for extra in ([], [("the-key", KEY)], [("triton-grpc-protocol-the-key", KEY), ("triton-grpc-protocol-the-key", KEY)],
                      [("triton-grpc-protocol-the-key", f"{KEY}, {KEY}")], [("triton-grpc-protocol-the-key-bin", "U2VjcmV0LTE=")],
                      [("triton-grpc-protocol-the_key", KEY)], [("triton-grpc-protocol-the-key", f"{KEY}\t")]):
            answer = connection.ask(service + "RepositoryIndex", [b"\0\0\0\0\0"], extra)
            assert answer.status == UNAVAILABLE or answer.reset == PROTOCOL_ERROR, f"{extra}: {answer}"
        for method in ("LogSettings", "TraceSetting", "SystemSharedMemoryStatus", "CudaSharedMemoryStatus"):
            assert connection.ask(service + method, [b"\0\0\0\0\0"]).status == 7, method  # PERMISSION_DENIED
