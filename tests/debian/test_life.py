# SPDX-License-Identifier: Apache-2.0
"""A package's life in a root where nothing else is installed: installed, run, upgraded, removed, purged. No systemd runs there, as in a container: the server is
started by hand with the unit's command line, under a user without rights."""
import re
import subprocess

import pytest
from installing import NEWER, ask, check_models, put_packages
from roots import BUILD_SECONDS, Root

pytestmark = pytest.mark.timeout(BUILD_SECONDS)

CHANGED = "id: changed-by-the-operator\nhttp-port: 0\ngrpc-port: 0\nmetrics-port: 0\n"


@pytest.fixture
def root(packages, tmp_path):
    """systemd is installed, but does not run."""
    put_packages(packages, tmp_path)
    root = Root(tmp_path / "root")
    root.run("apt-get", "update", "-q")
    root.install("systemd", "man-db")
    yield root
    root.close()


class Service:
    """The server, by the command line of the installed unit."""

    def __init__(self, root):
        unit = root.run("cat", "/usr/lib/systemd/system/nereid.service")
        command = re.search(r"^ExecStart=(.*)", unit, re.M)[1].split()
        root.shell("mkdir -p /run/nereid; chown 4711:4711 /run/nereid")
        self.root = root
        self.process = subprocess.Popen(root.words("sh", "-c", 'echo $$ >/run/service.pid; exec setpriv --reuid=4711 --regid=4711 --clear-groups --no-new-privs "$@"', "sh", *command),
                                        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        self.log = ""
        for line in self.process.stdout:  # one that ends at once ends the log, too
            self.log += line
            if "Serving " in line:
                break
        found = re.search(r"Started HTTPService at \S+:(\d+)", self.log)
        assert found and "Serving 2 models" in self.log, self.log
        self.port = int(found[1])

    def check(self):
        assert ask(self.port, "/v2")["name"] == "changed-by-the-operator"
        check_models(self.port)

    def stop(self):
        self.root.shell("kill -TERM $(cat /run/service.pid)")
        self.log += self.process.stdout.read()
        assert self.process.wait() == 0, self.log


def files_in(root):
    """Every file, but what dpkg, apt and this test keep."""
    kept = "/packages /tmp /run /nereid /srv /var/lib/dpkg /var/lib/apt /var/cache/apt /var/cache/man /var/log"
    pruned = " -o ".join(f"-path {path}" for path in kept.split())
    return set(root.run("find", "/", "-xdev", "(", *pruned.split(), ")", "-prune", "-o", "-print").splitlines())


def state(root, unit):
    return root.shell('systemctl is-enabled "$unit" || true', unit=unit).strip()


def installed(root):
    root.install("/packages/nereid.deb", "/packages/nereid-backend-python.deb")
    root.run("dpkg", "--verify", "nereid", "nereid-backend-python")
    assert state(root, "nereid.service") == state(root, "nereid.socket") == "disabled"
    assert root.shell("systemd-analyze verify /usr/lib/systemd/system/nereid*.s* 2>&1").strip() == ""
    assert re.search(r"\d", root.run("nereid", "--version")) and root.run("tritonserver", "--version") == root.run("nereid", "--version")
    offered = root.shell("bash -c '. /usr/share/bash-completion/completions/tritonserver; COMP_WORDS=(nereid che) COMP_CWORD=1; _nereid nereid; echo ${COMPREPLY[@]}'")
    assert offered == "check\n"


def upgraded(root, service):
    """While it runs: without systemd nothing restarts it, and it goes on with what it has opened."""
    root.install("/packages/nereid-newer.deb", "/packages/nereid-backend-python-newer.deb", flags=["-o", "Dpkg::Options::=--force-confold"])
    assert root.run("dpkg-query", "-W", "-f", "${Version} ${Status}", "nereid") == f"{NEWER} install ok installed"
    assert CHANGED in root.run("cat", "/etc/nereid/nereid.yaml")
    assert "A newer package says more here" in root.run("cat", "/etc/nereid/nereid.yaml.dpkg-dist")
    assert state(root, "nereid.service") == "enabled" and state(root, "nereid.socket") == "disabled"
    service.check()


def test_install_run_upgrade_remove_and_purge(root):
    before = files_in(root)
    installed(root)
    root.shell('printf %s "$changed" >>/etc/nereid/nereid.yaml; systemctl enable nereid.service', changed=CHANGED)
    service = Service(root)
    service.check()
    assert root.run("nereid", "status", "--config=/etc/nereid/nereid.yaml").startswith("ready, 0 requests inside")
    upgraded(root, service)
    service.stop()
    service = Service(root)
    service.check()
    service.stop()
    root.run("dpkg", "--remove", "nereid-backend-python", "nereid")
    assert {path for path in files_in(root) - before if "nereid" in path and "/etc/systemd/" not in path and "/deb-systemd-helper" not in path} == {"/etc/nereid", "/etc/nereid/nereid.yaml", "/etc/nereid/nereid.yaml.dpkg-dist"}
    root.install("/packages/nereid-newer.deb")
    assert state(root, "nereid.service") == "enabled" and CHANGED in root.run("cat", "/etc/nereid/nereid.yaml")
    root.shell("mkdir -p /var/lib/private/nereid/models /var/cache/private/nereid; ln -s private/nereid /var/cache/nereid")
    root.run("dpkg", "--purge", "nereid")
    assert {path for path in files_in(root) - before if "nereid" in path} == {"/var/lib/private/nereid", "/var/lib/private/nereid/models"}
