# SPDX-License-Identifier: Apache-2.0
"""`runtime: "model.py"` of the pytorch backend: what its script does with a model's files, parameters and tensors. PyTorch is a fake on NumPy
(tests/fakes/torch_python), which shows what it was told; test_pytorch.py has a test with the real one, which is gigabytes."""
import json
import threading

import numpy as np
import pytest
import tritonclient.http as triton
from conftest import ROOT, TOGETHER
from torch_cases import config, parameter
from tritonclient.utils import InferenceServerException

HEAD = "import json\nimport numpy\nimport torch\nfrom torch.nn import Linear\n\n\n"
# [difference of the inputs, times the weights' factor], [rows of the batch for each row], [what PyTorch was told]
MINE = HEAD + """class Mine(torch.nn.Module):
    factor = 1

    def forward(self, x, y):
        told = json.dumps(torch.told | {"training": self.training, "where": self.where}, sort_keys=True).encode()
        return (x - y) * self.factor, numpy.full((len(x), 1), len(x), numpy.int64).view(torch.Tensor), numpy.frombuffer(told.ljust(400), numpy.uint8)[None].repeat(len(x), 0).view(torch.Tensor)
"""
X, Y = ("x", "FP32", [2]), ("y", "FP32", [2])
OUTPUTS = [("difference", "FP32", [2]), ("rows", "INT64", [1]), ("told", "UINT8", [400])]
RUNTIME = 'runtime: "model.py"\n'
OPTIONS = "".join(parameter(*row) for row in (("NUM_THREADS", "3"), ("NUM_INTEROP_THREADS", "2")))


def add(repository, name, text, files):
    version = repository / name / "1"
    version.mkdir(parents=True)
    (repository / name / "config.pbtxt").write_text(text)
    for file, content in files.items():
        (version / file).write_text(content)


@pytest.fixture
def start(start_server, repository):
    def start():
        return start_server(repository, flags=["--model-control-mode=explicit"], variables={"PYTHONPATH": ROOT / "tests/fakes/torch_python"})
    return start


def ask(server, model, **inputs):
    with triton.InferenceServerClient(server.url) as client:
        return client.infer(model, [triton.InferInput(name, data.shape, "FP32").set_data_from_numpy(data) for name, data in inputs.items()])


def load(server, model):
    with triton.InferenceServerClient(server.url) as client:
        client.load_model(model)


def told(answer):
    return json.loads(answer.as_numpy("told")[0].tobytes())


ONES = np.ones((1, 2), np.float32)


@pytest.mark.parametrize("more, files, factor, threads, options", [
    ("", {}, 1, (1, 1), {}),
    ("", {"model.pt": '{"factor": 5}'}, 5, (1, 1), {}),
    ('default_model_filename: "own.py"\n', {"own.pt": '{"factor": 7}', "model.pt": '{"factor": 5}'}, 7, (1, 1), {}),
    (OPTIONS + parameter("TORCH_COMPILE_OPTIONAL_PARAMETERS", r'{\"disable\": true, \"mode\": \"max-autotune\"}'), {}, 1, (3, 2), {"disable": True, "mode": "max-autotune"}),
], ids=["alone", "with weights", "under another name", "with parameters"])
def test_a_module_is_made_compiled_and_run(start, repository, more, files, factor, threads, options):
    script = "own.py" if "own.py" in more else "model.py"
    add(repository, "mine", config([X, Y], OUTPUTS, "", 8, RUNTIME + more), {script: MINE, **files})
    server = start()
    load(server, "mine")
    answer = ask(server, "mine", y=ONES, x=4 * ONES)  # the configuration's order counts, not the request's
    assert answer.as_numpy("difference").tolist() == [[3 * factor] * 2]
    assert told(answer) == {"threads": threads[0], "interop": threads[1], "compile": options, "inference": True, "training": False, "where": "cpu"}


def test_requests_of_a_batch_are_one_call(start, repository):
    add(repository, "mine", config([X, Y], OUTPUTS, "", 3, RUNTIME + TOGETHER % 3), {"model.py": MINE})
    server = start()
    load(server, "mine")
    found = {}

    def send(rows):
        found[rows] = ask(server, "mine", x=rows * np.ones((rows, 2), np.float32), y=np.zeros((rows, 2), np.float32))
    threads = [threading.Thread(target=send, args=(rows,)) for rows in (1, 2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found[1].as_numpy("difference").tolist() == [[1, 1]] and found[2].as_numpy("difference").tolist() == [[2, 2]] * 2
    assert found[1].as_numpy("rows").tolist() == [[3]] and found[2].as_numpy("rows").tolist() == [[3], [3]]


def test_a_file_of_torchscript_needs_no_module(start, repository):
    add(repository, "script", config([X], [("y", "FP32", [2])], "", 0, RUNTIME), {"model.pt": '{"factor": 6}'})
    server = start()
    load(server, "script")
    assert ask(server, "script", x=ONES[0]).as_numpy("y").tolist() == [6, 6]


@pytest.mark.parametrize("more, files, said", [
    ("", {}, "No model found in "),
    ("", {"model.py": "import torch\n"}, "Cannot find a subclass of torch.nn.Module"),
    ("", {"model.py": HEAD + "class Mine(torch.nn.Module):\n    def __init__(self):\n        raise RuntimeError('no such layer')\n"}, "no such layer"),
    (parameter("TORCH_COMPILE_OPTIONAL_PARAMETERS", r'{\"model\": 1}'), {"model.py": MINE}, "'model' is not an optional parameter for 'torch.compile'"),
    (parameter("NUM_THREADS", "many"), {"model.py": MINE}, "'many'"),
    ("instance_group { kind: KIND_MODEL }", {"model.py": MINE}, "Cannot determine model device"),
], ids=["no file", "no module", "a module that fails", "a parameter of nereid's", "a number that is none", "a device that nothing tells"])
def test_what_does_not_load_says_why(start, repository, more, files, said):
    add(repository, "bad", config([X, Y], OUTPUTS, "", 8, RUNTIME + more), files)
    with pytest.raises(InferenceServerException, match=said):
        load(start(), "bad")
