# SPDX-License-Identifier: Apache-2.0
"""nereid check: everything that is wrong with a repository, in one run."""
import json
import os
import re
import shutil
import subprocess

import faults
import pytest
from conftest import DEADLINE, PATIENCE, ROOT, SANITIZER_REPORT, environment, make_identity

pytestmark = pytest.mark.gpu_host

CONFIG = """backend: "identity"
max_batch_size: 8
input { name: "INPUT0" data_type: TYPE_FP32 dims: [ 4 ] }
output { name: "OUTPUT0" data_type: TYPE_FP32 dims: [ 4 ] }
"""


@pytest.fixture
def check(nereid, backends):
    """Runs nereid check; gives what it printed."""
    def run(*words, status=None, variables=()):
        done = subprocess.run(
            [nereid, "check", f"--backend-directory={backends}", f"--backend-config=onnxruntime,python-environment={ROOT / '.venv'}",
             f"--backend-config=python,python-executable={ROOT / '.venv/bin/python'}", *map(str, words)],
            capture_output=True, text=True, errors="replace", timeout=PATIENCE, env=environment() | dict(variables))
        assert not SANITIZER_REPORT.search(done.stderr), done.stderr
        assert done.returncode in (0, 1, 2) and (status is None or done.returncode == status), (done.returncode, done.stdout, done.stderr)
        return done

    return run


def report(done):
    return json.loads(done.stdout)


def make(repository, config=CONFIG, name="net", files=("1/",)):
    directory = repository / name
    directory.mkdir(parents=True, exist_ok=True)
    for file in files:
        path = directory / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.mkdir(exist_ok=True) if file.endswith("/") else path.write_text("")
    if config is not None:
        (directory / "config.pbtxt").write_text(config)
    return directory


