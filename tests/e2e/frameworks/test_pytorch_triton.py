# SPDX-License-Identifier: Apache-2.0
"""The pytorch backend in NVIDIA's server (2.51): the same answers and refusals as in nereid."""
import re

import frameworks
import numpy as np
import pytest
import tritonclient.http as triton
from python_sides import SIDES, SideStarter
from test_pytorch import LINEAR, ROWS, ask, bad, good
from tritonclient.utils import InferenceServerException

SIDE = SIDES["nereid-in-triton"]
pytestmark = frameworks.needs("pytorch")


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    repository = tmp_path_factory.mktemp("repository")
    good(repository)
    bad(repository)
    for config in repository.glob("*/config.pbtxt"):  # it does not know this platform
        config.write_text(config.read_text().replace('platform: "torch_aoti"', 'default_model_filename: "model.pt2"'))
    starter = SideStarter(SIDE, SIDE.backends(tmp_path_factory.mktemp("backends")), tmp_path_factory.mktemp("triton"))
    yield starter(repository, flags=[*frameworks.settings("pytorch"), "--model-control-mode=explicit"])
    starter.stop_all()


@pytest.fixture
def client(server):
    with triton.InferenceServerClient(server.url) as client:
        yield client


@pytest.mark.parametrize("model, name, output", [("script", "x", "y"), ("options", "x", "y"), ("compiled", "INPUT__0", "OUTPUT__0"), ("compiled_deflated", "ARGS[0]", "RESULT")])
def test_models_answer(client, model, name, output):
    client.load_model(model)
    assert ask(client, model, **{name: ROWS})[output].tolist() == LINEAR
    assert ask(client, model, **{name: ROWS[1:]})[output].tolist() == LINEAR[1:]


def test_strings_and_dictionaries(client):
    client.load_model("strings")
    client.load_model("dictionary")
    answer = ask(client, "strings", words=np.array([b"one", b"two"], object))
    assert answer["louder"].tolist() == [b"ONE", b"TWO"] and answer["lengths"].tolist() == [3, 3]
    answer = ask(client, "dictionary", a=np.array([1, 2], np.float32), b=np.array([10, 20], np.float32))
    assert answer["y"].tolist() == [12, 24]


@pytest.mark.parametrize("model, inputs, said", [
    ("scalar", {"which": np.zeros(2, np.float32)}, "output 'y' is a scalar which is not supported."),
    ("open", {"INPUT__0": np.ones((2, 3), np.float32)}, "unmatched dim value at 1, expected: 4, but got: 3"),
])
def test_requests_are_refused(client, model, inputs, said):
    client.load_model(model)
    with pytest.raises(InferenceServerException, match=re.escape(said)):
        ask(client, model, **inputs)


@pytest.mark.parametrize("model, said", [("number", "An input of type 'int' was detected in the model."), ("isa", "for the instruction set VSX"),
                                         ("package_text", "is no package of a compiled model (.pt2)"), ("absent", "unable to find '")])
def test_models_are_refused(client, model, said):
    with pytest.raises(InferenceServerException, match=re.escape(said)):
        client.load_model(model)
