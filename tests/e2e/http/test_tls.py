# SPDX-License-Identifier: Apache-2.0
"""HTTPS: real clients, big bodies both ways, streams, clients that do not finish a handshake; mistakes in the flags."""
import contextlib
import gzip
import http.client
import json
import socket
import ssl
import subprocess
import time

import numpy as np
import proc
import pytest
import tritonclient.http as triton
from certificates import make_certificate, make_certificates, tls_flags
from conftest import DEADLINE, make_identity, wait_for
from oracle import await_resources, check_no_growth, cpu_seconds, resources
from safety import on_threads
from streaming import events, make_streaming
from wire import CANARY_BODY, receive_all, receive_reply, replies, request, send


@pytest.fixture(scope="session")
def certificates(tmp_path_factory):
    return make_certificates(tmp_path_factory.mktemp("certificates"))


def trusting(certificates, client=None):
    """A client's context that trusts our authority; `client` names its certificate."""
    context = ssl.create_default_context(cafile=certificates / "ca.pem")
    if client:
        context.load_cert_chain(certificates / f"{client}.pem", certificates / f"{client}.key")
    return context


@contextlib.contextmanager
def connection(server, context):
    with socket.create_connection(("localhost", server.http_port), DEADLINE) as plain:
        with context.wrap_socket(plain, server_hostname="localhost") as secure:
            yield secure


def ask(server, context, method, path, body=None, headers=None):
    client = http.client.HTTPSConnection("localhost", server.http_port, timeout=DEADLINE, context=context)
    try:
        client.request(method, path, body, headers or {})
        answer = client.getresponse()
        return answer.status, answer.read()
    finally:
        client.close()


def start(start_server, repository, flags, context):
    make_identity(repository, "canary")
    server = start_server(repository, flags=flags, ready=False)
    wait_for("readiness", lambda: ask(server, context, "GET", "/v2/health/ready")[0] == 200)
    return server


@pytest.fixture
def context(certificates):
    return trusting(certificates)


@pytest.fixture
def server(start_server, repository, certificates, context):
    make_streaming(repository, "streaming")
    return start(start_server, repository, tls_flags(certificates), context)


def test_curl_and_tritonclient_speak_https(server, certificates, context):
    url = f"https://localhost:{server.http_port}/v2"
    for more in ([], ["--tlsv1.2", "--tls-max", "1.2"], ["--tlsv1.3"], ["--http1.0"]):
        done = subprocess.run(["curl", "-sS", "--cacert", certificates / "ca.pem", *more, url], capture_output=True, text=True)
        assert done.returncode == 0 and json.loads(done.stdout)["name"] == "triton", done.stderr
    data = np.arange(24, dtype=np.float32).reshape(2, 12)
    tensor = triton.InferInput("INPUT0", data.shape, "FP32").set_data_from_numpy(data)
    with triton.InferenceServerClient(f"localhost:{server.http_port}", ssl=True, ssl_context_factory=lambda: context) as client:
        for _ in range(3):
            assert (client.infer("canary", [tensor]).as_numpy("OUTPUT0") == data).all()
    assert "Started HTTPService at 127.0.0.1:" in server.log and " with TLS" in server.log


def test_the_server_is_known_by_its_certificate(server, certificates):
    with pytest.raises(ssl.SSLCertVerificationError):
        with connection(server, ssl.create_default_context(cafile=certificates / "other_ca.pem")):
            pass


def test_big_bodies_come_through_both_ways(server, context):
    """Sent in one piece and in many, answered from several places in memory, and packed."""
    data = np.random.default_rng(7).standard_normal(8 << 20).astype(np.float32)
    raw = {"Inference-Header-Content-Length": "0"}
    for more in ({}, {"Accept-Encoding": "gzip"}):
        client = http.client.HTTPSConnection("localhost", server.http_port, timeout=DEADLINE, context=context)
        tensor = data[: 1 << 20] if more else data
        body = tensor.tobytes()
        chunks = iter([body[i : i + 100_000] for i in range(0, len(body), 100_000)])
        client.request("POST", "/v2/models/canary/infer", chunks, {**raw, **more}, encode_chunked=True)
        answer = client.getresponse()
        text = answer.read()
        assert answer.status == 200
        assert (gzip.decompress(text) if more else text).endswith(body)
        client.close()
    values = json.dumps(data[: 1 << 18].tolist())
    infer = '{"inputs":[{"name":"INPUT0","shape":[1,%d],"datatype":"FP32","data":%s}]}' % (1 << 18, values)
    status, text = ask(server, context, "POST", "/v2/models/canary/infer", infer.encode())
    assert status == 200 and np.array(json.loads(text)["outputs"][0]["data"], np.float32).tobytes() == data[: 1 << 18].tobytes()


