# SPDX-License-Identifier: Apache-2.0
"""gRPC over TLS, with and without certificates of clients."""
import ssl

import numpy as np
import pytest
import tritonclient.grpc as triton
from certificates import make_certificates, tls_flags
from conftest import EVERYTHING, wait_for
from http2 import OK, Connection, infer_request, message
from oracle import MIB, survives
from test_grpc_life import DATA, address, infer
from tritonclient.utils import InferenceServerException

REQUEST = message(infer_request())


@pytest.fixture(scope="module")
def directory(tmp_path_factory):
    return make_certificates(tmp_path_factory.mktemp("certificates"))


@pytest.fixture
def plain(start_server, targets, directory):
    return start_server(targets, flags=[*EVERYTHING, *tls_flags(directory, protocol="grpc")])


@pytest.fixture
def mutual(start_server, targets, directory):
    return start_server(targets, flags=[*EVERYTHING, *tls_flags(directory, mutual=True, protocol="grpc")])


def client(server, directory, name=None, authority="ca"):
    more = {} if name is None else dict(private_key=f"{directory}/{name}.key", certificate_chain=f"{directory}/{name}.pem")
    return triton.InferenceServerClient(address(server), ssl=True, root_certificates=f"{directory}/{authority}.pem", **more)


def wrapped(directory, most=None, protocols=("h2",)):
    context = ssl.create_default_context(cafile=f"{directory}/ca.pem")
    context.set_alpn_protocols(list(protocols))
    if most:
        context.minimum_version, context.maximum_version = ssl.TLSVersion.TLSv1, most
        context.set_ciphers("ALL:@SECLEVEL=0")
    return lambda raw: context.wrap_socket(raw, server_hostname="localhost")


def test_clients_that_trust_the_server_are_served(plain, directory):
    large = np.random.default_rng(1).random((1, 2_000_000), np.float32)
    with survives(plain), client(plain, directory) as honest:
        assert (infer(honest) == DATA).all()
        assert (infer(honest, large) == large).all()


def test_clients_that_do_not_are_not(plain, directory):
    with survives(plain):
        with client(plain, directory, authority="other_ca") as stranger, pytest.raises(InferenceServerException):
            infer(stranger, client_timeout=10)
        with triton.InferenceServerClient(address(plain)) as other, pytest.raises(InferenceServerException):
            infer(other, client_timeout=10)


def test_a_client_must_have_a_certificate_where_that_is_wanted(mutual, directory):
    with survives(mutual):
        with client(mutual, directory, "client") as known:
            assert (infer(known) == DATA).all()
        for name in (None, "stranger"):
            with client(mutual, directory, name) as unknown, pytest.raises(InferenceServerException):
                infer(unknown, client_timeout=10)


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1, ssl.TLSVersion.TLSv1_1], ids=["1.0", "1.1"])
def test_old_versions_are_refused(plain, directory, version):
    with survives(plain), pytest.raises((ssl.SSLError, OSError)):
        Connection(plain, wrap=wrapped(directory, version))


def test_other_protocols_under_tls_are_refused(plain, directory):
    with survives(plain), pytest.raises((ssl.SSLError, OSError)):
        Connection(plain, wrap=wrapped(directory, protocols=("http/1.1",)))


@pytest.mark.parametrize("bytes", [b"", b"\x16\x03\x01\x02\x00", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"],
                         ids=["nothing", "a piece", "plain HTTP/2"])
def test_handshakes_that_do_not_end_are_ended(start_server, targets, directory, bytes):
    server = start_server(targets, flags=[*EVERYTHING, "--grpc-handshake-timeout-ms=2000", *tls_flags(directory, protocol="grpc")])
    with survives(server), Connection(server, begin=False) as connection:
        connection.send(bytes)
        connection.await_close()


def test_many_handshakes_leave_nothing(plain, directory):
    """Some end in the middle of it, and some in the middle of a call."""
    wrap = wrapped(directory)
    with survives(plain):
        for i in range(100):
            with Connection(plain, wrap=wrap) as connection:
                if i % 2 == 0:
                    assert connection.ask(messages=[REQUEST]).status == OK
                else:
                    connection.call(messages=[REQUEST[:20]], end=False)
            with Connection(plain, begin=False) as connection:
                connection.send(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"[: i % 11])


@pytest.mark.parametrize("flag, file", [("cert", "absent.pem"), ("key", "absent.key"), ("key", "client.key")])
def test_a_certificate_that_is_none_is_told_at_the_start(start_server, targets, directory, flag, file):
    flags = [f for f in tls_flags(directory, protocol="grpc") if f"--grpc-server-{flag}" not in f]
    server = start_server(targets, flags=[*flags, f"--grpc-server-{flag}={directory}/{file}"], wait=False)
    wait_for("the end", lambda: server.process.poll() is not None)
    assert server.process.returncode == 1
    assert f"--grpc-server-{flag}" in server.log or "--grpc-server-cert" in server.log, server.log[-500:]
