# SPDX-License-Identifier: Apache-2.0
"""Keys of restricted categories (row 54 of the scorecard; 2026-24206, -24207): whatever a request does, without the key a
category is closed, on every route."""
import http.client
import os
import re
import subprocess

import proc
import pytest
import tritonclient.http as triton
from conftest import PATIENCE, make_identity, wait_for
from test_posture import EXPLICIT, SECURE, ask, filled, models, page, walk  # noqa: F401 - fixtures
from wire import chunked, connect, receive_reply, request, send, take_reply, talk

KEY = "Secret-1"
CATEGORIES = "health,metadata,inference,shared-memory,model-config,model-repository,statistics,trace,logging"
CLOSED = "This API is restricted, expecting header 'the-key'"


@pytest.fixture
def closed(start_server, models):  # noqa: F811
    """A server all of whose categories want a key."""
    server = start_server(models, flags=[*EXPLICIT, f"--http-restricted-api={CATEGORIES}:the-key={KEY}"], ready=False)
    client = triton.InferenceServerClient(server.url)
    while not client.is_server_ready(headers={"the-key": KEY}):
        assert server.process.poll() is None, server.log
    return server


# What clients without the key send instead of it.
ATTEMPTS = {
    "no key": [],
    "another key": ["the-key: wrong"],
    "an empty key": ["the-key:"],
    "its beginning": ["the-key: Secret-"],
    "more than it": ["the-key: Secret-12"],
    "other case": ["the-key: secret-1"],
    "quoted": ['the-key: "Secret-1"'],
    "key twice": ["the-key: Secret-1", "the-key: Secret-1"],
    "key and another": ["the-key: Secret-1", "the-key: wrong"],
    "another and key": ["the-key: wrong", "The-Key: Secret-1"],
    "list of keys": ["the-key: wrong, Secret-1"],
    "in another field": ["the-key-: Secret-1", "key: Secret-1", "authorization: Secret-1"],
    "in gRPC's field": ["triton-grpc-protocol-the-key: Secret-1"],
    "as a cookie": ["cookie: the-key=Secret-1"],
    "method override": ["X-HTTP-Method-Override: GET", "X-Method-Override: HEAD", "X-Original-URL: /v2"],
}


def plain(method, path, fields=()):
    return request(method, path, b"" if method == "POST" else None, fields)


def test_no_route_opens_without_the_whole_key(closed):
    with connect(closed) as connection:
        for methods, path, _, _ in page():
            for method in methods:
                for name, fields in ATTEMPTS.items():
                    assert send(connection, plain(method, filled(path), fields))
                    reply = receive_reply(connection)
                    assert (reply.status, reply.error) == (403, CLOSED), f"{method} {path}, {name}: {reply}"


def test_the_key_is_asked_for_before_the_method(closed):
    """As in Triton: without it nobody learns what methods a path has."""
    for method in ("GET", "POST", "PUT", "DELETE", "PATCH", "OPTIONS"):
        assert talk(closed, plain(method, "/v2/logging", ["Connection: close"]))[0].status == 403
    assert talk(closed, plain("PUT", "/v2/logging", ["Connection: close", f"the-key: {KEY}"]))[0].status == 405


VARIANTS = {
    "encoded slash": lambda path: path[:3] + path[3:].replace("/", "%2f"),
    "double slash": lambda path: path.replace("/", "//"),
    "leading double slash": lambda path: "/" + path,
    "dot segment": lambda path: "/." + path,
    "dot segments": lambda path: "/x/.." + path,
    "encoded dots": lambda path: "/x/%2e%2e" + path,
    "encoded letter": lambda path: path.replace("v2", "%762", 1),
    "other case": lambda path: path.replace("v2", "V2", 1),
    "trailing slash": lambda path: path + "/",
    "path parameter": lambda path: path + ";x=1",
    "absolute": lambda path: "http://localhost" + path,
    "key in the query": lambda path: f"{path}?the-key={KEY}",
}


def test_no_other_way_to_write_a_path_leads_around_the_key(closed):
    for name, variant in VARIANTS.items():
        for methods, path, _, _ in page():
            for method in methods:
                reply = talk(closed, plain(method, variant(filled(path)), ["Connection: close"]))[0]
                assert reply.status in (403, 404), f"{method} {path}, {name}: {reply}"


def test_a_key_that_comes_behind_the_body_is_late(closed):
    late = chunked("POST", "/v2/repository/index", [b"{}"], ["Trailer: the-key"], f"the-key: {KEY}\r\n".encode())
    assert [reply.status for reply in talk(closed, late)] == [403]