def test_requests_may_come_in_any_pieces(server, context):
    """Also many in one record, and one in many records."""
    whole = request("POST", "/v2/models/canary/infer", CANARY_BODY)
    with connection(server, context) as secure:
        for byte in whole:
            secure.sendall(bytes([byte]))
        assert receive_reply(secure).status == 200
        secure.sendall(whole * 20 + request("GET", "/v2/health/live", headers=["Connection: close"]))
        assert [reply.status for reply in replies(receive_all(secure))] == [200] * 21


def test_a_stream_comes_as_it_is_made_and_ends_with_its_client(server, context):
    """Short and long events; the first is there while the others are still to be made."""
    client = http.client.HTTPSConnection("localhost", server.http_port, timeout=DEADLINE, context=context)
    for more, count in (({"count": 5}, 5), ({"count": 300, "bytes": 20_000}, 300)):
        client.request("POST", "/v2/models/streaming/generate_stream", json.dumps({"INPUT": "x", **more}))
        answer = client.getresponse()
        assert answer.status == 200 and len(events(answer.read().decode())) == count
    client.close()
    with connection(server, context) as secure:
        body = json.dumps({"INPUT": "x", "count": 1_000_000, "delay_us": 1000}).encode()
        secure.sendall(request("POST", "/v2/models/streaming/generate_stream", body))
        text = b""
        while b'"index":4,' not in text:
            text += secure.recv(1 << 10)
        assert "sent 1000000 of" not in server.log
    wait_for("cancellation", lambda: "cancelled 1" in server.log)


def test_a_refused_upload_is_told_why(server, context):
    """The refusal goes through the session while the client still sends."""
    head = request("POST", "/v2/models/canary/infer", headers=[f"Content-Length: {1 << 40}"])
    with connection(server, context) as secure:
        assert send(secure, head)
        with contextlib.suppress(OSError):
            for _ in range(64):
                secure.sendall(bytes(1 << 16))
        found = replies(receive_all(secure))
    assert [reply.status for reply in found] == [413] and found[0].headers["connection"] == "close"


def test_other_protocols_are_refused(server, certificates):
    """Plain HTTP, and versions of TLS that are broken."""
    with socket.create_connection(("localhost", server.http_port), DEADLINE) as plain:
        send(plain, request("GET", "/v2"))
        assert b"HTTP" not in receive_all(plain)
    old = ["openssl", "s_client", "-connect", f"localhost:{server.http_port}", "-cipher", "ALL:@SECLEVEL=0"]
    for version in ("-tls1", "-tls1_1"):
        done = subprocess.run([*old, version], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=DEADLINE)
        assert done.returncode != 0 and "Cipher is (NONE)" in done.stdout + done.stderr, done.stdout
    done = subprocess.run([*old[:-2], "-tls1_2"], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=DEADLINE)
    assert done.returncode == 0, done.stderr


def test_a_slow_handshake_is_cut(start_server, repository, certificates, context):
    server = start(start_server, repository, [*tls_flags(certificates), "--http-header-timeout-ms=3000"], context)
    with socket.create_connection(("localhost", server.http_port), DEADLINE) as silent:
        assert silent.recv(1) == b""  # or the deadline passes
    with socket.create_connection(("localhost", server.http_port), DEADLINE) as begun:
        begun.sendall(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(100))  # the beginning of a hello
        with contextlib.suppress(ConnectionResetError):
            while begun.recv(1 << 10):
                pass
    assert ask(server, context, "GET", "/v2/health/live")[0] == 200


