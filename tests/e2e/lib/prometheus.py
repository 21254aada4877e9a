# SPDX-License-Identifier: Apache-2.0
"""A real Prometheus that scrapes servers, and what it answers. As long as its block."""
import contextlib
import json
import math
import subprocess
import urllib.parse
import urllib.request

import yaml
from conftest import PATIENCE, wait_for
from ports import free_port


class Prometheus:
    def __init__(self, port):
        self.port = port

    def ask(self, path, **parameters):
        """What the API answers; None while nobody listens."""
        url = f"http://127.0.0.1:{self.port}/api/v1/{path}?{urllib.parse.urlencode(parameters)}"
        with contextlib.suppress(ConnectionError, urllib.error.URLError), urllib.request.urlopen(url, timeout=PATIENCE) as reply:
            return json.load(reply)["data"]

    def values(self, expression):
        """Of each sample that is a number now."""
        found = [float(sample["value"][1]) for sample in (self.ask("query", query=expression) or {"result": []})["result"]]
        return [value for value in found if math.isfinite(value)]


@contextlib.contextmanager
def scraping(directory, ports, rules=()):
    """`ports`: of the servers' metrics; they are the job `nereid`. `rules`: files."""
    config, port = directory / "prometheus.yml", free_port()
    config.write_text(yaml.safe_dump({
        "global": {"scrape_interval": "500ms", "scrape_timeout": "500ms", "evaluation_interval": "1s"},
        "rule_files": [str(path) for path in rules],
        "scrape_configs": [{"job_name": "nereid", "static_configs": [{"targets": [f"localhost:{each}" for each in ports]}]}],
    }))
    with open(directory / "prometheus.log", "w") as log:
        process = subprocess.Popen(
            ["prometheus", f"--config.file={config}", f"--storage.tsdb.path={directory}/data", f"--web.listen-address=127.0.0.1:{port}"],
            stdout=log, stderr=subprocess.STDOUT)
    try:
        made = Prometheus(port)
        wait_for("Prometheus", lambda: process.poll() is not None or made.ask("status/buildinfo"))
        assert process.poll() is None, (directory / "prometheus.log").read_text()
        yield made
    finally:
        process.terminate()
        process.wait()