def test_each_route_answers_as_the_page_says_with_the_key(closed, monkeypatch):
    unkeyed = http.client.HTTPConnection.request

    def with_key(self, method, path, body=None, headers=None):
        unkeyed(self, method, path, body, {**(headers or {}), "The-KEY": KEY})

    monkeypatch.setattr(http.client.HTTPConnection, "request", with_key)
    walk("127.0.0.1", closed.http_port, "local")


def test_real_clients_pass_the_key(closed):
    with triton.InferenceServerClient(closed.url) as client:
        assert client.get_server_metadata(headers={"the-key": KEY})["name"] == "triton"
        with pytest.raises(triton.InferenceServerException, match="expecting header 'the-key'"):
            client.get_server_metadata()
        with pytest.raises(triton.InferenceServerException, match="expecting header 'the-key'"):
            client.get_model_repository_index(headers={"the-key": "x"})


def test_each_group_has_its_key_and_the_rest_is_open(start_server, models):  # noqa: F811
    flags = ["--http-restricted-api=model-repository,trace:admin=one", "--http-restricted-api=inference:user=two"]
    server = start_server(models, flags=[*EXPLICIT, *flags])
    index, infer = "/v2/repository/index", "/v2/models/identity/infer"
    for path, header, other in ((index, "admin", "user"), (infer, "user", "admin")):
        key, wrong = {"admin": "one", "user": "two"}[header], {"admin": "two", "user": "one"}[header]
        answer = ask("127.0.0.1", server.http_port, "POST", path, b"{}", {other: key})
        assert answer[0] == 403 and f"expecting header '{header}'" in answer[1]
        assert ask("127.0.0.1", server.http_port, "POST", path, b"{}", {header: wrong})[0] == 403
        assert ask("127.0.0.1", server.http_port, "POST", path, b"{}", {header: key})[0] in (200, 400)
    assert server.ask("/v2").status == server.ask("/v2/models/stats").status == 200


