# SPDX-License-Identifier: Apache-2.0
"""The installed service under a real systemd, which is the first process of a root of Debian."""
import contextlib
import re
import socket

import pytest
from installing import NEWER, ask, check_models, put_packages
from ports import free_port
from roots import BUILD_SECONDS, Booted, Root, wait_for

pytestmark = pytest.mark.timeout(BUILD_SECONDS)

CHANGED = "listen: ready\nhttp-port: 0\ngrpc-port: 0\nmetrics-port: 0\n"


@pytest.fixture
def root(packages, tmp_path):
    """The packages are installed, systemd runs."""
    put_packages(packages, tmp_path)
    before = Root(tmp_path / "root")
    before.run("apt-get", "update", "-q")
    before.install("systemd", "procps", "/packages/nereid.deb", "/packages/nereid-backend-python.deb")
    before.shell('printf %s "$changed" >>/etc/nereid/nereid.yaml', changed=CHANGED)
    before.close()
    root = Booted(tmp_path / "root")
    yield root
    root.close()


def value(root, unit, name):
    return root.run("systemctl", "show", "--value", "-p", name, unit).strip()


def upgrade(root):
    root.run("dpkg", "--force-confold", "-i", "/packages/nereid-newer.deb", "/packages/nereid-backend-python-newer.deb")


def port_of(root):
    """Of the server that runs now."""
    log = root.run("journalctl", "-o", "cat", "-u", "nereid", f"_PID={value(root, 'nereid.service', 'MainPID')}")
    return int(re.search(r"Started HTTPService at \S+:(\d+)", log)[1])


def test_the_service_starts_when_it_is_enabled_and_an_upgrade_restarts_it(root):
    assert value(root, "nereid.service", "ActiveState") == "inactive"
    root.run("systemctl", "enable", "--now", "nereid.service")
    check_models(port_of(root))
    assert root.run("nereid", "status", "--config=/etc/nereid/nereid.yaml").startswith("ready, 0 requests inside")
    root.run("systemctl", "reload", "nereid.service")
    first = value(root, "nereid.service", "MainPID")
    upgrade(root)
    assert root.run("dpkg-query", "-W", "-f", "${Version}", "nereid") == NEWER
    assert value(root, "nereid.service", "ActiveState") == "active" and value(root, "nereid.service", "MainPID") != first
    check_models(port_of(root))
    root.run("dpkg", "--remove", "nereid-backend-python", "nereid")
    assert value(root, "nereid.service", "ActiveState") == "inactive"
    root.run("dpkg", "--purge", "nereid")
    assert root.shell("find /etc /usr /var/lib /var/cache /var/log -name '*nereid*' -not -path '/var/log/journal/*'").strip() == ""


def test_the_port_of_a_socket_unit_stays_open_during_an_upgrade(root):
    port = free_port()
    setting = f"[Socket]\nListenStream=\nListenStream={port}\n"
    root.shell('mkdir -p /etc/systemd/system/nereid.socket.d; printf %s "$setting" >/etc/systemd/system/nereid.socket.d/port.conf; systemctl daemon-reload', setting=setting)
    root.run("systemctl", "enable", "--now", "nereid.socket")
    check_models(port)  # the first client starts the service
    opened, first = value(root, "nereid.socket", "InvocationID"), value(root, "nereid.service", "MainPID")
    upgrade(root)
    assert ask(port, "/v2")["name"] == "triton" and value(root, "nereid.service", "MainPID") != first
    assert value(root, "nereid.socket", "InvocationID") == opened
    root.run("dpkg", "--remove", "nereid-backend-python", "nereid")
    with contextlib.closing(socket.socket()) as client:
        wait_for("the port closes", lambda: client.connect_ex(("127.0.0.1", port)) != 0)
