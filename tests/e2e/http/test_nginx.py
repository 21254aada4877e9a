# SPDX-License-Identifier: Apache-2.0
"""nginx with its defaults in front of nereid: it sends no field that tells of those behind it, and its address is this machine's. What
strangers can do through it, with and without --secure (docs/security.md)."""
import json
import os
import socket
import subprocess

import grpc
import pytest
import tritonclient.grpc as grpc_client
import tritonclient.http as http_client
from conftest import DEADLINE, Starter, make_identity, wait_for
from ports import free_port
from test_posture import CODE, EXPLICIT, LOAD, PROXY, config, page
from test_restricted import ATTEMPTS, VARIANTS
from test_restricted_grpc import ATTEMPTS as GRPC_ATTEMPTS
from test_restricted_grpc import FIELD
from tritonclient.grpc import service_pb2, service_pb2_grpc
from wire import receive_all, replies, send

NGINX = "/usr/sbin/nginx"
WAYS = ["http", "keepalive", "named"]
KEY = "Secret-1"
# As Debian's packages and nginx's own pages have it: proxy_pass and grpc_pass, and nothing else.
CONFIGURATION = """
daemon off;
{user}
pid {directory}/nginx.pid;
error_log stderr warn;
worker_processes 1;
events {{ }}
http {{
  access_log off;
  client_body_temp_path {directory}/body;
  proxy_temp_path {directory}/proxy;
  fastcgi_temp_path {directory}/fastcgi;
  uwsgi_temp_path {directory}/uwsgi;
  scgi_temp_path {directory}/scgi;
  server {{
    listen {address}:{http_port};
    location / {{ proxy_pass http://{http}; }}
  }}
  server {{
    listen {address}:{keepalive_port};
    location / {{ proxy_pass http://{http}; proxy_http_version 1.1; proxy_set_header Connection ""; }}
  }}
  server {{
    listen {address}:{named_port};
    location / {{ proxy_pass http://{http}; proxy_http_version 1.1; proxy_set_header Host $host; }}
  }}
  server {{
    listen {address}:{grpc_port} http2;
    location / {{ grpc_pass grpc://127.0.0.1:{grpc}; }}
  }}
}}
"""


def message(method, path, body=None, fields=()):
    host = [] if any(field.lower().startswith("host:") for field in fields) else ["Host: models.example"]
    size = [] if body is None else [f"Content-Length: {len(body)}"]
    return "\r\n".join([f"{method} {path} HTTP/1.1", *host, *fields, "Connection: close", *size]).encode() + b"\r\n\r\n" + (body or b"")


class Nginx:
    """A running nginx; `ways` are the ports of those that lead to HTTP at the address `http`."""

    def __init__(self, directory, address, http, grpc_port):
        self.directory, self.address, self.log = directory, address, directory / "nginx.log"
        user = "user root;" if os.geteuid() == 0 else ""
        while True:  # it cannot take a port that the kernel chooses, and somebody else may have taken ours meanwhile
            self.ways = {way: free_port() for way in WAYS}
            ports = {f"{way}_port": port for way, port in self.ways.items()} | {"grpc_port": free_port()}
            self.grpc = f"{address}:{ports['grpc_port']}"
            text = CONFIGURATION.format(directory=directory, user=user, address=address, http=http, grpc=grpc_port, **ports)
            (directory / "nginx.conf").write_text(text)
            with self.log.open("w") as out:
                self.process = subprocess.Popen([NGINX, "-e", "stderr", "-c", directory / "nginx.conf"], stdout=out, stderr=subprocess.STDOUT)
            wait_for("nginx", lambda: self.process.poll() is not None or self.listens())
            if self.process.poll() is None:
                return
            assert "Address already in use" in self.log.read_text(), self.log.read_text()

    def listens(self):
        """It writes the file when all its ports are open."""
        file = self.directory / "nginx.pid"
        return file.exists() and file.read_text().strip() == str(self.process.pid)

    def talk(self, way, *parts):
        with socket.create_connection((self.address, self.ways[way]), DEADLINE) as client:
            send(client, *parts)
            return replies(receive_all(client))

    def ask(self, way, method, path, body=None, fields=()):
        return self.talk(way, message(method, path, body, fields))[0]

    def stop(self):
        self.process.terminate()
        assert self.process.wait(DEADLINE) == 0


