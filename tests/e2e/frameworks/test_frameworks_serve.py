# SPDX-License-Identifier: Apache-2.0
"""nereid serve FILE for files of each framework: the line that it prints calls the model."""
import json
import re
import subprocess

import frameworks
import pytest
import real_models as real
import small_models as small
from conftest import DEADLINE, wait_for

pytestmark = pytest.mark.once

FILES = {
    "openvino tflite": lambda: real.pitch_file("tflite"),
    "tensorflow savedmodel": lambda: small.SMALL["tensorflow"].source,
}
WITHOUT_TENSORS = {
    "pytorch pt": (lambda: small.SMALL["pytorch"].source, "model configuration must contain at least one input, none were specified"),
}


def needed(cases):
    return [pytest.param(case, marks=[frameworks.needs(case.split()[0]), frameworks.needs("basic-pitch")]) for case in cases]


@pytest.mark.parametrize("case", needed(FILES))
def test_a_file_is_served_and_the_printed_line_calls_it(start_server, case):
    backend = case.split()[0]
    server = start_server(flags=["serve", f"net={FILES[case]()}", *frameworks.settings(backend)], variables=frameworks.variables())
    line = wait_for("the line", lambda: re.search(r"^.*\bcurl .*/v2/models/.*$", server.log, re.M))[0]
    done = subprocess.run(["bash", "-c", line.replace("curl ", "curl -sS ")], capture_output=True, text=True, timeout=DEADLINE)
    answer = json.loads(done.stdout)
    assert answer["model_name"] == "net" and answer["outputs"] and all(output["shape"] and output["data"] for output in answer["outputs"]), answer
    assert json.loads(server.ask("/v2/models/net/config").text)["backend"] == backend


@pytest.mark.parametrize("case", needed(WITHOUT_TENSORS))
def test_a_file_that_names_no_tensors_says_what_it_needs(start_server, case):
    file, words = WITHOUT_TENSORS[case]
    server = start_server(flags=["serve", f"net={file()}", *frameworks.settings(case.split()[0])], wait=False)
    assert server.process.wait(DEADLINE * 5) == 1
    assert words in server.log and "error: net does not serve" in server.log


@pytest.mark.parametrize("backend", needed(["tensorflow"]))
def test_a_graph_without_a_signature_is_told(start_server, backend):
    server = start_server(flags=["serve", f"net={small.MODELS / 'tensorflow/graph.graphdef'}", *frameworks.settings(backend)])
    wait_for("the warning", lambda: "warning: net has neither inputs nor outputs: name them in net/config.pbtxt with the file at net/1/" in server.log)
