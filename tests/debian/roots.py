# SPDX-License-Identifier: Apache-2.0
"""Roots of a Debian release that tests enter (scripts/root)."""
import os
import pathlib
import subprocess
import time

from patience import PATIENCE

SCRIPT = pathlib.Path(__file__).resolve().parents[2] / "scripts/root"
RELEASE = os.environ.get("NEREID_RELEASE", "trixie")
KEPT = pathlib.Path(os.environ.get("NEREID_ROOTS", "/var/tmp/nereid-roots"))
BARE = KEPT / f"{RELEASE}.bare"
BUILD_SECONDS = 3000  # what only a build that hangs takes
SOURCE = "/nereid"  # in the roots


def make_bare():
    """A root that nothing is installed in. It is kept, and no test writes to it."""
    subprocess.run([SCRIPT, "make", RELEASE, BARE], check=True)
    return BARE


class Root:
    """What is written goes to changes/changes; `changes` may have been filled before. All processes end with it."""

    namespaces = ["--mount", "--pid"]

    def __init__(self, changes):
        self.written = changes / "changes"
        self.holder = self.begin(f"{make_bare()}:{changes}")
        children = subprocess.run(["ps", "-o", "pid=", "--ppid", str(self.holder.pid)], check=True, stdout=subprocess.PIPE, text=True)
        self.inside = children.stdout.strip()

    def begin(self, place):
        holder = subprocess.Popen([SCRIPT, "enter", place, "sh", "-c", "echo entered; exec sleep infinity"], stdout=subprocess.PIPE, text=True)
        assert holder.stdout.readline() == "entered\n"
        return holder

    def words(self, *command, **variables):
        settings = {"HOME": "/root", "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "DEBIAN_FRONTEND": "noninteractive", "LC_ALL": "C.UTF-8"}
        return ["nsenter", "--target", self.inside, *self.namespaces, "env", "-i", *(f"{name}={value}" for name, value in (settings | variables).items()), *map(str, command)]

    def run(self, *command, **variables):
        """What the command prints. One that fails shows all of it."""
        done = subprocess.run(self.words(*command, **variables), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        assert done.returncode == 0, f"{command} ended with {done.returncode}:\n{done.stdout}"
        return done.stdout

    def shell(self, script, **variables):
        return self.run("sh", "-euc", script, **variables)

    def install(self, *packages, flags=()):
        return self.run("apt-get", "install", "-y", "-q", "--no-install-recommends", *flags, *packages)

    def close(self):
        self.holder.kill()
        self.holder.wait()


class Booted(Root):
    """A root with systemd in it, which runs."""

    namespaces = [*Root.namespaces, "--cgroup", "--uts", "--ipc"]

    def begin(self, place):
        holder = subprocess.Popen([SCRIPT, "boot", place])
        wait_for("systemd", lambda: self.is_running(holder))
        return holder

    def is_running(self, holder):
        assert holder.poll() is None, "systemd cannot run here"
        names = subprocess.run(["ps", "-o", "pid=,comm=", "--ppid", str(holder.pid)], stdout=subprocess.PIPE, text=True).stdout.split()
        if names[1:] != ["systemd"]:
            return False
        self.inside = names[0]
        state = subprocess.run(self.words("systemctl", "is-system-running"), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True).stdout
        return state.strip() in ("running", "degraded")


def wait_for(what, condition):
    """What the condition yields when it holds."""
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        found = condition()
        if found:
            return found
        time.sleep(0.1)
    raise AssertionError(f"{what}: did not happen in {PATIENCE} seconds")


def made_in(root, directory, *architecture, **variables):
    """The files that scripts/package --deb writes into that directory."""
    root.run(f"{SOURCE}/scripts/package", "--deb", f"{SOURCE}/{directory}", *architecture, **variables)
    return {path.name: path for path in (root.written / SOURCE.strip("/") / directory).iterdir()}


def packages_of(made):
    """The packages by their names."""
    return {name.partition("_")[0]: path for name, path in made.items() if name.endswith(".deb") and "-dbgsym_" not in name}