# What is in the repository, and the beginnings of the lines that are printed: <severity>, <place below the model's directory>, <message>.
# Where a server is to agree, its load fails when there is an error, and not else.
BROKEN = {
    "misspelt field": (dict(config=CONFIG.replace("max_batch_size", "max_bach_size")),
                       [("error", "config.pbtxt:2:1", 'Message type "inference.ModelConfig" has no field named "max_bach_size".', "did you mean 'max_batch_size'?")]),
    "misspelt type": (dict(config=CONFIG.replace("output { name: \"OUTPUT0\" data_type: TYPE_FP32", "output { name: \"OUTPUT0\" data_type: TYPE_FP23")),
                      [("error", "config.pbtxt:4:37", 'Unknown enumeration value of "TYPE_FP23" for field "data_type".', "did you mean 'TYPE_FP32'?")]),
    "misspelt nested field": (dict(config=CONFIG + "dynamic_batching { max_queue_delay_microsecond: 5 }\n"),
                              [("error", "config.pbtxt:5:20", "", "did you mean 'max_queue_delay_microseconds'?")]),
    "two typos": (dict(config=CONFIG.replace("dims", "dmis")),
                  [("error", "config.pbtxt:3:", "", "did you mean 'dims'?"), ("error", "config.pbtxt:4:", "", "did you mean 'dims'?")]),
    "typo and rule": (dict(config=CONFIG.replace("backend:", "backnd:").replace("[ 4 ] }\noutput", "[ 0 ] }\noutput")),
                      [("error", "config.pbtxt:1:1", "", "did you mean 'backend'?"), ("error", "config.pbtxt:3:53", "model input 'INPUT0' dimension must be integer >= 1", None)]),
    "typos in a misspelt field": (dict(config=CONFIG.replace("input {", "inputs {").replace("TYPE_FP32", "FP32", 1)),
                                  [("error", "config.pbtxt:3:1", "", "did you mean 'input'?"), ("error", "config.pbtxt:3:36", "", "did you mean 'TYPE_FP32'?")]),
    "a bracket that is not closed": (dict(config=CONFIG.replace("[ 4 ] }\noutput", "[ 4 ]\noutput")), [("error", "config.pbtxt:", "", None)]),
    "dimension zero": (dict(config=CONFIG.replace("dims: [ 4 ]", "dims: [ 0 ]")),
                       [("error", "config.pbtxt:3:53", "model input 'INPUT0' dimension must be integer >= 1", None),
                        ("error", "config.pbtxt:4:", "model output 'OUTPUT0' dimension must be integer >= 1", None)]),
    "negative batch size": (dict(config=CONFIG.replace(": 8", ": -8")), [("error", "config.pbtxt:2:", "'max_batch_size' must be non-negative", None)]),
    "name mismatch": (dict(config='name: "nett"\n' + CONFIG),
                      [("error", "config.pbtxt:1:7", "unexpected directory name 'net' for model 'nett', directory name must equal model name", 'write "net", or')]),
    "no version directory": (dict(files=()), [("error", "", "at least one version must be available under the version policy of model 'net'", "make a directory '1'")]),
    "leading zeros": (dict(files=("1/", "02/")), [("warning", "02", "ignore version directory '02' which contains leading zeros", "rename it to '2'")]),
    "no number": (dict(files=("1/", "v2/model.onnx")), [("warning", "v2", "directory 'v2' is ignored: its name is no version number", "a version's name is")]),
    "a version that the policy names": (dict(config=CONFIG + "version_policy { specific { versions: [ 1, 3 ] } }\n"),
                                        [("warning", "config.pbtxt:5:44", "version 3 is specified for model 'net', but the version directory is not present", None)]),
    "no version of the policy": (dict(config=CONFIG + "version_policy { specific { versions: 3 } }\n"),
                                 [("error", "config.pbtxt:5:1", "at least one version must be available", None), ("warning", "config.pbtxt:5:", "version 3", None)]),
    "missing model file": (dict(config='backend: "onnxruntime"\n'), [("error", "1", "unable to find '", None)]),
    "wrong case": (dict(config='backend: "onnxruntime"\n', files=("1/Model.onnx",)), [("error", "1", "unable to find '", "rename 'Model.onnx' to 'model.onnx'")]),
    "another name": (dict(config='backend: "onnxruntime"\n', files=("1/resnet.onnx",)),
                     [("error", "1", "unable to find '", "rename 'resnet.onnx' to 'model.onnx', or have default_model_filename: \"resnet.onnx\"")]),
    "model beside the versions": (dict(files=("1/", "model.onnx")), [("warning", "model.onnx", "file 'model.onnx' is ignored", "move it to '1/model.onnx'")]),
    "no labels": (dict(config=CONFIG.replace("output { ", 'output { label_filename: "labels.txt" ')),
                  [("error", "config.pbtxt:4:26", "failed to open text file for read ", None)]),
    "no warm-up file": (dict(config=CONFIG + 'model_warmup { name: "w" batch_size: 1 inputs { key: "INPUT0" value { data_type: TYPE_FP32 dims: 4 input_data_file: "x" } } }\n'),
                        [("error", "config.pbtxt:5:", "failed to open text file for read ", None)]),
    "config.pbtxt.txt": (dict(config=None, files=("1/model.onnx", "config.pbtxt.txt")),
                         [("warning", "config.pbtxt.txt", "file 'config.pbtxt.txt' is ignored", "rename it to 'config.pbtxt'")]),
    "config.pbtext": (dict(config=None, files=("1/model.onnx", "config.pbtext")), [("warning", "config.pbtext", "file 'config.pbtext' is ignored", None)]),
    "a configuration of the version": (dict(files=("1/config.pbtxt",)), [("warning", "1/config.pbtxt", "a 'config.pbtxt' in a version's directory is ignored", None)]),
    "unknown backend": (dict(config=CONFIG.replace('"identity"', '"identitty"')), [("warning", "config.pbtxt:1:10", "unable to find backend library for backend 'identitty', try specifying runtime on the model configuration.", None)]),
    "a backend by what it runs": (dict(config=CONFIG.replace('"identity"', '"keras"')), [("warning", "config.pbtxt:1:10", "unable to find backend library for backend 'keras'", "did you mean 'tensorflow'?")]),
    "misspelt backend": (dict(config=CONFIG.replace('"identity"', '"onnxrutime"')), [("warning", "config.pbtxt:1:10", "unable to find backend library for backend 'onnxrutime'", "did you mean 'onnxruntime'?")]),
    "a runtime that is not there": (dict(config=CONFIG + 'runtime: "libx.so"\n'),
                                    [("warning", "config.pbtxt:5:10", "unable to find backend library 'libx.so' for model 'net', searched: ", None)]),
    "a runtime elsewhere": (dict(config=CONFIG + 'runtime: "../x.so"\n'),
                            [("warning", "config.pbtxt:5:10", "backend library name '../x.so' escapes backend directory", None)]),
    "a strategy outside": (dict(config=CONFIG + 'parameters { key: "TRITON_BATCH_STRATEGY_PATH" value { string_value: "/no/where.so" } }'),
                           [("warning", "config.pbtxt:5:", "Batching library path escapes model repository.", None)]),
    "a backend of its own": (dict(config=CONFIG.replace('"identity"', '"own"'), files=("1/libtriton_own.so",)), []),
    "no backend at all": (dict(config=CONFIG.replace('backend: "identity"', "")), [("error", "config.pbtxt", "Invalid model name: Could not determine backend for model 'net'", None)]),
    "wrong parameters": (dict(config=CONFIG + "".join(f'parameters {{ key: "{key}" value {{ string_value: "{value}" }} }}\n' for key, value in
                                                      (("version_split", "3=90,4=x"), ("version_labels", "stable=1"), ("version_shadow", "1=101%"), ("isolate", "yes")))),
                         [("error", "config.pbtxt:5:", "parameter 'version_split': split: '4=x': a weight is a number from 0 to 1000000", None),
                          ("error", "config.pbtxt:7:", "parameter 'version_shadow': shadow: '1=101%'", None),
                          ("error", "config.pbtxt:8:", "model 'net': isolate: invalid value 'yes', expected process or none", None)]),
    "a datatype of another tool": (dict(config=CONFIG.replace("TYPE_FP32", "float32", 1)),
                                   [("error", "config.pbtxt:3:35", 'Unknown enumeration value of "float32"', "did you mean 'TYPE_FP32'?")]),
    "a field of an input outside": (dict(config=CONFIG.replace("dims: [ 4 ] }", "} dims: [ 4 ]", 1)),
                                    [("error", "config.pbtxt:3:47", 'Message type "inference.ModelConfig" has no field', "write it in 'input { … }' or 'output { … }'")]),
    "mistaken dims are not missing": (dict(config=CONFIG.replace("[ 4 ]", "[ None ]", 1)), [("error", "config.pbtxt:3:53", "Expected integer, got: None", "write -1")]),
    "a batch dimension": (dict(config=CONFIG.replace("[ 4 ]", "[ -1, 4 ]")),
                          [("warning", "config.pbtxt:3:53", "'dims' are without the batch dimension: where 'max_batch_size' is 8, input 'INPUT0' has one", "if it is the batch,")]),
    "the batch's size": (dict(config=CONFIG.replace("[ 4 ]", "[ 8, 4 ]")), [("warning", "config.pbtxt:3:53", "'dims' are without the batch dimension", None)]),
    "a first dimension of any size": (dict(config=CONFIG.replace("[ 4 ]", "[ -1, -1 ]")), []),
    "a platform that is a backend": (dict(config=CONFIG.replace('backend: "identity"', 'platform: "onnx"')),
                                     [("error", "config.pbtxt:1:11", "unexpected platform type 'onnx'", "write 'backend: \"onnxruntime\"' in its place")]),
    "nothing wrong": ({}, []),
}
AGREES = set(BROKEN) - {"missing model file", "wrong case", "another name", "no warm-up file", "config.pbtxt.txt", "config.pbtext", "unknown backend",
                        "misspelt backend", "a backend by what it runs", "a runtime that is not there", "a runtime elsewhere", "no labels", "a strategy outside", "a backend of its own"}


