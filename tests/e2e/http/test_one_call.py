# SPDX-License-Identifier: Apache-2.0
"""A short reply is one system call, whatever is in it, with TLS too."""
import re
import ssl

import numpy
import pytest
import tritonclient.http
from certificates import make_certificates, tls_flags
from conftest import make_identity, wait_for

REQUESTS = 20


def sends(record):
    """Calls of the loops that sent something."""
    text = record.read_text(errors="replace") if record.exists() else ""
    return len(re.findall(r"^\d+ +(?:sendto|sendmsg)\(.* = [1-9]\d*$", text, re.M))


def ask(client, binary, times):
    given = tritonclient.http.InferInput("INPUT0", [1, 16], "FP32")
    given.set_data_from_numpy(numpy.arange(16, dtype=numpy.float32).reshape(1, 16))
    wanted = tritonclient.http.InferRequestedOutput("OUTPUT0", binary_data=binary)
    for _ in range(times):
        found = client.infer("m", [given], outputs=[wanted]).as_numpy("OUTPUT0")
        assert (found == numpy.arange(16)).all()


@pytest.mark.parametrize("tls", [False, True], ids=["plain", "tls"])
def test_a_short_reply_is_one_call(start_server, repository, tmp_path, tls):
    make_identity(repository, "m")
    record = tmp_path / "calls"
    trace = ["strace", "-D", "-f", "-qq", "-e", "trace=sendto,sendmsg", "-e", "signal=none", "-o", str(record)]
    certificates = make_certificates(tmp_path) if tls else None
    server = start_server(repository, flags=tls_flags(certificates) if tls else [], wrapper=trace, ready=not tls)
    more = {"ssl": True, "ssl_context_factory": lambda: unchecked(certificates)} if tls else {}
    client = tritonclient.http.InferenceServerClient(f"127.0.0.1:{server.http_port}", **more)
    wait_for("the model", lambda: client.is_model_ready("m"))
    for binary in (True, False):
        ask(client, binary, 1)  # the handshake, and a session's tickets
        before = wait_for("the calls so far", lambda: sends(record))
        ask(client, binary, REQUESTS)
        # strace writes each call as it ends: those of the last reply at the latest now.
        wait_for("its calls", lambda: sends(record) - before >= REQUESTS)
        assert sends(record) - before <= REQUESTS + 1, (binary, sends(record) - before)


def unchecked(certificates):
    context = ssl.create_default_context(cafile=certificates / "ca.pem")
    context.check_hostname = False
    return context
