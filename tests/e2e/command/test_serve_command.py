# SPDX-License-Identifier: Apache-2.0
"""nereid serve: model files as they are, and the command lines that it prints."""
import json
import os
import re
import shutil
import stat
import subprocess

import numpy
import onnx
import pytest
from conftest import DEADLINE, ROOT, make_identity, wait_for

DIGITS = ROOT / "model_repository/digits/1/model.onnx"
PYTHON = """
import numpy
import triton_python_backend_utils as utils
from helper import ADDED

class TritonPythonModel:
    @staticmethod
    def auto_complete_config(config):
        config.add_input({"name": "IN", "data_type": "TYPE_INT32", "dims": [2]})
        config.add_output({"name": "OUT", "data_type": "TYPE_INT32", "dims": [2]})
        config.set_max_batch_size(0)
        if DECOUPLED:
            config.set_model_transaction_policy({"decoupled": True})
        return config

    def execute(self, requests):
        answers = []
        for request in requests:
            values = utils.get_input_tensor_by_name(request, "IN").as_numpy()
            answer = utils.InferenceResponse([utils.Tensor("OUT", values + ADDED)])
            if DECOUPLED:
                sender = request.get_response_sender()
                sender.send(answer)
                sender.send(flags=utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)
            answers.append(answer)
        return None if DECOUPLED else answers
"""


def make_python(path, decoupled=False):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(PYTHON.replace("DECOUPLED", str(decoupled)))
    (path.parent / "helper.py").write_text("ADDED = 7\n")
    return path


def make_weights(path, shape, value):
    """OUT = IN + W, where W lies in a file of its own."""
    float_type = onnx.TensorProto.FLOAT
    weights = onnx.numpy_helper.from_array(numpy.full(shape, value, numpy.float32), "W")
    graph = onnx.helper.make_graph(
        [onnx.helper.make_node("Add", ["IN", "W"], ["SUM"]), onnx.helper.make_node("ReduceSum", ["SUM"], ["OUT"], keepdims=0)], "g",
        [onnx.helper.make_tensor_value_info("IN", float_type, shape)], [onnx.helper.make_tensor_value_info("OUT", float_type, [])], [weights])
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 13)], ir_version=8)
    path.parent.mkdir(parents=True, exist_ok=True)
    onnx.save(model, path, save_as_external_data=True, location=path.name + ".data", size_threshold=0)
    return path


@pytest.fixture
def serve(start_server, tmp_path):
    """Serves what is given; the server's temporary directory is `serve.temporary`."""
    temporary = tmp_path / "temporary"
    temporary.mkdir()

    def start(*words, flags=(), variables=(), **more):
        return start_server(flags=["serve", *map(str, words), *flags], variables={"TMPDIR": str(temporary), **dict(variables)}, **more)

    start.temporary = temporary
    return start


def calls(server, count):
    """The printed lines by model."""
    def printed():
        found = re.findall(r"^.*\bcurl .*/v2/models/.*$", server.log, re.M)
        assert found or server.process.poll() is None, server.log
        return len(found) == count and found

    lines = wait_for("the lines", printed)
    return {re.search(r"/v2/models/([^/]+)/", line).group(1): line for line in lines}


def run(line):
    done = subprocess.run(["bash", "-c", line.replace("curl ", "curl -sS ")], capture_output=True, text=True, timeout=DEADLINE)
    assert done.returncode == 0, done.stderr
    return done.stdout


def outputs(line):
    return {output["name"]: output["data"] for output in json.loads(run(line))["outputs"]}