def line_of(problem, directory):
    place = os.path.relpath(problem["file"], directory)
    return (problem["severity"], ("" if place == "." else place) + (f":{problem['line']}:{problem['column']}" if "line" in problem else ""),
            problem["message"], problem.get("fix"))


@pytest.mark.parametrize("case", BROKEN)
def test_what_is_broken_is_told_with_its_place(check, repository, case):
    made, expected = BROKEN[case]
    directory = make(repository, **made)
    errors = any(line[0] == "error" for line in expected)
    found = [line_of(problem, directory) for problem in report(check("--json", repository, status=int(errors)))["problems"]]
    assert len(found) == len(expected), found
    for line, (severity, place, message, fix) in zip(found, expected):
        assert line[0] == severity and line[1].startswith(place) and line[2].startswith(message), (line, expected)
        assert fix is None or line[3].startswith(fix), (line, fix)


def test_a_server_agrees_about_what_loads(check, start_server, repository):
    """What is an error is one when it is loaded, and what is none is none."""
    for i, case in enumerate(sorted(AGREES)):
        made = dict(BROKEN[case][0])
        made["config"] = made.get("config", CONFIG).replace('"nett"', f'"nett{i}"')
        make(repository, name=f"m{i}", **made)
    server = start_server(repository, flags=["--model-control-mode=explicit", "--exit-on-error=false"])
    for i, case in enumerate(sorted(AGREES)):
        wrong = any(line[0] == "error" for line in BROKEN[case][1])
        assert (server.ask(f"/v2/repository/models/m{i}/load", b"").status != 200) == wrong, case


