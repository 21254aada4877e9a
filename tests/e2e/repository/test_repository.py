# SPDX-License-Identifier: Apache-2.0
"""Repositories as operators have them: on nereid and on NVIDIA's server of 2.51, both with nereid's backends.

Links of all kinds, names of all kinds, and directories that are no models: what the one serves, the other serves.
"""
import json
import os
import re
import shutil
import subprocess

import numpy as np
import onnx
import pytest
import tritonclient.grpc as triton
from conftest import DEADLINE, IDENTITY, environment, make_identity, wait_for
from grpc_sides import NEREID, SIDES, SideStarter, client_of, stop
from onnx import TensorProto, helper, numpy_helper
from python_models import make_python
from safety import Client

EXPLICIT = ["--model-control-mode=explicit"]


@pytest.fixture(scope="module", params=SIDES, ids=[side.name for side in SIDES])
def grpc_side(request):
    return request.param


@pytest.fixture
def start(grpc_side, tmp_path):
    (tmp_path / "backends").mkdir()
    starter = SideStarter(grpc_side, grpc_side.backends(tmp_path / "backends"), tmp_path)
    yield starter
    stop(starter)


@pytest.fixture
def store(repository):
    """Where the files are that links lead to: beside the repository."""
    directory = repository.parent / "store"
    directory.mkdir()
    return directory


# ---- layouts that are served ----


def adder(data=None, number=5):
    """An ONNX file: Y = X + 5. The 5 is in the file `data` beside it, if that is given."""
    graph = helper.make_graph(
        [helper.make_node("Add", ["X", "five"], ["Y"])], "adder",
        [helper.make_tensor_value_info("X", TensorProto.FLOAT, ("batch", 1024))],
        [helper.make_tensor_value_info("Y", TensorProto.FLOAT, ("batch", 1024))],
        [numpy_helper.from_array(np.full((1, 1024), number, np.float32), "five")])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    if data is not None:
        onnx.external_data_helper.convert_model_to_external_data(model, location=data, size_threshold=0)
    return model


def put_adder(path, data=None, number=5):
    path.parent.mkdir(parents=True, exist_ok=True)
    onnx.save_model(adder(data, number), str(path))
    return path


def link(path, target, relative=False):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.symlink_to(os.path.relpath(target, path.parent) if relative else target)


def make_versionless(directory, name):
    (make_identity(directory, name) / "1").rmdir()


def link_of_model(r, s):
    link(r / "link_of_model", make_identity(s, "link_of_model"))


def relative_link_of_model(r, s):
    link(r / "relative_link_of_model", make_identity(s, "relative_link_of_model"), relative=True)


def chain_of_links(r, s):
    make_identity(s / "chain", "v12")
    link(s / "chain/current", "v12")
    link(s / "chain/stable", s / "chain/current")
    link(r / "chain_of_links", s / "chain/stable", relative=True)


def link_of_version(r, s):
    make_identity(s / "versions", "m")
    make_versionless(r, "link_of_version")
    link(r / "link_of_version/3", s / "versions/m/1")


def link_of_config(r, s):
    (s / "shared.pbtxt").write_text(IDENTITY % dict(type="TYPE_FP32", max_batch_size=8, more=""))
    (r / "link_of_config/1").mkdir(parents=True)
    link(r / "link_of_config/config.pbtxt", s / "shared.pbtxt")


def cache_of_blobs(r, s):
    """As Hugging Face keeps files: each is a link to a blob, its external data too."""
    whole = put_adder(s / "made/model.onnx", data="model.onnx_data")
    (s / "blobs").mkdir()
    for name, blob in (("model.onnx", "4f53cda1"), ("model.onnx_data", "9e107d9d")):
        shutil.move(whole.parent / name, s / "blobs" / blob)
        link(r / "cache_of_blobs/1" / name, s / "blobs" / blob, relative=True)


