# SPDX-License-Identifier: Apache-2.0
"""Memory that runs out and system calls that fail while clients shake hands and infer over TLS (test_faults.py does the rest)."""
import contextlib
import http.client
import ssl

import pytest
from certificates import make_certificates, tls_flags
from conftest import PATIENCE, make_identity, wait_for
from fault_replies import Reply, ask_on, gives_back, json_body
from fault_scenarios import SCENARIOS
from faults import Faults
from fault_torture import KINDS, Torture

pytestmark = pytest.mark.slow

DATA = [1.5, -2.0]


def infer_over_tls(certificates):
    """A whole connection each time: handshake with a client's certificate, inference, end."""
    context = ssl.create_default_context(cafile=certificates / "ca.pem")
    context.load_cert_chain(certificates / "client.pem", certificates / "client.key")

    def act(server):
        client = http.client.HTTPSConnection("localhost", server.http_port, timeout=PATIENCE, context=context)
        with contextlib.closing(client):
            try:
                return [ask_on(client, gives_back(DATA), "/v2/models/m/infer", json_body(DATA, "FP32"))]
            except ssl.SSLError:  # the handshake failed, or the stream ended within TLS
                return [Reply(None, gives_back(DATA))]

    return act


@pytest.mark.parametrize("name", ["memory", "no more memory", "calls", "interrupted", "short", "again", "reset"])
def test_a_server_outlives_each_failure_of_tls(start_server, repository, tmp_path, monkeypatch, name):
    certificates = tmp_path / "certificates"
    certificates.mkdir()
    make_certificates(certificates)
    make_identity(repository, "m")
    act = infer_over_tls(certificates)
    monkeypatch.setitem(SCENARIOS, "tls", lambda _: act)

    def start(models, flags, variables):
        flags = [*flags, *tls_flags(certificates, mutual=True)]
        server = start_server(models, flags=flags, variables=variables, ready=False)
        wait_for("readiness", lambda: act(server)[0].is_right())
        return server

    assert name in KINDS
    torture = Torture(start, repository, Faults(tmp_path / "faults"), "tls")
    torture.fail_each(name)
    torture.finish()