class Site:
    """A nereid and the nginx in front of it."""

    def __init__(self, starter, repository, directory, address, *flags, unix=False):
        directory.mkdir()
        self.operator, self.admin_grpc, http = directory / "admin.sock", f"unix:{directory}/admin-grpc.sock", f"unix:{directory}/http.sock"
        own = [f"--admin-address=unix:{self.operator}", f"--admin-grpc-address={self.admin_grpc}", "--metrics-address=127.0.0.1"]
        front = f"--http-address={http if unix else '127.0.0.1'}"
        self.server = starter(repository, flags=[*EXPLICIT, front, *own, *flags], wait=not unix)
        wait_for("the operator's socket", lambda: "Started admin GRPC service" in self.server.log)
        wait_for("readiness", self.is_ready)
        self.nginx = Nginx(directory, address, f"{http}:" if unix else f"127.0.0.1:{self.server.http_port}", self.server.grpc_port)

    def is_ready(self):
        return self.operate("/v2/health/ready", "-o", "/dev/null", "-w", "%{http_code}") == "200"

    def operate(self, target, *arguments):
        command = ["curl", "-sS", "--unix-socket", str(self.operator), f"http://localhost{target}", *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=True, timeout=DEADLINE).stdout

    def states(self):
        return {model["name"]: model.get("state") for model in json.loads(self.operate("/v2/repository/index", "-d", ""))}


@pytest.fixture(scope="module")
def sites(nereid, backends, tmp_path_factory, machine_address):
    """Makes sites with flags of their own."""
    directory = tmp_path_factory.mktemp("nginx")
    made = []
    starter = Starter(nereid, backends, directory)
    repository = directory / "models"
    for name in ("identity", "spare"):
        make_identity(repository, name)

    def make(*flags, unix=False):
        made.append(Site(starter, repository, directory / str(len(made)), machine_address, *flags, unix=unix))
        return made[-1]

    yield make
    for site in made:
        site.nginx.stop()
    starter.stop_all()


@pytest.fixture(scope="module")
def secure(sites):
    return sites("--secure", "--allow-root")


@pytest.fixture(scope="module")
def keyed(sites):
    return sites("--secure", "--allow-root", f"--restricted-api=model-repository,logging,trace,shared-memory:the-key={KEY}")


def load_body(**parameters):
    return json.dumps({"parameters": parameters}).encode()


UPLOADS = [load_body(config=text) for text, _ in CODE.values()] + [load_body(**{"config": config(), "file:1/model.py": "AAAA"})]


ADMIN = ("model-repository", "shared-memory", "trace", "logging")


def check_closed(site, way):
    for methods, path, category, _ in page():
        target = path.replace("{model}", "spare").replace("{repository}", "r").replace("{region}", "r")
        for method in methods if category in ADMIN else ():
            reply = site.nginx.ask(way, method, target, b"{}" if method == "POST" else None)
            assert reply.status == 403 and "want a key or the admin address (--secure)" in reply.error, f"{way}: {method} {target}: {reply}"
    for body in UPLOADS:
        reply = site.nginx.ask(way, "POST", LOAD, body)
        assert reply.status == 403 and "want a key or the admin address" in reply.error, reply
    infer = {"inputs": [{"name": "INPUT0", "shape": [1, 1], "datatype": "FP32", "data": [7]}]}
    assert site.nginx.ask(way, "POST", "/v2/models/identity/infer", json.dumps(infer).encode()).status == 200
    assert site.states() == {"identity": "READY", "spare": None}


@pytest.mark.parametrize("way", WAYS)
def test_strangers_behind_nginx_do_no_admin_and_bring_no_code(secure, way):
    check_closed(secure, way)


def test_a_unix_socket_behind_nginx_proves_nothing(sites):
    site = sites("--secure", "--allow-root", unix=True)
    for way in WAYS:
        check_closed(site, way)


# What a stranger writes through nginx to be taken for somebody else.
TRICKS = {
    "local Host": ["Host: localhost"],
    "local fields": ["X-Forwarded-For: 127.0.0.1", "X-Real-IP: ::1", "Forwarded: for=127.0.0.1"],
    "overrides": ["X-HTTP-Method-Override: GET", "X-Original-URL: /v2/health/live", "X-Rewrite-URL: /v2"],
    "own Origin": ["Host: localhost", "Origin: http://localhost"],
    "upgrade": ["Upgrade: h2c", "Connection: Upgrade, HTTP2-Settings", "HTTP2-Settings: AAMAAABkAAQAAP__"],
    "connection fields": ["Connection: Host, X-Forwarded-For"],
}


def test_tricks_of_strangers_behind_nginx_do_not_help(secure):
    for way in WAYS:
        for name, fields in TRICKS.items():
            reply = secure.nginx.talk(way, message("POST", "/v2/repository/index", b"{}", fields))[0]
            assert reply.status == 403, f"{way}, {name}: {reply}"
        for name, variant in VARIANTS.items():
            reply = secure.nginx.ask(way, "POST", variant("/v2/repository/index"), b"{}")
            assert reply.status in (400, 403, 404), f"{way}, {name}: {reply}"
    for method in ("OPTIONS", "PUT", "GET", "DELETE"):
        reply = secure.nginx.ask("http", method, "/v2/repository/index")
        assert reply.status == 405, f"{method}: {reply}"
    plain = b"POST /v2/repository/index HTTP/1.0\r\nContent-Length: 0\r\n\r\n"
    assert secure.nginx.talk("http", plain)[0].status == 403
    rest = b" HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"
    for line in (b"CONNECT localhost:80", b"POST http://localhost/v2/repository/index"):
        assert secure.nginx.talk("http", line + rest)[0].status in (400, 403, 405)