def config_map(r, s):
    """As Kubernetes mounts a ConfigMap: the names lead to a link that leads to a directory."""
    make_identity(r / "..2026_11_22_10_00_00.1234", "config_map")
    link(r / "..data", "..2026_11_22_10_00_00.1234")
    link(r / "config_map", "..data/config_map")


def link_of_labels(r, s):
    (s / "labels.txt").write_text("cat\ndog\n")
    link(labeled(r, "link_of_labels", "labels.txt") / "labels.txt", s / "labels.txt")


def labels_of_a_neighbour(r, s):
    labeled(r, "labels_of_a_neighbour", "../shared_labels.txt")
    (r / "shared_labels.txt").write_text("cat\ndog\n")


def labeled(r, name, file):
    directory = make_identity(r, name)
    config = directory / "config.pbtxt"
    text = re.sub(r'(name: "OUTPUT0".*?) \}', r'\1 label_filename: "%s" }' % file, config.read_text())
    assert file in text
    config.write_text(text)
    return directory


def file_of_a_neighbour(r, s):
    put_adder(s / "neighbour.onnx")
    (r / "file_of_a_neighbour/1").mkdir(parents=True)
    path = os.path.relpath(s / "neighbour.onnx", r / "file_of_a_neighbour/1")
    (r / "file_of_a_neighbour/config.pbtxt").write_text(f'backend: "onnxruntime" default_model_filename: "{path}"')


def only_a_file(r, s):
    put_adder(r / "only_a_file/1/model.onnx")


def a_directory_of_the_files_name(r, s):
    put_adder(r / "a_directory_of_the_files_name/1/model.onnx/model.onnx", data="weights")


def versions_and_more(r, s):
    """What lies about in a model's directory: older versions, warmup data, other configurations, editors' and file managers' files."""
    directory = make_identity(r, "versions_and_more", versions=(1, 2, 3))
    for name in ("01", "warmup", "configs", "initial_state", "2.old", ".ipynb_checkpoints"):
        (directory / name).mkdir()
    for name in (".DS_Store", "config.pbtxt~", "config.pbtxt.bak", ".config.pbtxt.swp", "warmup/raw_data", "configs/gpu.pbtxt", "1/.keep"):
        (directory / name).write_text("}} nothing to read here")


def read_only(r, s):
    directory = make_identity(r, "read_only")
    (directory / "config.pbtxt").chmod(0o400)
    (directory / "1").chmod(0o500)
    directory.chmod(0o500)


LAYOUTS = [link_of_model, relative_link_of_model, chain_of_links, link_of_version, link_of_config, cache_of_blobs, config_map, link_of_labels,
           labels_of_a_neighbour, file_of_a_neighbour, only_a_file, a_directory_of_the_files_name, versions_and_more, read_only]
NAMES = ["with spaces  in it", "größe-模型-😀", "v1.2:latest", "x" * 255, "ä" * 127, ".hidden"]


@pytest.fixture(scope="module")
def served(grpc_side, tmp_path_factory):
    """A server of all layouts, whose repository itself is a link, and which is given by a path that is relative."""
    directory = tmp_path_factory.mktemp("layouts")
    repository, files = directory / "real", directory / "store"
    repository.mkdir()
    files.mkdir()
    for layout in LAYOUTS:
        layout(repository, files)
    for name in NAMES:
        make_identity(repository, name)
    (directory / "models").symlink_to("real")
    (directory / "backends").mkdir()
    starter = SideStarter(grpc_side, grpc_side.backends(directory / "backends"), directory)
    try:
        yield starter(os.path.relpath(directory / "models"))
    finally:
        stop(starter)


def answer_of(server, name):
    """What a model makes of 7, first element."""
    with client_of(server) as client:
        described = client.get_model_metadata(name).inputs[0]
        shape = [1, abs(described.shape[-1])]
        tensor = triton.InferInput(described.name, shape, "FP32").set_data_from_numpy(np.full(shape, 7, np.float32))
        result = client.infer(name, [tensor])
        return result.as_numpy(result.get_response().outputs[0].name)[0, 0]