def test_files_are_models_and_the_printed_lines_call_them(serve, tmp_path):
    shutil.copy(DIGITS, tmp_path / "five o'clock.onnx")
    (tmp_path / "folder").mkdir()
    shutil.copy(DIGITS, tmp_path / "folder/model.onnx")
    script = make_python(tmp_path / "scripts/adder.py")
    server = serve(tmp_path / "five o'clock.onnx", tmp_path / "folder/model.onnx", script, f"other={DIGITS}",
                   ROOT / "model_repository/batch_add/1/model.py")
    lines = calls(server, 5)
    assert set(lines) == {"five%20o%27clock", "folder", "adder", "other", "batch_add"}
    assert outputs(lines["adder"]) == {"OUT": [7, 7]}
    assert outputs(lines["batch_add"]) == {"OUTPUT0": [0.0]}
    answers = [outputs(lines[name]) for name in ("five%20o%27clock", "folder", "other")]
    assert answers[0] == answers[1] == answers[2] and set(answers[0]) == {"digit", "probabilities"}
    (made,) = serve.temporary.glob("nereid-serve-*")
    assert stat.S_IMODE(made.stat().st_mode) == 0o700
    server.stop()
    assert list(serve.temporary.glob("nereid-serve-*")) == [] and script.exists() and (tmp_path / "folder/model.onnx").exists()


def test_large_inputs_are_binary_and_external_data_is_found(serve, tmp_path):
    model = make_weights(tmp_path / "big.onnx", [1, 3, 64, 64], 0.5)
    line = calls(serve(model), 1)["big"]
    assert "head -c 49152 /dev/zero" in line and len(line) < 400
    assert outputs(line) == {"OUT": [6144.0]}


def test_a_model_without_tensors_is_told(serve, tmp_path):
    model = make_python(tmp_path / "silent.py")
    model.write_text(model.read_text().replace("auto_complete_config", "complete"))
    server = serve(model)
    wait_for("the warning", lambda: "warning: silent has neither inputs nor outputs: name them in silent/config.pbtxt with the file at silent/1/" in server.log)


def test_an_edited_file_is_served_by_polling(serve, tmp_path):
    model = make_python(tmp_path / "edited.py")
    server = serve(model, flags=["--model-control-mode=poll", "--repository-poll-secs=1"])
    line = calls(server, 1)["edited"]
    assert outputs(line) == {"OUT": [7, 7]}
    model.write_text(model.read_text().replace("+ ADDED", "+ ADDED + 1"))
    wait_for("the new answer", lambda: outputs(line) == {"OUT": [8, 8]})


def test_an_edited_file_is_loaded_again(serve, tmp_path):
    model = make_weights(tmp_path / "edited.onnx", [2], 1)
    server = serve(model, flags=["--model-control-mode=explicit", "--load-model=*"])
    line = calls(server, 1)["edited"]
    assert outputs(line) == {"OUT": [2.0]}
    make_weights(model, [2], 5)
    assert server.ask("/v2/repository/models/edited/load", b"").status == 200
    assert outputs(line) == {"OUT": [10.0]}


def test_a_decoupled_model_is_called_as_a_stream(serve, tmp_path):
    line = calls(serve(make_python(tmp_path / "stream.py", decoupled=True)), 1)["stream"]
    assert '"OUT":[7,7]' in run(line).replace(" ", "")


def test_directories_of_files_models_and_repositories(serve, tmp_path, repository):
    files = tmp_path / "files"
    make_weights(files / "one.onnx", [2], 1)
    make_weights(files / "two.onnx", [2], 2)
    (files / "notes.txt").write_text("no model")
    make_identity(repository, "from_repository", type="TYPE_STRING")
    alone = make_identity(tmp_path / "elsewhere", "alone", type="TYPE_BOOL")
    lines = calls(serve(files, repository, alone), 4)
    assert outputs(lines["two"]) == {"OUT": [4.0]}
    assert outputs(lines["from_repository"]) == {"OUTPUT0": ["a"]} and outputs(lines["alone"]) == {"OUTPUT0": [False]}


def test_a_directory_is_named_as_it_is_not_as_it_is_typed(serve, tmp_path):
    model = make_weights(tmp_path / "net/model.onnx", [2], 1)
    server = serve(os.path.relpath(model.parent) + "/../net/.")
    assert outputs(calls(server, 1)["net"]) == {"OUT": [2.0]}


