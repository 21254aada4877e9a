# SPDX-License-Identifier: Apache-2.0
"""The installed service under a real systemd, which is the first process of a root of Debian."""
import collections
import concurrent.futures
import contextlib
import re
import socket
import threading
import urllib.error
import urllib.request

import pytest
from installing import NEWER, ask, check_models, put_packages
from ports import free_port, is_refused
from roots import BUILD_SECONDS, PATIENCE, Booted, Root, wait_for

pytestmark = pytest.mark.timeout(BUILD_SECONDS)

SETTINGS = "/etc/nereid/nereid.yaml"
PACKAGES = ("nereid", "nereid-backend-python")
CHANGED = "listen: ready\nhttp-port: 0\ngrpc-port: 0\nmetrics-port: 0\n"
SOCKETS = ("nereid.socket", "nereid-grpc.socket", "nereid-metrics.socket")
DROP_INS = {"gpu": ("PrivateDevices", "no"), "no-jit": ("MemoryDenyWriteExecute", "yes"), "strict-workers": ("RestrictNamespaces", "ipc net mnt user")}


@pytest.fixture(scope="module")
def machine(packages, tmp_path_factory):
    """systemd runs; all that the packages need is installed."""
    directory = tmp_path_factory.mktemp("machine")
    put_packages(packages, directory)
    before = Root(directory / "root")
    before.run("apt-get", "update", "-q")
    before.install("systemd", *(f"/packages/{name}.deb" for name in PACKAGES))
    before.run("dpkg", "--purge", *reversed(PACKAGES))
    before.close()
    machine = Booted(directory / "root")
    yield machine
    machine.close()


@pytest.fixture
def root(machine):
    """The packages are installed; afterwards nothing is left of them and their settings."""
    machine.run("dpkg", "--force-unsafe-io", "-i", *(f"/packages/{name}.deb" for name in PACKAGES))
    change(machine, SETTINGS, CHANGED)
    yield machine
    machine.run("dpkg", "--purge", *reversed(PACKAGES))
    machine.shell("rm -rf /etc/systemd/system/nereid* /var/lib/nereid /var/lib/private/nereid; systemctl daemon-reload; systemctl reset-failed")


def change(root, path, text):
    """Adds the text to that file."""
    root.shell('mkdir -p "$(dirname "$path")"; printf %s "$text" >>"$path"', path=path, text=text)


def start(root):
    """Anew, with the drop-ins that are there now. A failure shows the log."""
    root.shell("systemctl daemon-reload; systemctl restart nereid || { journalctl -u nereid; exit 1; }")


def value(root, unit, name):
    return root.run("systemctl", "show", "--value", "-p", name, unit).strip()


def main_process(root):
    return value(root, "nereid.service", "MainPID")


def upgrade(root, **variables):
    root.run("dpkg", "--force-confold,unsafe-io", "-i", *(f"/packages/{name}-newer.deb" for name in PACKAGES), **variables)
    assert root.run("dpkg-query", "-W", "-f", "${Version}", "nereid") == NEWER


def log_of(root):
    """Of the server that runs now."""
    return root.run("journalctl", "-o", "cat", "-u", "nereid", f"_PID={main_process(root)}")


def port_of(root):
    """journald may write a line after systemd has heard that the server is ready."""
    return int(wait_for("the port", lambda: re.search(r"Started HTTPService at \S+:(\d+)", log_of(root)))[1])


def test_the_service_starts_when_it_is_enabled_and_an_upgrade_restarts_it(root):
    assert value(root, "nereid.service", "ActiveState") == "inactive"
    root.run("systemctl", "enable", "--now", "nereid.service")
    check_models(port_of(root))
    assert root.run("nereid", "status", f"--config={SETTINGS}").startswith("ready, 0 requests inside")
    first = main_process(root)
    upgrade(root)
    assert value(root, "nereid.service", "ActiveState") == "active" and main_process(root) != first
    check_models(port_of(root))
    root.run("dpkg", "--remove", *reversed(PACKAGES))
    assert value(root, "nereid.service", "ActiveState") == "inactive"
    root.run("dpkg", "--purge", "nereid")
    assert root.shell("find /etc /usr /var/lib /var/cache /var/log -name '*nereid*' -not -path '/var/log/journal/*'").strip() == ""


@contextlib.contextmanager
def grpc_client(port):
    import tritonclient.grpc as grpc

    with contextlib.closing(grpc.InferenceServerClient(f"localhost:{port}")) as client:
        yield client


def is_grpc_ready(port):
    with grpc_client(port) as client:
        assert client.is_server_ready(client_timeout=PATIENCE)


def is_grpc_answered(port):
    """A server that stops answers those who have just connected, and says that it is not ready."""
    with grpc_client(port) as client:
        assert client.get_model_metadata("identity", client_timeout=PATIENCE).name == "identity"


def has_metrics(port):
    with urllib.request.urlopen(f"http://localhost:{port}/metrics", timeout=PATIENCE) as reply:
        assert b"nereid_config_info" in reply.read()


@contextlib.contextmanager
def clients(**questions):
    """Each asks again and again, over new connections. None may fail, and each is answered before and after what is done meanwhile."""
    done, answers = threading.Event(), collections.Counter()

    def go_on(name):
        while not done.is_set():
            questions[name]()
            answers[name] += 1

    def await_more():
        seen = answers.copy()
        for name in questions:
            wait_for(f"answers by {name}", lambda: any(client.done() for client in running) or answers[name] > seen[name] + 1)

    with concurrent.futures.ThreadPoolExecutor(len(questions)) as pool:
        running = [pool.submit(go_on, name) for name in questions]
        try:
            await_more()
            yield
            await_more()
        finally:
            done.set()
    for client in running:
        client.result()