@pytest.mark.parametrize("name", [layout.__name__ for layout in LAYOUTS] + NAMES)
def test_a_layout_is_served(served, name):
    with client_of(served) as client:  # over gRPC: Triton does not decode names in URLs
        client.load_model(name)
        rows = [row for row in client.get_model_repository_index().models if row.name == name]
    version = {"link_of_version": "3", "versions_and_more": "3"}.get(name, "1")
    assert [(row.version, row.state) for row in rows if row.state == "READY"] == [(version, "READY")]
    is_onnx = name in ("cache_of_blobs", "file_of_a_neighbour", "only_a_file", "a_directory_of_the_files_name")
    assert answer_of(served, name) == (12 if is_onnx else 7)


def test_labels_are_read_through_links(served):
    for name in ("link_of_labels", "labels_of_a_neighbour"):
        with client_of(served) as client:
            client.load_model(name)
            tensor = triton.InferInput("INPUT0", [1, 2], "FP32").set_data_from_numpy(np.array([[1, 2]], np.float32))
            result = client.infer(name, [tensor], outputs=[triton.InferRequestedOutput("OUTPUT0", class_count=1)])
            assert result.as_numpy("OUTPUT0")[0, 0] == b"2.000000:1:dog"


# ---- links, in nereid ----


def test_external_data_may_lie_beside_the_file_that_a_link_leads_to(start_server, repository, store):
    put_adder(store / "model.onnx", data="weights")
    link(repository / "linked/1/model.onnx", store / "model.onnx")
    server = start_server(repository)
    assert answer_of(server, "linked") == 12


def test_a_python_model_that_is_a_link_imports_what_lies_beside_the_link(start_server, repository, store):
    directory = make_python(repository, "linked", """
        def execute(self, requests):
            import sibling
            import os
            assert os.path.basename(self.arguments["model_repository"]) == "linked"
            return [answer(value(r) + sibling.NUMBER) for r in requests]

        def initialize(self, arguments):
            self.arguments = arguments
        """)
    shutil.move(directory / "1/model.py", store / "code.py")
    link(directory / "1/model.py", store / "code.py")
    (directory / "1/sibling.py").write_text("NUMBER = 30")
    shutil.move(directory, store / "elsewhere")
    link(directory, store / "elsewhere")
    server = start_server(repository)
    body = b'{"inputs":[{"name":"IN","shape":[1],"datatype":"INT32","data":[4]}]}'
    answer = server.ask("/v2/models/linked/infer", body)
    assert answer.status == 200 and json.loads(answer.body)["outputs"][0]["data"] == [34], answer.text


def test_what_is_no_file_does_not_hold_the_start(start_server, repository, store):
    for name in ("config", "model"):
        (repository / name / "1").mkdir(parents=True)
    (repository / "model/config.pbtxt").write_text('backend: "onnxruntime"')
    os.mkfifo(repository / "config/config.pbtxt")
    os.mkfifo(store / "fifo")
    link(repository / "model/1/model.onnx", store / "fifo")
    link(repository / "loop", "loop")
    link(repository / "gone", store / "nowhere")
    link(repository / ".#lock", "user@host.1")  # as Emacs keeps others from editing
    link(make_identity(repository, "m") / ".#config.pbtxt", "user@host.1")
    server = start_server(repository, flags=["--exit-on-error=false"], ready=False)
    wait_for("the end of the start", lambda: "serving the others" in server.log)
    rows = {row["name"]: row for row in json.loads(server.ask("/v2/repository/index", b"").body)}
    assert {name: row.get("state") for name, row in rows.items()} == {
        "m": "READY", "config": "UNAVAILABLE", "model": "UNAVAILABLE", "loop": "UNAVAILABLE", "gone": "UNAVAILABLE"}
    assert rows["config"]["reason"].endswith(f"{repository}/config/config.pbtxt: 'config.pbtxt' is not a regular file")
    assert "'1/model.onnx' is not a regular file" in rows["model"]["reason"]
    assert "failed to open 'loop', a link to 'loop': Too many levels of symbolic links" in rows["loop"]["reason"]
    assert f"'gone' is a link to '{store}/nowhere', which does not exist" in rows["gone"]["reason"]