def test_people_see_the_line_and_a_caret(check, repository):
    directory = make(repository, config='name:\t"net"\nmax_batch_size: 8 naem: "日本" dims: 3\n' + CONFIG.replace("max_batch_size: 8\n", ""))
    done = check(repository, status=1)
    assert done.stdout.splitlines() == [
        f'{directory}/config.pbtxt:2:19: error: Message type "inference.ModelConfig" has no field named "naem".',
        '    2 | max_batch_size: 8 naem: "日本" dims: 3',
        "      |                   ^~~~",
        "      fix: did you mean 'name'?",
        f'{directory}/config.pbtxt:2:34: error: Message type "inference.ModelConfig" has no field named "dims".',
        '    2 | max_batch_size: 8 naem: "日本" dims: 3',
        "      |                                ^~~~",
        *done.stdout.splitlines()[7:-1],
        "1 model checked: 2 errors",
    ]


def test_status_and_summary(check, repository):
    make(repository)
    assert check(repository, status=0).stdout == "1 model checked: no problems\n"
    make(repository, name="other", files=("1/", "03/"))
    assert check(repository, status=0).stdout.endswith("2 models checked: 1 warning\n")
    assert check("--strict", repository, status=1).stdout.endswith("2 models checked: 1 warning\n")
    assert "a model's directory or a config.pbtxt" in check(status=2).stderr
    assert "/no/such" in check("/no/such", status=2).stderr
    assert "unrecognized option '--jsno', did you mean '--json'?" in check("--jsno", status=2).stderr
    assert "Flags of its own:" in check("--help", status=0).stdout


def test_colours_are_for_terminals(nereid, backends, repository):
    make(repository, config="x: 1")

    def seen(**variables):
        leader, follower = os.openpty()
        process = subprocess.Popen([nereid, "check", repository], stdout=follower, stderr=follower,
                                   env=environment() | {"TERM": "xterm", **variables})
        os.close(follower)
        text = b""
        while True:  # the terminal's end is an error
            try:
                if not (part := os.read(leader, 65536)):
                    break
                text += part
            except OSError:
                break
        os.close(leader)
        assert process.wait(DEADLINE) == 1
        return text

    assert b"\033[1;31merror:\033[0m" in seen()
    assert b"\033" not in seen(NO_COLOR="1") and b"\033" not in seen(TERM="dumb")


def test_what_is_checked_may_be_named_in_many_ways(check, repository):
    directory = make(repository, config=CONFIG.replace("batch", "bach"))
    (directory / "configs").mkdir()
    (directory / "configs/b.pbtxt").write_text(CONFIG.replace("batch", "buch"))
    alone = repository.parent / "alone.txt"
    alone.write_text("backend: \"identity\"\nmax_size: 1\n")
    for word in (repository, f"{repository}/", directory, directory / "config.pbtxt", f"--model-repository={repository}"):
        assert ["max_bach_size" in p["message"] for p in report(check("--json", word, status=1))["problems"]] == [True], word
    for words in ([directory / "configs/b.pbtxt"], ["--model-config-name=b", repository], ["--model-config-name=b", directory]):
        assert ["max_buch_size" in p["message"] for p in report(check("--json", *words, status=1))["problems"]] == [True], words
    assert [p["line"] for p in report(check("--json", alone, status=1))["problems"]] == [2]
    assert "is a model's file" in check(ROOT / "model_repository/digits/1/model.onnx", status=2).stderr


def test_a_name_in_two_repositories(check, repository, tmp_path):
    make(repository)
    make(tmp_path / "second")
    (problem,) = report(check("--json", repository, tmp_path / "second", status=1))["problems"]
    assert problem["message"] == "failed to poll model 'net': not unique across all model repositories"
    assert problem["note"] == f"it is in {repository}, {tmp_path}/second"


def test_incomplete_configurations_are_for_the_backend(check, repository):
    make(repository, config=None, name="complete", files=("1/model.onnx",))
    check(repository, status=0)
    assert "failed to open text file for read" in check("--disable-auto-complete-config", repository, status=1).stdout


