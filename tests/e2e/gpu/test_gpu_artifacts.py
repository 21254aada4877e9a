# SPDX-License-Identifier: Apache-2.0
"""cc_model_filenames: each instance's session is made of the file for its device's compute capability."""
import tritonclient.http as triton
from test_gpu_onnxruntime import Played, doubled, rows, save

GRAPH = "input X FP32 -1 4\noutput Y FP32 -1 4\n"
FILES = 'cc_model_filenames [ { key: "9.0" value: "nine.onnx" }, { key: "7.5" value: "seven.onnx" } ]\n'


def test_each_device_has_the_file_of_its_capability(start_server, repository, tmp_path):
    played = Played(tmp_path, devices=[{"capability": "7.5"}, {"capability": "9.0"}, {"capability": "8.0"}])
    save(repository, "m", "instance_group [{ kind: KIND_GPU }]\n" + FILES, GRAPH)
    for name in ("seven", "nine"):
        (repository / f"m/1/{name}.onnx").write_text(GRAPH)
    (repository / "m/1/broken.onnx").write_text("no model")
    save(repository, "broken", "instance_group [{ kind: KIND_GPU gpus: [ 1 ] }]\n" + FILES.replace("nine", "broken"), GRAPH)
    (repository / "broken/1/broken.onnx").write_text("no model")
    save(repository, "cpu", "instance_group [{ kind: KIND_CPU }]\n" + FILES.replace("nine", "broken"), GRAPH)
    flags = [*played.flags, "--log-verbose=1", "--strict-readiness=false", "--exit-on-error=false"]
    server = start_server(repository, flags=flags, variables=played.variables)
    with triton.InferenceServerClient(server.url) as client:
        doubled(client, "m", rows(3))
        doubled(client, "cpu", rows(3))
        assert client.is_model_ready("m") and not client.is_model_ready("broken")
    for line in ("Creating instance m_0_0 on GPU 0 (7.5) using artifact 'seven.onnx'", "Creating instance m_0_0 on GPU 1 (9.0) using artifact 'nine.onnx'",
                 "Creating instance m_0_0 on GPU 2 (8.0) using artifact 'model.onnx'", "Creating instance cpu_0_0 on CPU using artifact 'model.onnx'"):
        assert server.log.count(line) == 1, line
