# SPDX-License-Identifier: Apache-2.0
"""Older kernels, older seccomp profiles, gVisor and emulators lack system calls that the server asks for: it does without them."""
import base64
import json
import os
import re
import signal

import pytest
from conftest import ROOT, copy_model, make_identity, wait_for
from proc import has_ended
from python_models import PID, ask, await_gone, children, make_python, worker_of
from system_calls import NEWER, without

OLD = {
    "an old kernel": without(*NEWER, "clone3"),
    "an old seccomp profile": without(*NEWER, reason="EPERM"),
    "only openat2 is missing": without("openat2"),
}
EXPLICIT = ["--model-control-mode=explicit"]


@pytest.fixture(params=OLD)
def server(request, start_server, repository):
    make_identity(repository, "m")
    copy_model(repository, "digits")
    make_python(repository, "worker", PID)
    return start_server(repository, wrapper=OLD[request.param], flags=[*EXPLICIT, "--load-model=*"])


def test_models_load_and_answer_and_the_log_says_who_walks_paths(server):
    lines = re.findall(r"the system call openat2 cannot be used here \((.+)\): the server walks paths by itself, under the same rules", server.log)
    assert len(lines) == 1 and lines[0] in (os.strerror(1), os.strerror(38))
    assert worker_of(server, "worker") in children(server.process.pid)
    digits = {"inputs": [{"name": "image", "shape": [1, 64], "datatype": "FP32", "data": [0.0] * 64}]}
    assert server.ask("/v2/models/digits/infer", json.dumps(digits).encode()).status == 200
    assert server.ask("/v2/models/m/ready").status == 200
    server.stop()


def test_a_worker_that_is_killed_is_told_and_another_one_comes(server):
    worker = worker_of(server, "worker")
    os.kill(worker, signal.SIGKILL)
    await_gone(worker)
    wait_for("another worker", lambda: ask(server, "worker")[0] == 200)
    assert worker_of(server, "worker") != worker
    assert "it was ended by signal SIGKILL" in server.log
    workers = children(server.process.pid)
    server.stop()
    assert workers and all(has_ended(process) for process in workers)


def test_files_that_come_with_a_request_are_put_below_their_directory(server):
    model = (ROOT / "model_repository/digits/1/model.onnx").read_bytes()
    body = {"parameters": {"config": json.dumps({"backend": "onnxruntime"}), "file:1/model.onnx": base64.b64encode(model).decode()}}
    assert server.ask("/v2/repository/models/brought/load", json.dumps(body).encode()).status == 200
    assert server.ask("/v2/models/brought/ready").status == 200
    body["parameters"]["file:../x/model.onnx"] = body["parameters"]["file:1/model.onnx"]
    assert server.ask("/v2/repository/models/other/load", json.dumps(body).encode()).status == 400


def test_under_secure_no_link_leads_out_whoever_walks_paths(start_server, repository, tmp_path):
    make_identity(tmp_path / "outside", "linked")
    make_identity(repository, "m")
    (repository / "linked").symlink_to(tmp_path / "outside/linked")
    (repository / "near").symlink_to("m")
    key = {"the-key": "value"}
    answers = set()
    for wrapper in ((), OLD["an old kernel"]):
        server = start_server(
            repository, wrapper=wrapper, flags=[*EXPLICIT, "--secure", "--allow-root", "--restricted-api=model-repository:the-key=value"]
        )
        refused = server.ask("/v2/repository/models/linked/load", b"{}", headers=key)
        answers.add((refused.status, refused.text))
        assert server.ask("/v2/repository/models/near/load", b"{}", headers=key).status == 200
    assert len(answers) == 1 and "leads out of its directory" in answers.pop()[1]