def reload_count(server):
    return server.log.count("successfully loaded")


def point(path, target):
    """Exchanges the link in one step, as `ln -sfn` with `mv -T` does."""
    os.symlink(target, f"{path}.new")
    os.rename(f"{path}.new", path)


def test_links_that_lead_elsewhere_are_changes(start, grpc_side, repository, store):
    for name in ("v12", "v13"):
        make_identity(store, name)
    link(repository / "m", store / "v13")
    make_versionless(repository, "v")
    link(repository / "v/1", store / "v13/1")
    (store / "blob").write_text("x")
    make_identity(repository, "f")
    link(repository / "f/1/blob", store / "blob")
    server = start(repository)

    def reloads(name):
        before = reload_count(server)
        with Client(server) as client:
            assert client.load(name).status == 200
        return reload_count(server) > before

    def replace_blob():
        times = os.stat(store / "blob")
        (store / "other").write_text("y")
        os.utime(store / "other", ns=(times.st_atime_ns, times.st_mtime_ns))
        os.rename(store / "other", store / "blob")

    assert [reloads(name) for name in "mvf"] == [True] * 3 and [reloads(name) for name in "mvf"] == [False] * 3
    point(repository / "v/1", store / "v12/1")
    assert reloads("v") and not reloads("v")
    (store / "blob").write_text("z")
    assert reloads("f") and not reloads("f")
    replace_blob()
    assert reloads("f") and not reloads("f")
    point(repository / "m", store / "v12")  # back to an older one
    assert reloads("m") == (grpc_side is NEREID)
    (store / "v12/1/new").write_text("x")
    assert reloads("m") and not reloads("m")


@pytest.mark.parametrize("way", ["the model", "its version", "a link behind the link"])
def test_an_older_model_serves_when_its_link_leads_back_to_it(start_server, repository, store, way):
    for number in (12, 13):
        put_adder(store / f"v{number}/1/model.onnx", number=number)
    moving = {"the model": repository / "m", "its version": repository / "m/1", "a link behind the link": store / "current"}[way]
    inside = "/1" if way == "its version" else ""
    link(moving, f"{store}/v13{inside}")
    if way == "a link behind the link":
        link(repository / "m", moving)
    server = start_server(repository, flags=[*EXPLICIT, "--load-model=m"])
    for number in (13, 12, 13):
        point(moving, f"{store}/v{number}{inside}")
        assert server.ask("/v2/repository/models/m/load", b"").status == 200
        assert answer_of(server, "m") == 7 + number


# ---- paths in requests ----


def override(**fields):
    label = fields.pop("label_filename", None)
    output = {"name": "OUTPUT0", "data_type": "TYPE_FP32", "dims": [-1]}
    return {"backend": "identity", "max_batch_size": 8, "input": [{"name": "INPUT0", "data_type": "TYPE_FP32", "dims": [-1]}],
            "output": [{**output, "label_filename": label} if label else output], **fields}


def with_environment(path):
    return override(parameters={"EXECUTION_ENV_PATH": {"string_value": path}})


