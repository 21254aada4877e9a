# SPDX-License-Identifier: Apache-2.0
"""SIGHUP reads again what can change while the server runs: flags of the --config file, keys, certificates (docs/operating.md)."""
import contextlib
import re
import signal
import socket
import ssl
import subprocess

import grpc
import pytest
import tritonclient.grpc as triton
from certificates import make_certificate, make_certificates, tls_flags
from conftest import PATIENCE, ROOT, make_identity, wait_for
from notify_socket import NotifySocket

INDEX = "/v2/repository/index"


class Reader(NotifySocket):
    """Sends SIGHUP, and knows when the server has dealt with it: it then says READY=1."""

    def await_ready(self):
        self.hear_until(b"READY=1")

    def __call__(self, server):
        """The lines that this SIGHUP has made."""
        before = len(server.log)
        server.process.send_signal(signal.SIGHUP)
        self.await_ready()
        return re.findall(r'"(SIGHUP: .*)"$', server.log[before:], re.M)


@pytest.fixture
def read_again(tmp_path):
    reader = Reader(tmp_path)
    yield reader
    reader.close()


@pytest.fixture
def start(start_server, repository, read_again):
    def one(*flags):
        make_identity(repository, "m")
        server = start_server(repository, flags=flags, variables=read_again.variables)
        read_again.await_ready()
        return server
    return one


def test_without_a_change_there_is_nothing_to_say(start, read_again):
    assert read_again(start()) == []


def test_limits_of_the_file_change(start, read_again, tmp_path):
    config = tmp_path / "nereid.yaml"
    config.write_text("http-max-input-size: 100\nid: one\nhttp-idle-timeout-ms: 60000\nlog-verbose: 0\n")
    server = start(f"--config={config}")
    body = b'{"inputs":[{"name":"INPUT0","shape":[1,1],"datatype":"FP32","data":[7]}], "parameters":{"nothing":"%s"}}' % (b"x" * 100)
    assert server.ask("/v2/models/m/infer", body).status == 413
    config.write_text("http-max-input-size: 1000\nid: two\nhttp-idle-timeout-ms: 1\nlog-verbose: 1\n")
    assert set(read_again(server)) == {
        "SIGHUP: --http-max-input-size is \\\"1000\\\", it was \\\"100\\\"",
        "SIGHUP: --id is \\\"two\\\", it was \\\"one\\\": this takes effect at the next start",
        "SIGHUP: --http-idle-timeout-ms is 1, it was 60000",
        "SIGHUP: --log-verbose is 1, it was 0"}
    assert server.ask("/v2/models/m/infer", body).status == 200
    with contextlib.closing(socket.create_connection(("127.0.0.1", server.http_port), timeout=PATIENCE)) as link:
        link.sendall(b"GET /v2/health/live HTTP/1.1\r\nHost: x\r\n\r\n")
        while link.recv(65536):
            pass  # until the timeout closes it
    assert '"log_verbose_level":1' in server.ask("/v2/logging").text
    assert read_again(server) == ["SIGHUP: --id is \\\"two\\\", it was \\\"one\\\": this takes effect at the next start"]  # still


def test_the_command_line_wins_and_a_bad_file_changes_nothing(start, read_again, tmp_path):
    config = tmp_path / "nereid.yaml"
    config.write_text("http-min-rate: 1\n")
    server = start(f"--config={config}", "--http-min-rate=2")
    config.write_text("http-min-rate: 3\nhttp-body-timeout-ms: no\n")
    (said,) = read_again(server)
    assert said.startswith("SIGHUP: flags, keys and certificates stay as they were: ") and "nereid.yaml:2: --http-body-timeout-ms: invalid value 'no'" in said
    config.write_text("http-min-rate: 3\ngrpc-max-connections: 7\n")
    assert read_again(server) == ["SIGHUP: --grpc-max-connections is 7, it was 10000"]


def test_keys_change_with_their_files(start, read_again, tmp_path):
    key, credential = tmp_path / "key", tmp_path / "infer"
    key.write_text("one\n")
    credential.write_text("first\n")
    read_again.variables["CREDENTIALS_DIRECTORY"] = str(tmp_path)
    server = start(f"--restricted-api=model-repository:admin-key=file:{key}", "--grpc-restricted-protocol=health:key=cred:infer")
    with triton.InferenceServerClient(f"127.0.0.1:{server.grpc_port}") as client:
        def statuses(text):
            return server.ask(INDEX, b"{}", headers={"admin-key": text}).status

        assert (statuses("one"), statuses("two")) == (200, 403)
        assert client.is_server_ready({"triton-grpc-protocol-key": "first"})
        key.write_text("two\n")
        assert read_again(server) == ["SIGHUP: HTTP: the values of keys have changed", "SIGHUP: gRPC: the values of keys have changed"]
        assert (statuses("one"), statuses("two")) == (403, 200)
        credential.write_text("second\n")
        assert read_again(server) == ["SIGHUP: gRPC: the values of keys have changed"]
        assert client.is_server_ready({"triton-grpc-protocol-key": "second"})
        with pytest.raises(triton.InferenceServerException, match="restricted"):
            client.is_server_ready({"triton-grpc-protocol-key": "first"})
        key.write_text("")
        (said,) = read_again(server)
        assert said.startswith("SIGHUP: flags, keys and certificates stay as they were: --restricted-api: ") and "1 to 4096 bytes" in said
        assert (statuses("one"), statuses("two")) == (403, 200)
    assert "two" not in server.log and "second" not in server.log


