# SPDX-License-Identifier: Apache-2.0
"""A machine where a GPU's driver appears: what ran on the CPU still does, in every framework, and nothing of theirs is on the device."""
import json

import frameworks
import pytest
import small_models as small
from gpus import fake_gpus

FRAMEWORKS = ["openvino", "tensorflow", "pytorch", "fil"]  # onnxruntime: test_gpu_onnxruntime.py
REFUSED = {
    "openvino": "unable to load model '{model}', Triton OpenVINO backend supports only Kind CPU and AUTO",  # Triton's words
    "tensorflow": "unable to load model '{model}': the 'tensorflow' backend has no instances of KIND_GPU; KIND_MODEL leaves devices to the graph",
    "pytorch": "unable to load model '{model}': the 'pytorch' backend has no instances of KIND_GPU; KIND_CPU and KIND_MODEL are the CPU",
    "fil": "KIND_GPU cannot be used in CPU-only build",  # Triton's
}


@pytest.mark.parametrize("backend", [pytest.param(backend, marks=frameworks.needs(backend)) for backend in FRAMEWORKS])
def test_a_gpu_changes_nothing_for_what_runs_on_the_cpu(start_server, repository, tmp_path, backend):
    gpus = fake_gpus(tmp_path, 2)
    small.add(repository, backend)
    for name, group in (("counted", "count: 2"), ("wants", "kind: KIND_GPU")):
        small.add(repository, backend, name, config=small.config_of(backend, more="instance_group [{ %s }]" % group))
    server = start_server(repository, flags=["--model-control-mode=explicit", f"--load-model=small_{backend}", "--load-model=counted", *frameworks.settings(backend)],
                          variables=gpus.variables | frameworks.variables())
    for name in (f"small_{backend}", "counted"):
        small.ask(server, backend, name)
        config = json.loads(server.ask(f"/v2/models/{name}/config").body)
        assert [group["kind"] for group in config["instance_group"]] == ["KIND_CPU"]
    answer = server.ask("/v2/repository/models/wants/load", b"{}")
    assert answer.status == 400 and REFUSED[backend].format(model="wants") in json.loads(answer.body)["error"]
    small.ask(server, backend, "counted")
    counters = gpus.counters(server.process.pid)
    assert counters["contexts.0"] == counters["contexts.1"] == counters["used.0"] == counters["used.1"] == 0
