# SPDX-License-Identifier: Apache-2.0
"""The OpenTelemetry collector (tests/collector), in front of the receiver that decodes: what it took and handed on is what tests see."""
import json
import signal
import subprocess

import pytest
from conftest import DEADLINE, ROOT, wait_for
from ports import free_port
from tracing import Collector

PROGRAM = ROOT / ".deps/collector/collector"
needs_collector = pytest.mark.skipif(not PROGRAM.exists(), reason="scripts/setup --all builds an OpenTelemetry collector where there is Go")


class RealCollector(Collector):
    """Takes OTLP over HTTP. It answers when what it took was handed on: it neither waits nor tries again."""

    def __init__(self, directory, tls=None):
        super().__init__()
        self.port, self.tls, self.process = free_port(), tls, None
        self.log_path = directory / "collector.log"

    @property
    def url(self):
        return f"http{'s' if self.tls else ''}://127.0.0.1:{self.port}/v1/traces"

    @property
    def config(self):
        exporter = {"traces_endpoint": super().url, "compression": "none", "sending_queue": {"enabled": False},
                    "retry_on_failure": {"enabled": False}}
        listener = {"endpoint": f"127.0.0.1:{self.port}"} | ({"tls": self.tls} if self.tls else {})
        return {
            "receivers": {"otlp": {"protocols": {"http": listener}}},
            "exporters": {"otlphttp": exporter},
            "service": {"telemetry": {"metrics": {"level": "none"}}, "pipelines": {"traces": {"receivers": ["otlp"], "exporters": ["otlphttp"]}}},
        }

    def start(self):
        with self.log_path.open("w") as log:
            self.process = subprocess.Popen([PROGRAM, f"--config=yaml:{json.dumps(self.config)}"], stdout=log, stderr=log)

        def ready():
            text = self.log_path.read_text()
            assert self.process.poll() is None, text
            return "Everything is ready" in text

        wait_for("a collector", ready)

    def stop(self, number=signal.SIGTERM):
        self.process.send_signal(number)
        return self.process.wait(DEADLINE)

    def __enter__(self):
        super().__enter__()
        self.start()
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        super().__exit__()