def open_sockets(root):
    """Enables the socket units, at ports that are free here, and returns these."""
    ports = [free_port() for _ in SOCKETS]
    for unit, port in zip(SOCKETS, ports):
        change(root, f"/etc/systemd/system/{unit}.d/port.conf", f"[Socket]\nListenStream=\nListenStream={port}\n")
    root.run("systemctl", "daemon-reload")
    root.run("systemctl", "enable", "--now", *SOCKETS)
    return ports


def test_the_ports_of_socket_units_stay_open_during_a_restart_and_an_upgrade(root):
    http, grpc, metrics = open_sockets(root)
    assert value(root, "nereid.service", "ActiveState") == "inactive"
    is_grpc_ready(grpc)  # the first client starts the service
    check_models(http)
    opened = [value(root, unit, "InvocationID") for unit in SOCKETS]
    for renew in (start, upgrade):
        first = main_process(root)
        with clients(http=lambda: ask(http, "/v2/models/identity"), grpc=lambda: is_grpc_answered(grpc), metrics=lambda: has_metrics(metrics)):
            renew(root)
        assert main_process(root) != first
    assert [value(root, unit, "InvocationID") for unit in SOCKETS] == opened
    root.run("dpkg", "--remove", *reversed(PACKAGES))
    for port in (http, grpc, metrics):
        wait_for("the port closes", lambda: is_refused(port))


def test_a_reload_reads_the_flags_again(root):
    root.shell("test ! -e /bin/kill")  # it needs no procps
    start(root)
    first = main_process(root)
    change(root, SETTINGS, "http-idle-timeout-ms: 30000\n")
    root.run("systemctl", "reload", "nereid")
    wait_for("the new limit", lambda: "SIGHUP: --http-idle-timeout-ms is 30000" in log_of(root))
    wait_for("ready again", lambda: value(root, "nereid.service", "ActiveState") == "active")
    assert main_process(root) == first


def test_a_newer_server_takes_over_without_a_restart(root):
    """As docs/upgrading.md says."""
    change(root, SETTINGS, "upgrade-address: unix:/run/nereid/upgrade.sock\n")
    start(root)
    first, port, started = main_process(root), port_of(root), value(root, "nereid.service", "InvocationID")
    upgrade(root, SYSTEMD_OFFLINE="1")
    assert main_process(root) == first
    with clients(http=lambda: ask(port, "/v2/models/identity")):
        root.run("systemctl", "kill", "-s", "USR2", "--kill-whom=main", "nereid")
        wait_for("another main process", lambda: main_process(root) != first)
    assert value(root, "nereid.service", "InvocationID") == started and value(root, "nereid.service", "ActiveState") == "active"
    check_models(port)


def test_each_drop_in_does_what_it_says(root):
    at = "/usr/share/doc/nereid/drop-ins"
    assert set(root.run("ls", at).split()) == {f"{name}.conf" for name in DROP_INS}
    for name, (setting, expected) in DROP_INS.items():
        root.shell(f"rm -rf /etc/systemd/system/nereid.service.d; install -D -m 644 -t /etc/systemd/system/nereid.service.d {at}/{name}.conf")
        if name == "strict-workers":
            change(root, SETTINGS, "worker-sandbox: strict\n")
        start(root)
        assert root.run("cat", f"{at}/{name}.conf") in root.run("systemctl", "cat", "nereid.service")
        assert root.shell("systemd-analyze verify --man=no nereid.service 2>&1").strip() == ""
        assert sorted(value(root, "nereid.service", setting).split()) == sorted(expected.split())
        check_models(port_of(root))


def test_a_credential_is_a_key(root):
    root.shell("umask 077; echo s3cret >/etc/nereid/admin-key")
    change(root, "/etc/systemd/system/nereid.service.d/key.conf", "[Service]\nLoadCredential=admin-key:/etc/nereid/admin-key\n")
    change(root, SETTINGS, 'restricted-api: ["model-repository:admin-key=cred:admin-key"]\n')
    start(root)
    index = urllib.request.Request(f"http://localhost:{port_of(root)}/v2/repository/index", data=b"")
    with pytest.raises(urllib.error.HTTPError, match="403"):
        urllib.request.urlopen(index, timeout=PATIENCE)
    index.add_header("admin-key", "s3cret")
    with urllib.request.urlopen(index, timeout=PATIENCE) as reply:
        assert b'"doubled"' in reply.read()
    root.run("rm", "/etc/nereid/admin-key")


def test_the_watchdog_ends_a_server_that_hangs(root):
    start(root)
    assert value(root, "nereid.service", "WatchdogUSec") == "1min"
    change(root, "/etc/systemd/system/nereid.service.d/watchdog.conf", "[Service]\nWatchdogSec=10\n")
    start(root)
    begun = value(root, "nereid.service", "WatchdogTimestampMonotonic")
    wait_for("a sign of life", lambda: value(root, "nereid.service", "WatchdogTimestampMonotonic") != begun)
    restarts = value(root, "nereid.service", "NRestarts")
    root.run("systemctl", "kill", "-s", "STOP", "--kill-whom=main", "nereid")
    wait_for("a restart", lambda: value(root, "nereid.service", "NRestarts") != restarts and value(root, "nereid.service", "ActiveState") == "active")
    assert "Watchdog timeout" in root.run("journalctl", "-o", "cat", "-u", "nereid")
    check_models(port_of(root))