def shake_hands_bytewise(plain, context, until=None):
    """A client's side of a handshake, byte by byte; ends before the flight `until`. Gives the session."""
    plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    session = context.wrap_bio(incoming, outgoing, server_hostname="localhost")
    flight, done = 0, False
    while not done:
        try:
            session.do_handshake()
            done = True
        except ssl.SSLWantReadError:
            pass
        if flight == until:
            return session
        for byte in outgoing.read():
            plain.sendall(bytes([byte]))
        flight += 1
        if not done:
            incoming.write(plain.recv(1 << 16))
    session.write(request("GET", "/v2/health/live", headers=["Connection: close"]))
    plain.sendall(outgoing.read())
    incoming.write(receive_all(plain))
    assert session.read(1 << 10).startswith(b"HTTP/1.1 200")
    return session


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_a_handshake_may_come_in_any_pieces(server, context, version):
    context.minimum_version = context.maximum_version = version
    with socket.create_connection(("localhost", server.http_port), DEADLINE) as plain:
        shake_hands_bytewise(plain, context)


@pytest.mark.alone
def test_handshakes_that_wait_cost_no_processor(start_release, repository, certificates, context):
    """libmicrohttpd would look at them again and again."""
    server = start(start_release, repository, tls_flags(certificates), context)
    with contextlib.ExitStack() as stack:
        clients = [stack.enter_context(socket.create_connection(("localhost", server.http_port), DEADLINE)) for _ in range(16)]
        for i, client in enumerate(clients):
            if i % 4 < 2:
                client.sendall([b"", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(100)][i % 4])
            else:
                shake_hands_bytewise(client, context, until=i % 4 - 1)
        used = cpu_seconds(server)
        time.sleep(2)  # what is measured
        assert cpu_seconds(server) - used < 0.5
        assert ask(server, context, "POST", "/v2/models/canary/infer", CANARY_BODY)[0] == 200


def test_noise_and_broken_handshakes_do_no_harm(server, context):
    rng = np.random.default_rng(3)
    for i in range(200):
        with socket.create_connection(("localhost", server.http_port), DEADLINE) as plain:
            head = [b"", b"\x16\x03\x01", b"\x16\x03\x03\x00\x40\x01\x00\x00\x3c\x03\x03"][i % 3]
            with contextlib.suppress(OSError):
                plain.sendall(head + rng.bytes(int(rng.integers(0, 400))))
                plain.shutdown(socket.SHUT_WR)
                receive_all(plain)
    assert ask(server, context, "GET", "/v2/health/live")[0] == 200


