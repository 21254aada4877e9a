# SPDX-License-Identifier: Apache-2.0
"""What the safety tests share: a client that keeps its connection, a server whose opened files are recorded, workers."""
import http.client
import json
import re
import subprocess
import threading
import urllib.parse

import proc
from conftest import DEADLINE, PATIENCE, Answer, Server, environment, wait_for
from oracle import SERVER_THREADS


class Client:
    """One connection that is kept; bytes and paths go out as they are given."""

    def __init__(self, server, headers=()):
        self.port, self.headers = server.http_port, dict(headers)
        self.connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=DEADLINE)

    def ask(self, path, body=None, method=None):
        method = method or ("GET" if body is None else "POST")
        try:
            self.connection.request(method, path, body=body, headers=self.headers)
            reply = self.connection.getresponse()
        except (http.client.RemoteDisconnected, BrokenPipeError):  # the server may close a connection that was idle
            self.connection.close()
            self.connection.request(method, path, body=body, headers=self.headers)
            reply = self.connection.getresponse()
        return Answer(reply.status, reply.headers, reply.read())

    def load(self, name, config=None, **parameters):
        if config is not None:
            parameters["config"] = config if isinstance(config, str) else json.dumps(config)
        body = json.dumps({"parameters": parameters}).encode() if parameters else b""
        return self.ask(f"/v2/repository/models/{quote(name)}/load", body)

    def unload(self, name):
        return self.ask(f"/v2/repository/models/{quote(name)}/unload", b"")

    def index(self):
        """State by (name, version)."""
        answer = self.ask("/v2/repository/index", b"")
        assert answer.status == 200, answer.text
        return {(row["name"], row.get("version")): row.get("state") for row in json.loads(answer.body)}

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.connection.close()


def quote(name):
    return urllib.parse.quote(name if isinstance(name, bytes) else name.encode(), safe="")


def tensor(name="INPUT0", datatype="FP32", shape=(1, 1), data=(7,), **more):
    return json.dumps(
        {"inputs": [{"name": name, "shape": list(shape), "datatype": datatype, "data": list(data)}], **more}
    ).encode()


def instances(server):
    """Names of the threads that run models."""
    return sorted(set(proc.threads(server.process.pid).values()) - SERVER_THREADS)


def on_threads(count, work, deadline=PATIENCE):
    """Runs work(0) … work(count - 1) at once; what one raises is raised here, and so is a thread that hangs."""
    failures = []

    def run(i):
        try:
            work(i)
        except BaseException as failure:  # noqa: B902 - it is raised again below
            failures.append(failure)

    threads = [threading.Thread(target=run, args=(i,), daemon=True) for i in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(deadline)
    hanging = sum(thread.is_alive() for thread in threads)
    if failures:
        raise failures[0]
    assert hanging == 0, f"{hanging} of {count} threads hang"


# --- a server whose opened files are recorded

CALL = re.compile(r'^\d+ +(?P<name>\w+)\((?P<arguments>.*)\) += (?P<result>-?\d+|\?)(?P<rest>.*)$')
RESUMED = re.compile(r"^(\d+) +<\.\.\. (\w+) resumed>(.*)$")
UNFINISHED = re.compile(r"^(\d+) +(.*) <unfinished \.\.\.>$")


def octal(text):
    """What strace printed, as text."""
    return text.encode("latin-1").decode("unicode_escape").encode("latin-1").decode(errors="replace")


class Audit:
    """What a server under strace does with files."""

    def __init__(self, path):
        self.path = path

    def calls(self):
        """(call, whether the kernel keeps it below a directory, the path it names, the path it opened or None)"""
        pending = {}
        for line in self.path.read_text(errors="replace").splitlines():
            cut = UNFINISHED.match(line)
            if cut:
                pending[cut[1]] = cut[2]
                continue
            rest = RESUMED.match(line)
            if rest:
                line = f"{rest[1]} {pending.pop(rest[1], '')}{rest[3]}"
            call = CALL.match(line)
            if not call:
                continue
            named = re.search(r'"((?:[^"\\]|\\.)*)"', call["arguments"])
            opened = re.match(r"<(.*)>", call["rest"])
            if "O_PATH" in call["arguments"]:
                continue  # names a file and reads nothing; what is opened from there is another call
            beneath = call["name"] == "openat2" and "RESOLVE_BENEATH" in call["arguments"]
            yield call["name"], beneath, octal(named[1]) if named else "", octal(opened[1]) if opened else None

    def opened(self):
        return [path for _, _, _, path in self.calls() if path is not None]

    def touched(self):
        """Every path that was opened, or named to the kernel other than below a directory."""
        for name, beneath, named, path in self.calls():
            if path is not None:
                yield path
            if not beneath and name not in ("readlink", "readlinkat") and named.startswith("/"):
                yield named


def start_audited(starter, *repositories, flags=(), wrapper=()):
    """A server under strace, and what it does with files. `wrapper` as where a server is started."""
    record = starter.directory / f"files{len(starter.servers)}.strace"
    log = starter.directory / f"server{len(starter.servers)}.log"
    command = [
        "strace", "-D", "-f", "--seccomp-bpf", "-qq", "-y", "-s", "8192", "-e", "trace=%file", "-e", "signal=none",
        "-o", str(record), *wrapper, *starter.command(*repositories, flags=flags),
    ]
    sanitized = environment()
    sanitized["ASAN_OPTIONS"] += ":detect_leaks=0"  # needs ptrace for itself
    with log.open("w") as out:
        process = subprocess.Popen(command, stdout=out, stderr=subprocess.STDOUT, env=sanitized)
    server = Server(process, log)
    starter.servers.append(server)
    server.await_ports()
    server.await_ready()
    return server, Audit(record)


__all__ = ["Audit", "Client", "instances", "on_threads", "quote", "start_audited", "tensor", "wait_for"]
