# SPDX-License-Identifier: Apache-2.0
"""The vectors of test_safety_smuggling.py sent to nereid, and to nginx and h2o as proxies before it: scripts/smuggling.

Those that are not installed are left out. Prints, kind by kind, how many vectors each refuses, and each vector where they and
we differ: the statuses of the replies. Ends with 1 when a vector of those that we must refuse got anything but a refusal from us.
"""
import collections
import pathlib
import re
import shutil
import socket
import subprocess
import sys
import tempfile

from conftest import EVERYTHING, ROOT, Starter, link_backends, make_identity, wait_for
from ports import free_port
from safety import on_threads
from test_safety_smuggling import LENIENT, REFUSED, ask

STATUS = re.compile(rb"HTTP/1\.[01] (\d{3}) ")
SHOWN_BYTES = 110
WORKERS = 16

NGINX = """
daemon off; pid {directory}/nginx.pid; error_log {directory}/nginx.log; worker_processes 1; user {user};
events {{ worker_connections 256; }}
http {{
  access_log off; client_body_timeout 2s; client_header_timeout 2s; client_body_temp_path {directory}/body; proxy_temp_path {directory}/proxy;
  fastcgi_temp_path {directory}/a; uwsgi_temp_path {directory}/b; scgi_temp_path {directory}/c;
  server {{ listen 127.0.0.1:{port}; location / {{ proxy_pass http://127.0.0.1:{behind}; proxy_http_version 1.1; }} }}
}}
"""
H2O = """
num-threads: 1
http1-request-timeout: 2
user: root
listen:
  host: 127.0.0.1
  port: {port}
hosts:
  default:
    paths:
      /:
        proxy.reverse.url: "http://127.0.0.1:{behind}/"
"""


def answers(port):
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


class Proxy:
    def __init__(self, name, settings, command, behind, directory):
        self.http_port, self.name = free_port(), name
        path = directory / f"{name}.conf"
        path.write_text(settings.format(port=self.http_port, behind=behind, directory=directory, user="root"))
        self.process = subprocess.Popen([*command, str(path)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        wait_for(name, lambda: answers(self.http_port))

    def stop(self):
        self.process.terminate()
        self.process.wait()


def outcome(server, vector):
    data = ask(server, vector)
    statuses = tuple(int(status) for status in STATUS.findall(data))
    return ("smuggled",) if b"smuggled" in data else statuses if statuses or not data else ("bytes without a head",)


def is_refused(found):
    """No reply, or one that is an error, and then the end."""
    return len(found) <= 1 and all(status != "smuggled" and isinstance(status, int) and status >= 400 for status in found)


def run_all(server, vectors):
    found = [None] * len(vectors)

    def work(worker):
        for i in range(worker, len(vectors), WORKERS):
            found[i] = outcome(server, vectors[i])

    on_threads(WORKERS, work, deadline=600)
    return found


def report(servers, name, vectors, must_refuse):
    found = {server.name: run_all(server, vectors) for server in servers}
    counts = {server: sum(map(is_refused, outcomes)) for server, outcomes in found.items()}
    print(f"\n## {name}: {len(vectors)} vectors, refused by " + ", ".join(f"{s} {n}" for s, n in counts.items()))
    differences = collections.Counter()
    for i, vector in enumerate(vectors):
        if len({is_refused(outcomes[i]) for outcomes in found.values()}) > 1:
            kinds = tuple(f"{s} {' '.join(map(str, outcomes[i])) or 'closes'}" for s, outcomes in found.items())
            differences[kinds] += 1
            print(f"{'; '.join(kinds)}: {vector.partition(b'HTTP/1.1')[2][:SHOWN_BYTES]!r}")
    return must_refuse and counts["nereid"] < len(vectors)


def main():
    failed = False
    with tempfile.TemporaryDirectory(prefix="nereid-smuggling-") as path:
        directory = pathlib.Path(path)
        repository = directory / "models"
        repository.mkdir()
        for name in ("canary", "t_fp32"):
            make_identity(repository, name)
        (directory / "backends").mkdir()
        build = ROOT / "build/release"
        starter = Starter(build / "bin/nereid", link_backends(directory / "backends", build), directory)
        ours = starter(repository, flags=[*EVERYTHING, "--http-body-timeout-ms=2000", "--http-header-timeout-ms=2000"])
        ours.name = "nereid"
        known = {"nginx": (NGINX, ["nginx", "-p", path, "-c"]), "h2o": (H2O, ["h2o", "-c"])}
        proxies = []
        try:
            for name, (settings, command) in known.items():
                if shutil.which(name):
                    proxies.append(Proxy(name, settings, command, ours.http_port, directory))
                else:
                    print(f"{name} is not installed: left out")
            for kind, vectors in REFUSED.items():
                failed |= report([ours, *proxies], kind, list(vectors()), must_refuse=True)
            failed |= report([ours, *proxies], "taken", list(LENIENT.values()), must_refuse=False)
        finally:
            for proxy in proxies:
                proxy.stop()
            starter.stop_all()
    sys.exit(failed)


if __name__ == "__main__":
    main()
