# SPDX-License-Identifier: Apache-2.0
"""Files and configurations that are wrong, one table for all frameworks: the load fails with the framework's reason in one line, and nothing else suffers."""
import json
import os
import random
import shutil
import zipfile

import frameworks
import onnx
import pytest
import small_models as small
from conftest import Starter, wait_for

BACKENDS = [pytest.param(backend, marks=() if backend == "onnxruntime" else frameworks.needs(backend)) for backend in small.SMALL]
ANY = ""


def file_in(version, backend):
    """The one that matters."""
    model = small.SMALL[backend]
    return version / model.name / model.cut if model.cut else version / model.name


# ---- files ----


def truncated(path, backend):
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def without_its_end(path, backend):
    path.write_bytes(path.read_bytes()[:-1])


def empty(path, backend):
    path.write_bytes(b"")


def text(path, backend):
    path.write_text("this is no model\n" * 100)


def noise(path, backend):
    path.write_bytes(random.Random(18).randbytes(100_000))


def of_another_framework(path, backend):
    other = "pytorch" if backend in ("onnxruntime", "openvino") else "onnxruntime"
    path.write_bytes(small.SMALL[other].source.read_bytes())


def a_directory(path, backend):
    path.unlink()
    path.mkdir()


def absent(path, backend):
    path.unlink()


def unreadable(path, backend):
    path.unlink()
    os.mkfifo(path)


def elsewhere(path, backend):
    """A link that leads out of the repository."""
    path.unlink()
    path.symlink_to("/etc/passwd")


def unknown_operator(path, backend):
    if path.suffix == ".onnx":
        change_onnx(path, lambda model: setattr(model.graph.node[0], "op_type", "NoSuchOperator"))
    elif backend == "pytorch":
        change_archive(path, lambda name, data: data.replace(b"torch.linear(", b"torch.no_such_operator(") if name.endswith(".py") else data)
    else:
        change_bytes(path, *{"tensorflow": (b"AddV2", b"AddV9"), "fil": (b"reg:squarederror", b"reg:no_such_goal")}[backend])


def newer(path, backend):
    """Than the library knows."""
    if path.suffix == ".onnx":
        change_onnx(path, lambda model: setattr(model.opset_import[0], "version", 9999))
    elif backend == "pytorch":
        change_archive(path, lambda name, data: b"9999\n" if name.endswith("/version") else data)
    else:
        path.write_bytes(saved_model_for(path.read_bytes(), 9999))


def change_onnx(path, change):
    model = onnx.load(path)
    change(model)
    path.write_bytes(model.SerializeToString())


def change_bytes(path, old, new):
    data = path.read_bytes()
    assert old in data
    path.write_bytes(data.replace(old, new))


def change_archive(path, change):
    with zipfile.ZipFile(path) as archive:
        before = {name: archive.read(name) for name in archive.namelist()}
    after = {name: change(name, data) for name, data in before.items()}
    assert after != before
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in after.items():
            archive.writestr(name, data)