def test_strangers_with_the_key_do_both(keyed):
    for way in WAYS:
        for fields in ATTEMPTS.values():
            reply = keyed.nginx.ask(way, "POST", "/v2/repository/index", b"{}", fields)
            assert reply.status == 403 and reply.error == "This API is restricted, expecting header 'the-key'", reply
        key = [f"the-key: {KEY}"]
        assert keyed.nginx.ask(way, "POST", "/v2/repository/index", b"{}", key).status == 200
        assert keyed.nginx.ask(way, "POST", LOAD, load_body(config=config(max_batch_size=5)), key).status == 200
        reply = keyed.nginx.ask(way, "POST", LOAD, load_body(config=config(backend="no_such")), key)
        assert reply.status == 400 and "no_such" in reply.error, reply
    with http_client.InferenceServerClient(f"{keyed.nginx.address}:{keyed.nginx.ways['http']}") as client:
        client.load_model("spare", headers={"the-key": KEY}, config=config(max_batch_size=2))
        with pytest.raises(http_client.InferenceServerException, match="restricted"):
            client.load_model("spare")
    assert keyed.states() == {"identity": "READY", "spare": "READY"}  # at the admin address no key is wanted
    keyed.operate("/v2/repository/models/spare/unload", "-d", "")


def grpc_calls(stub):
    upload = service_pb2.RepositoryModelLoadRequest(model_name="spare")
    upload.parameters["config"].string_param = config(backend="no_such")
    return {
        stub.RepositoryIndex: service_pb2.RepositoryIndexRequest(),
        stub.RepositoryModelLoad: upload,
        stub.RepositoryModelUnload: service_pb2.RepositoryModelUnloadRequest(model_name="spare"),
        stub.SystemSharedMemoryStatus: service_pb2.SystemSharedMemoryStatusRequest(),
        stub.TraceSetting: service_pb2.TraceSettingRequest(),
        stub.LogSettings: service_pb2.LogSettingsRequest(),
    }


def refusal(call, message, metadata=()):
    with pytest.raises(grpc.RpcError) as raised:
        call(message, metadata=metadata, timeout=DEADLINE)
    return raised.value.code(), raised.value.details()


def test_over_grpc_it_is_the_same(secure, keyed):
    with grpc.insecure_channel(secure.nginx.grpc) as channel:
        stub = service_pb2_grpc.GRPCInferenceServiceStub(channel)
        for call, message in grpc_calls(stub).items():
            for metadata in ((), (("x-forwarded-for", "127.0.0.1"),), ((FIELD, KEY),)):
                code, text = refusal(call, message, metadata)
                assert code == grpc.StatusCode.PERMISSION_DENIED and "want a key or the admin address (--secure)" in text, text
        assert stub.ServerReady(service_pb2.ServerReadyRequest(), timeout=DEADLINE).ready
    with grpc.insecure_channel(keyed.nginx.grpc) as channel:
        stub = service_pb2_grpc.GRPCInferenceServiceStub(channel)
        for call, message in grpc_calls(stub).items():
            for name, metadata in GRPC_ATTEMPTS.items():
                if name != "with blanks":  # which nginx cuts off, as it may
                    assert refusal(call, message, metadata)[0] == grpc.StatusCode.UNAVAILABLE, name
            if call == stub.RepositoryModelLoad:
                assert "no_such" in refusal(call, message, ((FIELD, KEY),))[1]
            else:
                call(message, metadata=((FIELD, KEY),), timeout=DEADLINE)
    for site in (secure, keyed):
        with grpc_client.InferenceServerClient(site.admin_grpc) as operator:
            operator.load_model("spare", config=config(max_batch_size=3))
            assert operator.get_model_config("spare").config.max_batch_size == 3
            operator.unload_model("spare")


def test_without_secure_a_proxy_that_says_nothing_lends_its_address(sites):
    """What docs/security.md says is open, and what is not; the start says it, too."""
    site = sites()
    assert f"{PROXY}model-repository, trace, logging, code that comes with a load" in site.server.log
    body = load_body(config=config(backend="no_such"))
    opened = {way: site.nginx.ask(way, "POST", LOAD, body) for way in WAYS}
    assert opened["http"].status == 403 and "HTTP/1.0" in opened["http"].error  # nginx's default until 1.29.7
    assert opened["named"].status == 403 and "Host" in opened["named"].error  # what is usually set
    assert opened["keepalive"].status == 400 and "no_such" in opened["keepalive"].error  # tried: open
    assert site.nginx.ask("http", "POST", "/v2/repository/index", b"{}").status == 200
    reply = site.nginx.ask("keepalive", "POST", LOAD, body, ["X-Forwarded-For: 127.0.0.1"])
    assert reply.status == 403 and "a proxy forwarded it" in reply.error