COMPLETES = """
import triton_python_backend_utils as utils

class TritonPythonModel:
    @staticmethod
    def auto_complete_config(config):
        config.add_input({"name": "IN", "data_type": "TYPE_FP32", "dims": [1]})
        config.add_output({"name": "OUT", "data_type": "TYPE_FP32", "dims": [1]})
        return config

    def execute(self, requests):
        return [utils.InferenceResponse([]) for request in requests]
"""
IN, OUT = 'input { name: "IN" data_type: TYPE_FP32 }\n', 'output { name: "OUT" dims: 1 }\n'


def test_what_a_backend_may_complete_is_not_missed(check, start_server, repository):
    """The parts of a tensor that is named: by Python models, not by ONNX Runtime, as servers do it."""
    make(repository, config='backend: "python"\n' + IN + OUT, files=("1/model.py",)).joinpath("1/model.py").write_text(COMPLETES)
    assert check("--load", repository, status=0).stdout == "1 model checked: no problems\n"
    server = start_server(repository)
    assert json.loads(server.ask("/v2/models/net").body)["outputs"] == [{"name": "OUT", "datatype": "FP32", "shape": [1]}]
    assert "must specify 'dims'" in check("--disable-auto-complete-config", repository, status=1).stdout
    make(repository, config=IN + OUT, name="onnx", files=("1/model.onnx",))
    said = [problem["message"] for problem in report(check("--json", repository, status=1))["problems"]]
    assert said == ["model input 'IN' must specify 'dims' for onnx", "model output 'OUT' must specify 'data_type' for onnx"]


# Pages with tables of parameters, and the backend that reads them.
PARAMETERS = {"model_configuration.md": "identity", "fil.md": "fil", "openvino.md": "openvino", "pytorch.md": "pytorch", "tensorflow.md": "tensorflow",
              "backends.md#identity": "identity", "backends.md#onnxruntime": "onnxruntime"}


def documented_parameters(page):
    """The names in the first column of the tables that have parameters, of the whole page or of one section."""
    name, _, section = page.partition("#")
    text = (ROOT / "docs" / name).read_text()
    if section:
        (text,) = re.findall(rf"^## {section}\n(.*?)(?=^## )", text, re.M | re.S)
    tables = re.findall(r"^\| (?:parameter|parameter of the model|key) \|.*\n\|-.*\n((?:\|.*\n)+)", text, re.M)
    cells = [row.split("|")[1] for table in tables for row in table.splitlines()]
    return [name for cell in cells if "such as" not in cell for name in re.findall(r"`([A-Za-z0-9_.]+)`", cell)]


@pytest.mark.parametrize("page", PARAMETERS)
def test_a_misspelt_parameter_is_told(check, tmp_path, page):
    names = documented_parameters(page)
    assert len(names) > 4
    config = tmp_path / "config.txt"
    config.write_text(f'backend: "{PARAMETERS[page]}"\n' + "".join(f'parameters {{ key: "{name}x" value {{ string_value: "1" }} }}\n' for name in names))
    fixes = {problem["field"]: problem["fix"] for problem in report(check("--json", config))["problems"] if problem["severity"] == "warning"}
    assert fixes == {f'parameters["{name}x"]': f"did you mean '{name}'?" for name in names}


def test_a_thousand_models(check, repository):
    for i in range(1000):
        make(repository, name=f"m{i}", config=CONFIG + ("x" if i % 10 == 0 else ""))
    assert check(repository, status=1).stdout.endswith("1000 models checked: 100 errors\n")


def test_load_says_what_the_backend_says(check, repository):
    make(repository, config='backend: "onnxruntime"\n', files=("1/model.onnx",))
    shutil.copytree(ROOT / "model_repository/digits", repository / "digits")
    make_identity(repository, "well")
    assert check(repository, status=0)
    (problem,) = report(check("--load", "--json", repository, status=1))["problems"]
    assert problem["model"] == "net" and "load failed for model 'net'" in problem["message"], problem
    make(repository, config=CONFIG.replace("identity", "identitty"), name="absent")
    problems = report(check("--load", "--json", repository, status=1))["problems"]
    assert [(p["model"], p["severity"]) for p in problems] == [("absent", "error"), ("net", "error")]