def test_a_request_names_what_the_operator_named_and_nothing_else_outside(start_server, repository, store):
    labels_of_a_neighbour(repository, store)
    (repository / "other_labels.txt").write_text("x\n")
    config = repository / "labels_of_a_neighbour/config.pbtxt"
    config.write_text(config.read_text() + 'parameters { key: "EXECUTION_ENV_PATH" value { string_value: "/opt/operator" } }')
    server = start_server(repository, flags=EXPLICIT)
    with Client(server) as client:
        def load(sent):
            return client.load("labels_of_a_neighbour", sent)

        assert load(override(label_filename="../shared_labels.txt")).status == 200
        assert load(with_environment("/opt/operator")).status == 200
        assert load(with_environment("$$TRITON_MODEL_DIRECTORY/environment")).status == 200
        for field, sent in {
            "label_filename": override(label_filename="../other_labels.txt"),
            "default_model_filename": override(default_model_filename="../../x"),
            "op_library_filename": override(model_operations={"op_library_filename": ["/tmp/x.so"]}),
            "EXECUTION_ENV_PATH": with_environment("/opt/strangers"),
        }.items():
            answer = load(sent)
            assert answer.status == 400 and f"'{field}' of model 'labels_of_a_neighbour' leads out of the model's directory" in answer.text, answer.text
        assert load(with_environment("$$TRITON_MODEL_DIRECTORY/../x")).status == 400


# ---- directories that are no models ----

NO_MODELS = {"lost+found": (), "__pycache__": ("a.pyc",), "scripts": ("run.sh",), "empty": (), "texts": ("README.md", "LICENSE")}


def put_no_models(repository):
    for directory, files in NO_MODELS.items():
        (repository / directory).mkdir()
        for file in files:
            (repository / directory / file).write_text("x")
    (repository / "README").write_text("x")


def state_of(server, name):
    return [row.get("state") for row in json.loads(server.ask("/v2/repository/index", b"").body) if row["name"] == name]


def test_directories_that_are_no_models_are_listed_and_keep_nothing_from_being_ready(start, repository):
    make_identity(repository, "m")
    put_no_models(repository)
    server = start(repository, flags=["--load-model=*", "--exit-on-error=false"])
    assert {name: state_of(server, name) for name in NO_MODELS} == {name: [None] for name in NO_MODELS}
    assert state_of(server, "README") == [] and state_of(server, "m") == ["READY"]
    answer = server.ask("/v2/repository/models/empty/load", b"")
    assert answer.status == 500 and "failed to load 'empty', failed to poll from model repository" in answer.text
    assert server.ask("/v2/health/ready").status == 200


def test_a_lost_and_found_that_only_root_may_read_does_not_end_the_start(start_server, repository):
    """As at the top of a volume. A model that may not be read does."""
    make_identity(repository, "m")
    (repository / "lost+found").mkdir(mode=0)
    (repository / ".Trash-1000").mkdir(mode=0)
    rights = ["setpriv", "--bounding-set=-dac_override,-dac_read_search"] if os.geteuid() == 0 else []
    server = start_server(repository, flags=["--exit-on-error=true"], wrapper=rights)
    assert state_of(server, "lost+found") == [None] and state_of(server, "m") == ["READY"]
    server.stop()
    make_identity(repository, "closed").chmod(0)
    server = start_server(repository, flags=["--exit-on-error=false"], wrapper=rights, ready=False)
    wait_for("the end of the start", lambda: "serving the others" in server.log)
    assert state_of(server, "closed") == ["UNAVAILABLE"] and "failed to open 'closed': Permission denied" in server.log


def test_what_cannot_be_polled_does_not_keep_the_server_from_being_ready_and_what_does_not_load_does(start, repository):
    make_identity(repository, "m")
    make_identity(repository, "unread").joinpath("config.pbtxt").write_text("}}}")
    (repository / "unknown/1").mkdir(parents=True)
    server = start(repository, flags=["--load-model=*", "--exit-on-error=false"])
    assert state_of(server, "m") == ["READY"]
    make_versionless(repository, "versionless")
    assert server.ask("/v2/repository/models/versionless/load", b"").status == 400
    assert server.ask("/v2/health/ready").status == 400


def end_of(starter, repository, *flags):
    """The exit status of a start that fails, and what it said."""
    command = starter.command(repository, flags=flags)
    result = subprocess.run(command, capture_output=True, text=True, timeout=DEADLINE, env={**environment(), **starter.side.variables})
    return result.returncode, result.stdout + result.stderr


