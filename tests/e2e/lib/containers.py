# SPDX-License-Identifier: Apache-2.0
"""Containers of images that scripts/make_image.py made: podman runs them without a network, with a root that cannot be written and without capabilities."""
import asyncio
import contextlib
import ctypes
import functools
import os
import shutil
import socket
import subprocess
import threading

import proc
import pytest
from conftest import PATIENCE, Server, wait_for

needs_podman = pytest.mark.skipif(os.geteuid() != 0 or not shutil.which("podman") or not shutil.which("runc"), reason="needs root, podman and runc (scripts/setup --all)")
ENTER_NETWORK = 0x40000000  # CLONE_NEWNET
# The machine's own limits: a process without CAP_SYS_RESOURCE may not raise them, and podman tries to.
LIMITS = ["--ulimit=nofile=1024:1024", "--ulimit=nproc=1000:1000"]
CLOSED = ["--network=none", "--read-only", "--read-only-tmpfs=false", "--cap-drop=all", "--security-opt=no-new-privileges", *LIMITS]


class Doorway(threading.Thread):
    """Ports of this machine that lead to ports in the network of a process, where otherwise nobody comes in."""

    def __init__(self, process, ports):
        super().__init__(daemon=True)
        self.process = process
        self.listeners = {port: socket.create_server(("127.0.0.1", 0)) for port in ports}
        self.ports = {port: listener.getsockname()[1] for port, listener in self.listeners.items()}
        self.opened = threading.Event()
        self.start()
        assert self.opened.wait(PATIENCE)

    def run(self):
        with open(f"/proc/{self.process}/ns/net") as network:  # of this thread alone
            if ctypes.CDLL(None, use_errno=True).setns(network.fileno(), ENTER_NETWORK) != 0:
                raise OSError(ctypes.get_errno(), "setns")
        asyncio.run(self.serve())

    async def serve(self):
        self.loop, self.closed = asyncio.get_running_loop(), asyncio.Event()
        for port, listener in self.listeners.items():
            await asyncio.start_server(functools.partial(self.lead, port), sock=listener)
        self.opened.set()
        await self.closed.wait()

    async def lead(self, port, reader, writer):
        try:
            inside = await asyncio.open_connection("127.0.0.1", port)
        except OSError:
            writer.transport.abort()
            return
        await asyncio.gather(self.copy(reader, inside[1]), self.copy(inside[0], writer))

    async def copy(self, reader, writer):
        with contextlib.suppress(OSError):
            while data := await reader.read(65536):
                writer.write(data)
                await writer.drain()
        with contextlib.suppress(OSError):
            writer.close()

    def close(self):
        self.loop.call_soon_threadsafe(self.closed.set)
        self.join()


class Container(Server):
    """A server in a container. `ports`: of HTTP, gRPC and metrics, inside."""

    def __init__(self, podman, name, ports=(8000, 8001, 8002), others=()):
        super().__init__(None, None)
        self.podman, self.name = podman, name
        self.pid = int(podman("inspect", name, "--format={{.State.Pid}}"))
        assert self.pid, self.log
        self.doorway = Doorway(self.pid, [*ports, *others])
        self.http_port, self.grpc_door, self.metrics_port = (self.doorway.ports[port] for port in ports)

    grpc_port = property(lambda self: self.grpc_door)

    @property
    def log(self):
        done = subprocess.run([*self.podman.command, "logs", self.name], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        return done.stdout

    def answers(self):
        try:
            return self.ask("/v2/health/ready").status == 200
        except OSError:
            return False

    def await_ready(self):
        wait_for("readiness", lambda: self.answers() or proc.is_gone(self.pid))
        assert self.answers(), self.log

    def stop(self, number=None):
        """As `docker stop` does: the image's signal. Gives the exit status."""
        self.podman("stop", f"--time={PATIENCE}", self.name)
        return int(self.podman("inspect", self.name, "--format={{.State.ExitCode}}"))


class Podman:
    """With storage of its own in `directory`, whose name podman wants to be shorter than 40 characters."""

    def __init__(self, directory):
        self.command = ["podman", f"--root={directory}/root", f"--runroot={directory}/run", "--storage-driver=vfs", "--runtime=runc",
                        "--cgroup-manager=cgroupfs"]
        self.names = []

    def __call__(self, *words):
        done = subprocess.run([*self.command, *map(str, words)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=PATIENCE)
        assert done.returncode == 0, f"podman {words[0]} ended with {done.returncode}:\n{done.stdout}{done.stderr}"
        return done.stdout.strip()

    def run(self, image, *command, mounts, options=("--tmpfs=/tmp",), **more):
        """`mounts`: a directory of this machine for each place in the container."""
        name = f"nereid-{len(self.names)}"
        volumes = [f"--volume={source}:{target}:ro" for target, source in mounts.items()]
        self.names.append(name)
        self("run", "--detach", f"--name={name}", *CLOSED, *options, *volumes, image, *command)
        container = Container(self, name, **more)
        container.await_ready()
        return container

    def remove_all(self):
        for name in self.names:
            subprocess.run([*self.command, "rm", "--force", "--time=0", name], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=PATIENCE)
