# SPDX-License-Identifier: Apache-2.0
"""What the tests of the response cache share: models that use it, what a server counts, and a Redis with a client."""
import contextlib
import json
import re
import shutil
import socket
import subprocess

import proc
from conftest import DEADLINE, PATIENCE, make_identity, wait_for
from ports import free_port

CACHED = "response_cache { enable: true }"
SLOT = '{"inputs": [{"name": "INPUT0", "datatype": "INT32", "shape": [1, %d], "data": %s}]%s}'


def make_cached(repository, name="m", type="TYPE_INT32", more="", **options):
    return make_identity(repository, name, type, more=CACHED + more, **options)


def body(values, more=""):
    return (SLOT % (len(values), json.dumps(list(values)), more)).encode()


def infer(server, values=(1, 2), model="m", more=""):
    """The output's values."""
    answer = server.ask(f"/v2/models/{model}/infer", body(values, more))
    assert answer.status == 200, answer.text
    return json.loads(answer.body)["outputs"][0]["data"]


def statistics(server, model="m"):
    return json.loads(server.ask(f"/v2/models/{model}/stats").text)["model_stats"][0]


def counts(server, model="m"):
    """Hits and misses; a miss is counted when its answer is on its way."""
    stats = statistics(server, model)["inference_stats"]
    return stats["cache_hit"]["count"], stats["cache_miss"]["count"]


def metric(server, name):
    """The sum over its labels; None when it is not shown."""
    text = server.ask("/metrics", port=server.metrics_port).text
    values = re.findall(rf"^{name}(?:{{[^}}]*}})? (\S+)$", text, re.M)
    return sum(map(float, values)) if values else None


def local(size=1 << 20):
    return [f"--cache-config=local,size={size}"]


class Redis:
    """A real one, on a port of its own."""

    def __init__(self, directory, *options, tls=None):
        self.directory, self.options, self.tls = directory, options, tls
        self.port, self.process = None, None

    def start(self):
        """On the same port as before; on another one if somebody took it."""
        program = shutil.which("redis-server")
        assert program, "redis-server is missing: run scripts/setup --test"
        for _ in range(20):
            port = self.port or free_port()
            ports = ["--port", "0", "--tls-port", str(port), *self.tls] if self.tls else ["--port", str(port)]
            self.process = subprocess.Popen(
                [program, *ports, "--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--dir", str(self.directory), *self.options],
                stdout=subprocess.DEVNULL)
            wait_for("Redis", lambda: self.process.poll() is not None or self._listens(port))
            if self.process.poll() is None:
                self.port = port
                return self
        raise AssertionError("redis-server does not start")

    def _listens(self, port):
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), DEADLINE):
            return True

    def ask(self, *words):
        """One command; the reply as it comes, without its end."""
        words = [word if isinstance(word, bytes) else str(word).encode() for word in words]
        command = b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%s\r\n" % (len(word), word) for word in words)
        with socket.create_connection(("127.0.0.1", self.port), DEADLINE) as connection:
            connection.sendall(command)
            connection.shutdown(socket.SHUT_WR)
            connection.settimeout(PATIENCE)
            return b"".join(iter(lambda: connection.recv(1 << 16), b"")).removesuffix(b"\r\n")

    def keys(self):
        return re.findall(rb"\r\n([0-9a-f]{64})(?:\r|$)", b"\r\n" + self.ask("KEYS", "*"))

    def unread_bytes(self):
        """What others have sent and it has not read."""
        return sum(socket.unread for socket in proc.sockets() if socket.port == self.port and socket.state == proc.ESTABLISHED)

    def stop(self):
        if self.process is not None and self.process.poll() is None:
            self.process.kill()
        if self.process is not None:
            self.process.wait()

    def flags(self, *more):
        settings = ["host=127.0.0.1", f"port={self.port}", "connect_timeout=60000", *more]  # however loaded the machine is
        return [f"--cache-config=redis,{setting}" for setting in settings]


@contextlib.contextmanager
def redis(directory, *options, **more):
    server = Redis(directory, *options, **more)
    try:
        yield server.start()
    finally:
        server.stop()