FAILED_STARTS = {  # what is in the repository, flags
    "a configuration that cannot be read": lambda r: make_identity(r, "bad").joinpath("config.pbtxt").write_text("}}}"),
    "a model without versions": lambda r: make_versionless(r, "versionless"),
    "a link to nothing": lambda r: link(r / "gone", "/no/such/directory"),
    "no model in any directory": lambda r: (shutil.rmtree(r / "m"), put_no_models(r)),
    "no repository": lambda r: shutil.rmtree(r),
    "a file for a repository": lambda r: (shutil.rmtree(r), r.write_text("x")),
}


@pytest.mark.parametrize("what", FAILED_STARTS)
def test_a_start_that_fails_has_status_1_and_says_why(start, grpc_side, repository, what):
    make_identity(repository, "m")
    FAILED_STARTS[what](repository)
    status, said = end_of(start, repository)
    assert status == 1
    if grpc_side is NEREID:
        assert {"a configuration that cannot be read": "config.pbtxt:1:1: Expected identifier",
                "a model without versions": "at least one version must be available under the version policy of model 'versionless'",
                "a link to nothing": "'gone' is a link to '/no/such/directory', which does not exist",
                "no model in any directory": "no directory of the model repositories is a model",
                "no repository": f"failed to open directory '{repository}': No such file or directory",
                "a file for a repository": f"failed to open directory '{repository}': Not a directory"}[what] in said, said


# ---- what is gone ----


def test_the_reason_why_a_model_cannot_be_loaded_again_is_told(start, grpc_side, repository):
    make_identity(repository, "m")
    server = start(repository, flags=["--load-model=m"])

    def failure():
        answer = server.ask("/v2/repository/models/m/load", b"")
        assert answer.status == 500 and server.ask("/v2/models/m/ready").status == 200
        text = json.loads(answer.body)["error"]
        words = "failed to load 'm', failed to poll from model repository"
        assert text.startswith(words)
        return text[len(words):] if grpc_side is NEREID else None

    shutil.move(repository / "m", repository.parent / "moved")
    assert failure() in (None, f": model not found in any model repository: in '{repository.name}': 'm' does not exist")
    (repository / "m").symlink_to("nowhere")
    assert failure() in (None, f": model not found in any model repository: in '{repository.name}': 'm' is a link to 'nowhere', which does not exist")
    (repository / "m").unlink()
    shutil.move(repository, repository.parent / "moved_too")
    assert failure() in (None, f": failed to read model repository '{repository}': failed to open directory '{repository}': No such file or directory")
    shutil.move(repository.parent / "moved_too", repository)
    shutil.move(repository.parent / "moved", repository / "m")
    (repository / "m/1/new").write_text("x")
    assert server.ask("/v2/repository/models/m/load", b"").status == 200


def test_a_python_model_whose_directory_is_gone_names_it_when_its_worker_has_to_start_again(start_server, repository):
    make_python(repository, "m", """
        def execute(self, requests):
            os._exit(3)
        """)
    server = start_server(repository)
    body = b'{"inputs":[{"name":"IN","shape":[1],"datatype":"INT32","data":[4]}]}'
    shutil.rmtree(repository / "m")
    assert "exited with status 3" in server.ask("/v2/models/m/infer", body).text
    said = f"No such file or directory: '{repository}/m/1/model.py'"
    wait_for("the reason", lambda: said in server.ask("/v2/models/m/infer", body).text)
    assert said in server.ask("/v2/repository/index", b"").text


def test_a_thousand_models_start_and_are_listed(start_server, repository):
    for i in range(1000):
        make_identity(repository, f"m{i:04}")
    server = start_server(repository, flags=EXPLICIT)
    with Client(server) as client:
        assert len(client.index()) == 1000
        assert client.load("m0999").status == 200 and client.index()[("m0999", "1")] == "READY"