def test_an_upload_without_the_key_is_not_read(start_server, models, tmp_path):  # noqa: F811
    """Row 54: of 64 MiB the server reads at most 16 KiB, that which came with the headers."""
    record = tmp_path / "reads"  # .<thread>: one file each
    traced = ["strace", "-D", "-ff", "-qq", "-yy", "-e", "trace=read,readv,recvfrom,recvmsg", "-e", "signal=none", "-o", str(record)]
    server = start_server(models, flags=[*EXPLICIT, f"--http-restricted-api=inference:the-key={KEY}"], wrapper=traced)
    size = 64 << 20
    with connect(server) as connection:
        client = connection.getsockname()[1]
        send(connection, request("POST", "/v2/models/identity/infer", headers=[f"Content-Length: {size}"]))
        block = bytes(1 << 16)
        for _ in range(size // len(block)):
            if not send(connection, block):
                break
        reply = connection.recv(1 << 16)
    assert take_reply(reply)[0].error == CLOSED
    server.stop()
    taken = 0
    for line in "".join(file.read_text(errors="replace") for file in tmp_path.glob("reads.*")).splitlines():
        call = re.search(rf"\(\d+<TCP:\[127\.0\.0\.1:{server.http_port}->127\.0\.0\.1:{client}\]>.* = (\d+)$", line)
        if call and "MSG_TRUNC" not in line:  # which drops bytes in the kernel
            taken += int(call[1])
    assert 0 < taken <= 16 << 10


def test_a_key_opens_admin_categories_to_strangers(start_server, models, machine_address):  # noqa: F811
    flags = [*SECURE, f"--restricted-api=model-repository:the-key={KEY}"]
    server = start_server(models, flags=flags)
    index = ("POST", "/v2/repository/index", b"{}")
    for address in ("127.0.0.1", machine_address):
        assert ask(address, server.http_port, *index) == (403, '{"error":"%s"}' % CLOSED)
        assert ask(address, server.http_port, *index, {"the-key": KEY})[0] == 200
    closed_still = ask(machine_address, server.http_port, "POST", "/v2/logging", b"{}", {"the-key": KEY})
    assert closed_still[0] == 403 and "'logging' requests want a key or the admin address" in closed_still[1]
    upload = b'{"parameters": {"config": "{\\"backend\\": \\"no_such\\"}", "file:1/model.onnx": "AAAA"}}'
    for address in ("127.0.0.1", machine_address):
        load = ("POST", "/v2/repository/models/spare/load", upload)
        assert ask(address, server.http_port, *load) == (403, '{"error":"%s"}' % CLOSED)
        status, text = ask(address, server.http_port, *load, {"the-key": KEY})
        assert status == 400 and "no_such" in text, text  # the key is for code too


def test_the_log_says_what_strangers_reach_without_a_key(start_server, models):  # noqa: F811
    server = start_server(models, flags=[*EXPLICIT, "--http-restricted-api=model-repository:k=v"])
    assert re.search(r"strangers can reach at 0\.0\.0\.0:\d+: (?!.*model-repository)", server.log)
    server = start_server(models, flags=[*EXPLICIT, "--http-restricted-api=model-repository,shared-memory,trace,logging:k=v"])
    assert re.search(r"strangers can reach at 0\.0\.0\.0:\d+: none, they want a key", server.log)


def test_keys_come_from_files_and_variables_and_are_not_shown(start_server, models, tmp_path):  # noqa: F811
    file = tmp_path / "key"
    file.write_text(KEY + "\n")
    flags = [f"--restricted-api=model-config:the-key=file:{file}", "--http-restricted-api=statistics:the-key=env:STATISTICS_KEY",
             "--restricted-api=trace:the-key=Plain-Secret"]
    server = start_server(models, flags=[*EXPLICIT, *flags, "--log-verbose=1"], variables={"STATISTICS_KEY": "two"})
    for path, key in (("/v2/models/identity/config", KEY), ("/v2/models/stats", "two"), ("/v2/trace/setting", "Plain-Secret")):
        assert server.ask(path).status == 403 and server.ask(path, headers={"the-key": key}).status == 200
    command = proc.read(server.process.pid, "cmdline")
    assert KEY not in command and KEY not in server.log and "Plain-Secret" not in server.log


def test_one_protocol_alone_is_warned_of(start_server, models):  # noqa: F811
    warning = "HTTP wants no key for inference, as gRPC does"
    server = start_server(models, flags=["--grpc-restricted-protocol=inference,health:k=v", "--http-restricted-api=health:k=v"],
                          ready=False)
    assert warning in server.log and server.ask("/v2/models/identity/stats").status != 403
    server = start_server(models, flags=["--restricted-api=inference:k=v"])
    assert "wants no key" not in server.log


def test_the_log_names_a_file_of_keys_that_every_user_may_read(start_server, models, tmp_path):  # noqa: F811
    key = tmp_path / "key"
    key.write_text("Plain-Secret\n")
    line = f"--restricted-api: '{key}' holds a secret and has mode 644: every user of this machine may read it"
    for mode, count in ((0o644, 1), (0o600, 0)):
        key.chmod(mode)
        server = start_server(models, flags=[f"--restricted-api=trace:the-key=file:{key}"], ready=False)
        wait_for("the ports", lambda server=server: "Started Metrics Service" in server.log)
        assert server.log.count(line) == count and "Plain-Secret" not in server.log


MISTAKES = {
    "unknown": (["--http-restricted-api=models:k=v"], "--http-restricted-api: unknown restricted api 'models'"),
    "unknown, gRPC": (["--grpc-restricted-protocol=x:k=v"], "--grpc-restricted-protocol: unknown restricted protocol 'x'"),
    "two groups": (
        ["--http-restricted-api=health:k=v", "--http-restricted-api=trace,health:k=v"],
        "restricted api 'health' can not be specified in multiple config groups",
    ),
    "two flags": (
        ["--http-restricted-api=health:k=v", "--restricted-api=health:k=v"],
        "--restricted-api: restricted api 'health' can not be specified in multiple config groups",
    ),
    "no value": (["--http-restricted-api=health:k"], "expected <api>[,<api>...]:<key>=<value>"),
    "no category": (["--restricted-api=k=v"], "--restricted-api: expected <api>"),
    "no file": (["--restricted-api=health:k=file:/no/such"], "--restricted-api: failed to open '/no/such': No such file or directory"),
    "no credential": (["--restricted-api=health:k=cred:no-such"], "--restricted-api: credential 'no-such': failed to open '/no/such/no-such'"),
    "an empty value": (["--restricted-api=health:k=file:/dev/null"], "--restricted-api: the value of file:/dev/null must be 1 to 4096 bytes"),
    "no variable": (["--restricted-api=health:k=env:NO_SUCH"], "there is no variable 'NO_SUCH'"),
}


@pytest.mark.parametrize("case", MISTAKES)
def test_a_mistake_is_named(nereid, case):
    flags, words = MISTAKES[case]
    done = subprocess.run([nereid, "--model-repository=/tmp", *flags], capture_output=True, text=True, timeout=PATIENCE, env=os.environ | {"CREDENTIALS_DIRECTORY": "/no/such"})
    assert done.returncode == 1 and words in done.stderr and done.stderr.count("\n") == 1, done.stderr