def saved_model_for(data, version):
    """Whose graph says that it needs this version (graph_def.versions.min_consumer)."""
    assert data[0] == 0x08 and data[2] == 0x12, "schema version, then the one graph with its variables"
    at, length, shift = 3, 0, 0
    while True:
        length |= (data[at] & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if data[at - 1] < 0x80:
            break
    assert len(data) == at + length
    needed = b"\x10" + varint(version)
    versions = b"\x22" + varint(len(needed)) + needed
    more = b"\x12" + varint(len(versions)) + versions
    return data[:3] + varint(length + len(more)) + data[at:] + more


def varint(value):
    found = b""
    while value >= 0x80:
        found, value = found + bytes([value & 0x7F | 0x80]), value >> 7
    return found + bytes([value])


# what is done to the file: what the reason says, by framework. None: it loads; no row: the format has no such thing
EACH = dict.fromkeys(small.SMALL, ANY)
FILES = {
    **{damage: EACH | {"onnxruntime": "onnx runtime error", "tensorflow": "saved_model.pb", "openvino": "openvino error in reading model"}
       for damage in (truncated, without_its_end, empty, text, noise, of_another_framework)},
    **{damage: EACH for damage in (a_directory, unreadable, elsewhere)},
    absent: dict.fromkeys(small.SMALL, "unable to find"),
    unknown_operator: {"onnxruntime": "NoSuchOperator", "openvino": "NoSuchOperator", "tensorflow": "AddV9", "pytorch": "no_such_operator", "fil": "reg:no_such_goal"},
    newer: {"onnxruntime": "is till opset", "openvino": None, "tensorflow": "9999", "pytorch": "9999"},  # OpenVINO reads on where it knows the operators
}
PAIRS = [pytest.param(backend, damage, marks=() if backend == "onnxruntime" else frameworks.needs(backend), id=f"{backend}-{damage.__name__}")
         for damage, words in FILES.items() for backend in words]

# ---- configurations ----


# what is configured otherwise: what the reason says
CONFIGS = {
    "type of an input": (dict(input={"type": "TYPE_INT8"}), "configuration expects datatype TYPE_INT8 for input"),
    "type of an output": (dict(output={"type": "TYPE_INT8"}), "configuration expects datatype TYPE_INT8 for output"),
    "name of an input": (dict(input={"name": "other"}), "unexpected inference input 'other'"),
    "name of an output": (dict(output={"name": "other"}), "unexpected inference output 'other'"),
    "rank of an input": (dict(input={"dims": [2, 2, 2]}), "the model expects 2 dimensions"),
    "size of an input": (dict(input={"dims": [7]}), "the model expects 2 dimensions"),
    "one input more": (dict(more='input { name: "other" data_type: TYPE_FP32 dims: [ 1 ] }'), "configuration expects %d inputs, model provides %d"),
    "file": (dict(file="other"), "other"),
    "file outside": (dict(file="../../../../../etc/passwd"), "etc/passwd"),
}
# where a framework differs: None: it loads
DIFFERENT = {
    ("openvino", "type of an input"): None,  # it converts, as in Triton
    ("openvino", "type of an output"): None,
    # a TorchScript file names neither types nor shapes: they are compared in each run; what fits no name is taken in its order
    **{("pytorch", f"{what} of an {tensor}"): None for what in ("type", "name") for tensor in ("input", "output")},
    ("pytorch", "rank of an input"): None,
    ("pytorch", "size of an input"): None,
    ("tensorflow", "rank of an input"): "model tensor configurations are contradicting each other in terms of whether batching is supported",
    ("tensorflow", "one input more"): "unexpected inference input 'other', allowed inputs are: x, y",
}

# ---- the tests ----


@pytest.fixture(scope="module")
def servers(nereid, backends, tmp_path_factory):
    """One for each framework, with its good model."""
    starters, found = [], {}

    def get(backend):
        if backend not in found:
            repository = tmp_path_factory.mktemp(backend)
            for name in {"onnxruntime", backend}:
                small.add(repository, name)
            starters.append(Starter(nereid, backends, tmp_path_factory.mktemp("server")))
            found[backend] = starters[-1](repository, flags=["--model-control-mode=explicit", "--load-model=*", *frameworks.settings(backend)]), repository
        return found[backend]

    yield get
    for starter in starters:
        starter.stop_all()


def load(server, name):
    return server.ask(f"/v2/repository/models/{name}/load", b"{}")


def refused(server, name, backend, words):
    """The reason is in the answer, in the index and in the log; the good model answers on."""
    answer = load(server, name)
    assert answer.status in (400, 404, 500, 503), answer.text
    reason = json.loads(answer.text)["error"]
    assert words in reason and name in reason and "\n" not in reason.strip(), reason
    index = [model.get("reason", "") for model in json.loads(server.ask("/v2/repository/index", b"{}").body) if model["name"] == name]
    assert index and all(words in told for told in index), index
    wait_for("the reason in the log", lambda: any(words in line and name in line and "failed to load" in line for line in server.log.splitlines()))
    small.ask(server, backend)
    return reason


@pytest.mark.parametrize("backend, damage", PAIRS)
def test_a_bad_file_fails_with_the_reason_and_nothing_else_suffers(servers, backend, damage):
    server, repository = servers(backend)
    name = f"{damage.__name__}_{backend}"
    version = small.add(repository, backend, name)
    damage(file_in(version, backend), backend)
    words = FILES[damage][backend]
    if words is None:
        assert load(server, name).status == 200
        return
    print(refused(server, name, backend, words))
    shutil.rmtree(version)
    shutil.rmtree(repository / name)
    small.add(repository, backend, name)  # the good file under the same name
    assert load(server, name).status == 200
    small.ask(server, backend, name)


@pytest.mark.parametrize("case", CONFIGS)
@pytest.mark.parametrize("backend", BACKENDS)
def test_a_configuration_that_does_not_fit_is_refused_by_name(servers, backend, case):
    server, repository = servers(backend)
    changes, words = CONFIGS[case]
    words = DIFFERENT.get((backend, case), words)
    if words and "%d" in words:
        words = words % (len(small.SMALL[backend].inputs) + 1, len(small.SMALL[backend].inputs))
    name = f"{case.replace(' ', '_')}_{backend}"
    small.add(repository, backend, name, small.config_of(backend, **changes))
    if words is None:
        assert load(server, name).status == 200
    else:
        print(refused(server, name, backend, words))
