# SPDX-License-Identifier: Apache-2.0
"""Tests of the Python backend's worker by itself, against tests/python/host.py."""

import textwrap

import pytest

from host import Host


@pytest.fixture
def write_model(tmp_path):
    """Writes a model.py and gives the model's directory."""

    def write(code, name="m"):
        directory = tmp_path / name
        (directory / "1").mkdir(parents=True, exist_ok=True)
        source = "import numpy as np\nimport triton_python_backend_utils as pb_utils\n" + textwrap.dedent(code)
        (directory / "1" / "model.py").write_text(source)
        return directory

    return write


@pytest.fixture
def started(write_model):
    """Starts a worker with a model of that code; it is ended with the test."""
    hosts = []

    def start(code, on_call=None, **arguments):
        host = Host(on_call=on_call)
        hosts.append(host)
        host.start(write_model(code, f"m{len(hosts)}"), **arguments)
        return host

    yield start
    for host in hosts:
        host.close()