def test_print_config_says_where_values_are_from(check, repository):
    shutil.copytree(ROOT / "model_repository/digits", repository / "digits")
    (repository / "digits/config.pbtxt").write_text('# first\nversion_policy { all {} }\nmetric_tags { key: "a" value: "b\\"\\n" }\n')
    text = check("--print-config=digits", repository, status=0).stdout
    assert re.search(r'^backend: "onnxruntime" +# default$', text, re.M) and "input {" not in text
    assert re.search(r'^  value: "b\\"\\n" +# config\.pbtxt:3$', text, re.M), text
    loaded = check("--print-config=digits", "--load", f"--model-repository={repository}", status=0).stdout
    assert re.search(r"^  dims: \[ 64 \] +# model file$", loaded, re.M), loaded
    printed = report(check("--print-config=digits", "--json", repository, status=0))
    assert printed["config"]["metric_tags"] == {"a": 'b"\n'}
    assert {"text": 'name: "digits"', "field": "name", "from": "default"} in printed["lines"]
    again = make(repository / "again", name="digits", config=text, files=("1/model.onnx",))
    assert report(check("--print-config", again, "--json", status=0))["config"] == printed["config"]
    assert "model not found" in check("--print-config=nobody", repository, status=1).stderr
    make(repository, config="x: 1")
    assert "has no field named" in check("--print-config=net", repository, status=1).stderr


def test_hostile_files_cost_nothing_but_their_model(check, repository):
    configs = {
        "binary": os.urandom(100000), "nul": CONFIG.encode() + b'parameters { key: "a\0b" }', "long": b"input" * 200000, "deep": b"input {" * 10000,
        "many": b"x { } \t" * 20000, "escapes": b'"\033[31m\xc2\x9b' * 10 + "\u202e".encode(), "empty": b"", "bracket": b"[" * 5000, "large": b"#" * (17 << 20),
    }
    for name, text in configs.items():
        (make(repository, name=name) / "config.pbtxt").write_bytes(text)
    make(repository, name="well")
    make(repository, name="fifo", config=None)
    os.mkfifo(repository / "fifo/config.pbtxt")
    make(repository, name="folder", files=("1/", "config.pbtxt/"), config=None)
    (repository / "loop").symlink_to("loop")
    make(repository, name="link", config=None)
    (repository / "link/config.pbtxt").symlink_to("config.pbtxt")
    (make(repository, name="version", files=()) / "1").symlink_to("1")
    (make(repository, name="circle") / "1/up").symlink_to("..")
    done = check(repository, "/etc/passwd", status=1)
    assert "\033" not in done.stdout and "\x9b" not in done.stdout and "\u202e" not in done.stdout
    problems = report(check("--json", repository, status=1))["problems"]
    assert {p["model"] for p in problems} >= {*configs, "fifo", "folder", "loop", "link", "version"} and not {p["model"] for p in problems} & {"well", "circle"}
    assert max(len(p.get("source", "")) for p in problems) < 500


@pytest.mark.slow
def test_short_memory_is_an_error_and_never_half_a_report(nereid, backends, repository, tmp_path):
    make(repository, **BROKEN["two typos"][0])
    make(repository, **BROKEN["wrong case"][0], name="other")
    make(repository, name="well")
    whole, done = faults.runs_of_command(nereid, tmp_path, ["check", f"--backend-directory={backends}", repository], {}, 40)
    assert whole.returncode == 1 and "3 models checked: 3 errors" in whole.stdout
    for run in done:
        assert run.stdout == whole.stdout and run.returncode == 1 or run.stdout == "" and run.returncode in (1, 2) and "memory" in run.stderr, run


@pytest.mark.slow
def test_short_memory_leaves_no_directory_of_links(nereid, tmp_path):
    (tmp_path / "temporary").mkdir()
    for path in ("a.onnx", "b.onnx", "other/a.onnx"):
        (tmp_path / path).parent.mkdir(exist_ok=True)
        (tmp_path / path).write_text("")
    words = ["serve", *(tmp_path / path for path in ("a.onnx", "b.onnx", "other/a.onnx"))]
    whole, done = faults.runs_of_command(nereid, tmp_path, words, {"TMPDIR": str(tmp_path / "temporary")}, 30)
    assert whole.returncode == 1 and "two models would be called 'a'" in whole.stderr
    for run in done:
        assert run.returncode == 1 and ("two models" in run.stderr or "memory" in run.stderr), run
    assert list((tmp_path / "temporary").iterdir()) == []