def shake_hands(server, context, count):
    def some(_):
        for _ in range(count // 8):
            with connection(server, context) as secure:
                secure.sendall(request("GET", "/v2/health/live", headers=["Connection: close"]))
                assert replies(receive_all(secure))[0].status == 200

    on_threads(8, some)


LISTENERS = 3  # HTTP, gRPC, metrics


def settled(server):
    """Its resources once no connection is left."""
    def sockets():
        return sum(link.startswith("socket") for link in proc.descriptors(server.process.pid).values())

    wait_for("the connections to end", lambda: sockets() <= LISTENERS)
    return resources(server)


@pytest.mark.slow
def test_a_thousand_handshakes_leave_nothing(start_release, repository, certificates, context):
    server = start(start_release, repository, tls_flags(certificates), context)
    shake_hands(server, context, 200)
    before = settled(server)
    check_no_growth(server, lambda: shake_hands(server, context, 1000), 8 << 20)
    await_resources(server, before)


def test_idle_connections_end_with_the_server_and_in_time(start_server, repository, certificates, context):
    flags = [*tls_flags(certificates), "--http-idle-timeout-ms=1000", "--http-header-timeout-ms=600000"]
    server = start(start_server, repository, flags, context)
    for stop in (False, True):
        with contextlib.ExitStack() as stack:
            clients = [stack.enter_context(connection(server, context)) for _ in range(20)]
            for secure in clients[:15]:  # the others have not asked anything yet
                secure.sendall(request("POST", "/v2/models/canary/infer", CANARY_BODY))
                assert receive_reply(secure).status == 200
            if stop:  # halfway through handshakes, too
                for hello in (b"", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"):
                    half = stack.enter_context(socket.create_connection(("localhost", server.http_port), DEADLINE))
                    half.sendall(hello)
                server.stop()
            for secure in clients[:15] if stop else clients[:1]:
                assert secure.recv(1) == b""
    assert "not answered in time" not in server.log


# ---- clients with certificates


@pytest.fixture
def mutual(start_server, repository, certificates):
    return start(start_server, repository, tls_flags(certificates, mutual=True), trusting(certificates, "client"))


def test_mutual_takes_clients_of_the_authority(mutual, certificates):
    for version in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
        context = trusting(certificates, "client")
        context.minimum_version = context.maximum_version = version
        status, text = ask(mutual, context, "POST", "/v2/models/canary/infer", CANARY_BODY)
        assert status == 200, text


@pytest.mark.parametrize("who", [None, "stranger", "server", "expired"])
def test_mutual_refuses_everybody_else(mutual, certificates, who):
    """No certificate, that of another authority, one that is not for clients, one that is over."""
    if who == "expired" and not (certificates / "expired.pem").exists():
        make_certificate(certificates, "expired", "ca", "client", expired=True)
    for version in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
        context = trusting(certificates, who)
        context.minimum_version = context.maximum_version = version
        with pytest.raises((ssl.SSLError, ConnectionError, http.client.RemoteDisconnected)):
            ask(mutual, context, "GET", "/v2/health/live")
    assert ask(mutual, trusting(certificates, "client"), "GET", "/v2/health/live")[0] == 200


# ---- mistakes


@pytest.fixture(scope="session")
def files(certificates):
    (certificates / "noise.pem").write_text("this is no PEM\n")
    (certificates / "empty.pem").write_text("")
    return certificates


CERT, KEY, ROOT = "--http-server-cert={}/", "--http-server-key={}/", "--http-root-cert={}/"
USE, MUTUAL = "--http-use-ssl=true", "--http-use-ssl-mutual=true"
MISTAKES = {
    "no certificate": ([USE], ["--http-use-ssl needs --http-server-cert"]),
    "no key": ([USE, CERT + "server.pem"], ["--http-use-ssl needs --http-server-key"]),
    "no root": ([MUTUAL, CERT + "server.pem", KEY + "server.key"], ["--http-use-ssl-mutual needs --http-root-cert"]),
    "absent certificate": ([USE, CERT + "absent", KEY + "server.key"], ["--http-server-cert", "/absent", "No such file or directory"]),
    "absent key": ([USE, CERT + "server.pem", KEY + "absent"], ["--http-server-key", "/absent", "No such file or directory"]),
    "directory": ([USE, CERT + ".", KEY + "server.key"], ["--http-server-cert", "/."]),
    "noise": ([USE, CERT + "noise.pem", KEY + "server.key"], ["--http-server-cert", "/noise.pem"]),
    "empty": ([USE, CERT + "empty.pem", KEY + "server.key"], ["--http-server-cert", "/empty.pem"]),
    "noise for a key": ([USE, CERT + "server.pem", KEY + "noise.pem"], ["--http-server-key", "/noise.pem"]),
    "certificate for a key": ([USE, CERT + "server.pem", KEY + "server.pem"], ["--http-server-key", "/server.pem"]),
    "another's key": ([USE, CERT + "server.pem", KEY + "client.key"], ["--http-server-key", "/client.key", "is not the key of"]),
    "noise for a root": ([MUTUAL, CERT + "server.pem", KEY + "server.key", ROOT + "noise.pem"], ["--http-root-cert", "/noise.pem"]),
}


@pytest.mark.parametrize("case", MISTAKES)
def test_a_mistake_names_flag_and_file(nereid, files, case):
    flags, words = MISTAKES[case]
    command = [nereid, "--model-repository=/tmp", *(flag.format(files) for flag in flags)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=DEADLINE)
    assert done.returncode == 1 and done.stderr.count("\n") == 1, done.stderr
    for word in words:
        assert word in done.stderr


def test_certificates_without_the_flag_are_not_used(start_server, repository, certificates):
    make_identity(repository, "canary")
    server = start_server(repository, flags=tls_flags(certificates)[:2])
    assert server.ask("/v2").status == 200