def test_secure_follows_the_links_that_it_made(serve, tmp_path):
    model = make_weights(tmp_path / "safe.onnx", [2], 1)
    assert outputs(calls(serve(model, flags=["--secure", "--allow-root"]), 1)["safe"]) == {"OUT": [2.0]}


def test_what_is_missing_is_said(serve, tmp_path):
    saved = tmp_path / "net"
    saved.mkdir()
    (saved / "saved_model.pb").write_bytes(b"")
    server = serve(saved, wait=False)
    assert server.process.wait(DEADLINE) == 1
    assert re.search(r"^error: net does not serve: .*TensorFlow was not found. Install it with 'pip install", server.log, re.M), server.log
    assert list(serve.temporary.iterdir()) == []


def test_a_socket_is_in_the_line_and_a_port_that_is_off_is_told(serve, tmp_path):
    server = serve(DIGITS, flags=[f"--http-address=unix:{tmp_path}/socket", "--metrics-address=127.0.0.1"], wait=False)
    line = calls(server, 1)["digits"]
    assert "--unix-socket" in line and set(outputs(line)) == {"digit", "probabilities"}
    off = serve(DIGITS, flags=["--allow-http=false"], ready=False)
    wait_for("the line", lambda: "digits serves; HTTP is off" in off.log)


MISTAKES = {
    "nothing": ([], "nereid serve needs a model's file"),
    "absent": (["/no/such/model.onnx"], "failed to look at '/no/such/model.onnx': No such file or directory"),
    "no model": (["{}/notes.txt"], "notes.txt' is no model that nereid knows: expected a file with one of the endings .graphdef, .savedmodel, "
                                   ".plan, .onnx, .xml, .tflite, .pdmodel, .saved_model, .pt, .pt2, .py, a SavedModel"),
    "an empty directory": (["{}/empty"], "empty' is no model that nereid knows"),
    "one name twice": (["{}/a.onnx", "{}/other/a.onnx"], "two models would be called 'a', '{}/a.onnx' and '{}/other/a.onnx': give one another name, "
                                                        "<name>={}/other/a.onnx"),
    "no name": (["{}/...onnx"], "...onnx' would be called '..', which is no name of a model: give it one, <name>="),
    "a name that steers a terminal": (["/no/such/\x1b[31m.onnx"], "failed to look at '/no/such/ [31m.onnx'"),
    "no command": (["--http-port=0"], "nereid serve needs a model's file"),
    "a bad flag": (["{}/a.onnx", "--htp-port=1"], "did you mean '--http-port'?"),
}


@pytest.mark.parametrize("case", MISTAKES)
def test_a_mistake_is_named_and_nothing_is_left(nereid, tmp_path, case):
    words, text = MISTAKES[case]
    (tmp_path / "notes.txt").write_text("")
    for name in ("a.onnx", "...onnx"):
        (tmp_path / name).write_text("")
    for name in ("other", "empty", "temporary"):
        (tmp_path / name).mkdir()
    (tmp_path / "other/a.onnx").write_text("")
    done = subprocess.run([nereid, "serve", *(word.format(tmp_path) for word in words)], capture_output=True, text=True, timeout=DEADLINE,
                          env=os.environ | {"TMPDIR": str(tmp_path / "temporary")})
    assert done.returncode == 1 and text.replace("{}", str(tmp_path)) in done.stderr, done.stderr
    assert list((tmp_path / "temporary").iterdir()) == []


def test_commands_are_told(nereid):
    def text(*words):
        done = subprocess.run([nereid, *words], capture_output=True, text=True, timeout=DEADLINE)
        return done.stdout + done.stderr

    assert "\n  nereid serve <file>...\n" in text("--help")
    assert "Usage: nereid serve [--<flag>=<value> ...] <file>..." in text("serve", "--help")
    assert "did you mean 'nereid serve'?" in text("serv")
    assert f"to serve that file or directory: nereid serve {DIGITS}" in text(str(DIGITS))
    assert "see --help" in text("help")