def test_what_wants_a_key_stays(start, read_again, tmp_path):
    """An API that becomes restricted, or open, at a moment between two checks of a request, would be open to it."""
    config = tmp_path / "nereid.yaml"
    config.write_text("restricted-api: ['model-repository:key=one']\n")
    server = start(f"--config={config}")
    config.write_text("restricted-api: ['model-repository,trace:key=two']\nhttp-min-rate: 1\n")
    text = "'trace' wants a key from now on, or none, or another header: this takes effect at the next start"
    assert read_again(server) == [f"SIGHUP: HTTP: {text}", f"SIGHUP: gRPC: {text}", "SIGHUP: --http-min-rate is 1, it was 256"]
    assert server.ask(INDEX, b"{}", headers={"key": "one"}).status == 200
    assert server.ask("/v2/trace/setting").status == 200


def certificate_of(port, directory, alpn=None):
    context = ssl.create_default_context(cafile=directory / "ca.pem")
    if alpn:
        context.set_alpn_protocols([alpn])
    with socket.create_connection(("localhost", port), timeout=PATIENCE) as plain, context.wrap_socket(plain, server_hostname="localhost") as link:
        return link.getpeercert()["serialNumber"]


def serial_of(path):
    told = subprocess.run(["openssl", "x509", "-noout", "-serial", "-in", path], check=True, capture_output=True, text=True).stdout
    return told.strip().removeprefix("serial=")


def start_tls(start_server, repository, directory, read_again, mutual=False):
    make_identity(repository, "m")
    flags = [*tls_flags(directory, mutual), *tls_flags(directory, mutual, "grpc")]
    server = start_server(repository, flags=flags, ready=False, variables=read_again.variables)
    read_again.await_ready()
    return server


def test_certificates_change_for_new_connections(start_server, repository, tmp_path, read_again):
    make_certificates(tmp_path)
    server = start_tls(start_server, repository, tmp_path, read_again)
    before = serial_of(tmp_path / "server.pem")
    assert certificate_of(server.http_port, tmp_path) == certificate_of(server.grpc_port, tmp_path, "h2") == before
    context = ssl.create_default_context(cafile=tmp_path / "ca.pem")
    with socket.create_connection(("localhost", server.http_port), timeout=PATIENCE) as plain, context.wrap_socket(plain, server_hostname="localhost") as kept:
        def ask():
            kept.sendall(b"GET /v2/health/live HTTP/1.1\r\nHost: localhost\r\n\r\n")
            return kept.recv(65536)

        assert ask().startswith(b"HTTP/1.1 200 ")
        make_certificate(tmp_path, "server", "ca", "server")
        after = serial_of(tmp_path / "server.pem")
        changed = "the certificates have changed, for new connections"
        assert after != before and read_again(server) == [f"SIGHUP: HTTP: {changed}", f"SIGHUP: gRPC: {changed}"]
        assert certificate_of(server.http_port, tmp_path) == certificate_of(server.grpc_port, tmp_path, "h2") == after
        assert ask().startswith(b"HTTP/1.1 200 ")  # on a connection of before
    good = (tmp_path / "server.key").read_bytes()
    (tmp_path / "server.key").write_bytes((tmp_path / "client.key").read_bytes())
    (said,) = read_again(server)
    assert said.startswith("SIGHUP: flags, keys and certificates stay as they were: --http-server-key: ") and "is not the key of the certificate" in said
    assert certificate_of(server.http_port, tmp_path) == after
    (tmp_path / "server.key").write_bytes(good)
    assert read_again(server) == []


def test_the_authority_of_clients_changes(start_server, repository, tmp_path, read_again):
    make_certificates(tmp_path)
    server = start_tls(start_server, repository, tmp_path, read_again, mutual=True)

    def is_served(name):
        """Over HTTP and gRPC alike."""
        context = ssl.create_default_context(cafile=tmp_path / "trusted.pem")
        context.load_cert_chain(tmp_path / f"{name}.pem", tmp_path / f"{name}.key")
        answer = b""
        with contextlib.suppress(OSError), socket.create_connection(("localhost", server.http_port), timeout=PATIENCE) as plain:
            with context.wrap_socket(plain, server_hostname="localhost") as link:
                link.sendall(b"GET /v2/health/live HTTP/1.1\r\nHost: localhost\r\n\r\n")
                answer = link.recv(65536)
        credentials = grpc.ssl_channel_credentials(*((tmp_path / f).read_bytes() for f in ("trusted.pem", f"{name}.key", f"{name}.pem")))
        with triton.InferenceServerClient(f"localhost:{server.grpc_port}", creds=credentials, ssl=True) as client:
            try:
                live = client.is_server_live()
            except triton.InferenceServerException:
                live = False
        assert live == answer.startswith(b"HTTP/1.1 200 ")
        return live

    (tmp_path / "trusted.pem").write_bytes((tmp_path / "ca.pem").read_bytes())  # which has signed the server's
    assert is_served("client") and not is_served("stranger")
    (tmp_path / "ca.pem").write_bytes((tmp_path / "other_ca.pem").read_bytes())
    read_again(server)
    assert is_served("stranger") and not is_served("client")


def test_the_page_says_of_each_flag_whether_it_is_read_again(nereid):
    page = (ROOT / "docs/operating.md").read_text().partition("## What SIGHUP changes")[2].partition("\n## ")[0]
    named = set(re.findall(r"`--([a-z0-9-]+)`", "".join(line for line in page.splitlines() if line.startswith("|"))))
    text = subprocess.run([nereid, "--help"], capture_output=True, text=True).stdout
    source = (ROOT / "src/daemon/reload.c").read_text()
    flags = set(re.findall(r"^  --([a-z0-9-]+)", text, re.M))
    read = {name for name in re.findall(r'"([a-z0-9-]+)"', source.partition("changeable[]")[2].partition("static bool is_among")[0])}
    assert read <= flags and read == named
