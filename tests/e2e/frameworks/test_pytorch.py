# SPDX-License-Identifier: Apache-2.0
"""The pytorch backend: compiled packages, TorchScript, what a model may be called, bad files, and the shim."""
import json
import os
import re
import shutil
import threading
import zipfile

import frameworks
import numpy as np
import proc
import pytest
import tritonclient.grpc as grpc
import tritonclient.http as triton
from conftest import BUILD, PATIENCE, Starter, link_backends, wait_for
from state_models import IDLE
from torch_cases import COMPILED, FILES, LINEAR, RESULT, X, Y, config, package, parameter, save, with_metadata
from tritonclient.utils import InferenceServerException

pytestmark = [frameworks.needs("pytorch"), pytest.mark.slow]
ROWS = np.array([[1, 2, 3, 4], [5, 6, 7, 8]], np.float32)
TYPES = {"float32": "FP32", "float64": "FP64", "int32": "INT32", "int64": "INT64", "bool": "BOOL", "object": "BYTES"}
EXPLICIT = ("--model-control-mode=explicit",)
SEQUENCE = f'sequence_batching {{ direct {{ }} {IDLE} %s }}'


def flags(cache, *more):
    return [*frameworks.settings("pytorch"), f"--backend-config=pytorch,cache-dir={cache}", *EXPLICIT, *more]


def values(name, data):
    data = np.asarray(data)
    tensor = triton.InferInput(name, data.shape, TYPES[str(data.dtype)])
    return tensor.set_data_from_numpy(data)


def good(repository):
    """The models that serve: name, then how it is made."""
    save(repository, "script", config([X], [Y], batch=8), "linear")
    save(repository, "any_name", config([("features", "FP32", [4])], [("scores", "FP32", [3])], batch=8), "linear")
    save(repository, "libtorch", config([X], [Y], "libtorch", 8), "linear")
    pair = [("left", "FP32", [-1, -1]), ("right", "FP32", [-1, -1])]
    both = [("sum", "FP32", [-1, -1]), ("difference", "FP32", [-1, -1])]
    save(repository, "by_name", config(pair[::-1], both), "two")
    save(repository, "by_index", config([("a__1", "FP32", [-1, -1]), ("a__0", "FP32", [-1, -1])],
                                        [("r__1", "FP32", [-1, -1]), ("r__0", "FP32", [-1, -1])]), "two")
    save(repository, "by_order", config([("minuend", "FP32", [-1, -1]), ("subtrahend", "FP32", [-1, -1])], both), "two")
    save(repository, "dictionary", config([("b", "FP32", [2]), ("a", "FP32", [2])], [("y", "FP32", [2])]), "dictionary")
    save(repository, "strings", config([("words", "STRING", [-1])], [("louder", "STRING", [-1]), ("lengths", "INT64", [-1])]), "strings")
    for name, more in (("own", ""), ("shared", parameter("ENABLE_WEIGHT_SHARING", "true"))):
        save(repository, f"counter_{name}", config([("x", "FP32", [1])], [("y", "FP32", [1])], more="instance_group { count: 2 kind: KIND_CPU }" + more), "counter")
    state = 'state { input_name: "s__1" output_name: "s__1" data_type: TYPE_FP32 dims: [ 1 ] initial_state { data_type: TYPE_FP32 dims: [ 1 ] zero_data: true name: "zero" } }'
    save(repository, "state", config([("x__0", "FP32", [1])], [("y__0", "FP32", [1])], more=SEQUENCE % state), "state")
    options = "".join(parameter(key, value) for key, value in {
        "DISABLE_OPTIMIZED_EXECUTION": "true", "INFERENCE_MODE": "false", "DISABLE_CUDNN": "true", "ENABLE_JIT_PROFILING": "false",
        "ENABLE_JIT_EXECUTOR": "true", "ENABLE_TENSOR_FUSER": "false", "ENABLE_CACHE_CLEANING": "true", "INTRA_OP_THREAD_COUNT": "1",
        "INTER_OP_THREAD_COUNT": "1"}.items())
    save(repository, "options", config([X], [Y], batch=8, more=options), "linear")
    save(repository, "compiled", config([COMPILED], [RESULT], "torch_aoti", 8, "instance_group { count: 2 kind: KIND_CPU }"), compiled="linear")
    save(repository, "compiled_deflated", config([("ARGS[0]", "FP32", [4])], [("RESULT", "FP32", [3])], "torch_aoti", 8),
         compiled="linear", compression=zipfile.ZIP_DEFLATED)
    save(repository, "unchecked", config([COMPILED], [RESULT], "torch_aoti", 0, parameter("CHECK_INPUTS", "false")).replace("[4]", "[-1, 4]").replace("[3]", "[-1, 3]"), compiled="linear")
    save(repository, "open", config([("INPUT__0", "FP32", [-1, -1])], [("OUTPUT__0", "FP32", [-1, 3])], "torch_aoti"), compiled="linear")
    shape = [2, 3]
    save(repository, "named", config([("KWARGS[scale]", "FP32", shape), ("ARGS[0][1]", "FP32", shape), ("INPUT__0", "FP32", shape), ("ARGS[1][k]", "FP32", shape)],
                                     [("RESULT[extra][1]", "FP32", shape), ("RESULT[sum]", "FP32", shape)], "torch_aoti"), compiled="named")
    # These load, and their answers are refused.
    save(repository, "scalar", config([("which", "FP32", [-1])], [Y]), "shapes")
    save(repository, "opaque", config([X], [("y", "FP32", [4])]), "tensors", code="return torch.to_mkldnn(x)")
    save(repository, "keeps", config([("x", "FP32", [4000])], [("y", "FP32", [-1])]), "counter", code="seen = self.seen\n    self.seen = torch.slice(x, 0, 1)\n    return seen")
    save(repository, "of_tensors", config([X], [("y", "FP32", [4])]), "tensors")
    save(repository, "other_type", config([X], [("y", "INT32", [3])], batch=8), "linear")
    save(repository, "no_output", config([X], [("y__3", "FP32", [3])], batch=8), "linear")
    save(repository, "wrong_type", config([("INPUT__0", "FP64", [4])], [RESULT], "torch_aoti", 8), compiled="linear")


def cut(data):
    return data[: len(data) // 2]


BAD = {  # models that do not load: configuration, how the file is made, and what is said
    "absent": (config([X], [Y]), {}, "unable to find '"),
    "absent_package": (config([COMPILED], [RESULT], "torch_aoti"), {}, "is unreachable or inaccessible."),
    "count": (config([X], [Y]), {"script": "two"}, "configuration expects 1 inputs, model provides 2"),
    "number": (config([X, ("rate", "INT64", [1])], [Y]), {"script": "number"}, "An input of type 'int' was detected in the model. Only a single input of type Dict(str, Tensor) or input(s) of type Tensor are supported."),
    "no_forward": (config([X], [Y]), {"script": "no_forward"}, "forward"),
    "type": (config([("x", "UINT16", [4])], [Y]), {"script": "linear"}, "unsupported datatype TYPE_UINT16 for input 'x' for model 'type'"),
    "strings_of_two": (config([("words", "STRING", [-1, 2])], [("louder", "STRING", [-1])]), {"script": "strings"},
                       "Triton only supports 1 dimensional List of String as input for 'words' for model 'strings_of_two'"),
    "index": (config([("a__0", "FP32", [4]), ("a__2", "FP32", [4])], [Y]), {"script": "two"}, "input 'a__2' refers to an index which doesn't exist"),
    "twice": (config([("a__1", "FP32", [4]), ("b__1", "FP32", [4])], [Y]), {"script": "two"}, "are both the model's 1."),
    "state_name": (config([("x__0", "FP32", [1])], [("y__0", "FP32", [1])], more=SEQUENCE % 'state { input_name: "s" output_name: "s__1" data_type: TYPE_FP32 dims: [ 1 ] }'),
                   {"script": "state"}, "state 's' does not follow the <name>__<index> naming convention."),
    "option": (config([X], [Y], more=parameter("INFERENCE_MODE", "perhaps")), {"script": "linear"}, "INFERENCE_MODE"),
    "strings_compiled": (config([("INPUT__0", "STRING", [-1])], [RESULT], "torch_aoti"), {"compiled": "linear"}, "unsupported datatype TYPE_STRING for input 'INPUT__0'"),
    "too_many": (config([COMPILED, ("INPUT__1", "FP32", [4])], [RESULT], "torch_aoti"), {"compiled": "linear"}, "configuration expects 2 inputs, model provides 1"),
    "isa": (config([COMPILED], [RESULT], "torch_aoti"), {"compiled": "linear", "edit": with_metadata(AOTI_CPU_ISA="VSX")},
            "was compiled for the instruction set VSX, which this processor does not have"),
    "machine": (config([COMPILED], [RESULT], "torch_aoti"), {"compiled": "linear", "edit": with_metadata(AOTI_MACHINE="riscv64")}, "was compiled for riscv64"),
    "device": (config([COMPILED], [RESULT], "torch_aoti"), {"compiled": "linear", "edit": with_metadata(AOTI_DEVICE_KEY="cuda")}, "was compiled for device 'cuda'"),
    "operators": (config([COMPILED], [RESULT], "torch_aoti"), {"compiled": "linear", "more": [("x.wrapper.json", '{"nodes": [{"name": "op"}]}')]}, "calls operators that have no C interface"),
    "metadata": (config([COMPILED], [RESULT], "torch_aoti"), {"compiled": "linear", "more": [("y_metadata.json", "{")]}, "is not JSON"),
    "no_object": (config([COMPILED], [RESULT], "torch_aoti"), {"compiled": "linear", "edit": lambda member, data: None if member.endswith(".so") else data},
                  "has no compiled model"),
    "two_objects": (config([COMPILED], [RESULT], "torch_aoti"), {"compiled": "linear", "more": [("other.so", "x")]}, "has two shared objects"),
    "no_library": (config([COMPILED], [RESULT], "torch_aoti"), {"compiled": "linear", "edit": lambda member, data: b"text" if member.endswith(".so") else data},
                   ", or cut off"),
    "cut_library": (config([COMPILED], [RESULT], "torch_aoti"), {"compiled": "linear", "edit": lambda member, data: cut(data) if member.endswith(".so") else data},
                    ", or cut off"),
}
FILES_OF_OTHERS = {  # the same for files that are no models: platform, bytes, and what is said
    "script_cut": ("pytorch_libtorch", lambda: cut((FILES / "linear.pt").read_bytes()), "failed to load model 'script_cut'"),
    "script_text": ("pytorch_libtorch", lambda: b"no model", "failed to load model 'script_text'"),
    "script_empty": ("pytorch_libtorch", lambda: b"", "failed to load model 'script_empty'"),
    "package_text": ("torch_aoti", lambda: b"no model" * 100, "is no package of a compiled model (.pt2)"),
    "package_empty": ("torch_aoti", lambda: b"", "is no package of a compiled model (.pt2)"),
    "package_script": ("torch_aoti", lambda: (FILES / "linear.pt").read_bytes(), "a file of TorchScript is for platform 'pytorch_libtorch'"),
}


def bad(repository):
    for name, (text, how, _) in BAD.items():
        save(repository, name, text, **how)
    for name, (platform, data, _) in FILES_OF_OTHERS.items():
        version = save(repository, name, config([COMPILED], [RESULT], platform))
        (version / ("model.pt2" if platform == "torch_aoti" else "model.pt")).write_bytes(data())
    version = save(repository, "package_cut", config([COMPILED], [RESULT], "torch_aoti"), compiled="linear")
    (version / "model.pt2").write_bytes(cut((version / "model.pt2").read_bytes()))
    version = save(repository, "script_package", config([X], [Y]))
    package("linear", version / "model.pt")


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    """The shim is compiled once for all tests."""
    return tmp_path_factory.mktemp("cache") / "shims"


@pytest.fixture(scope="module")
def server(nereid, backends, cache, tmp_path_factory):
    repository = tmp_path_factory.mktemp("repository")
    good(repository)
    bad(repository)
    starter = Starter(nereid, backends, tmp_path_factory.mktemp("server"))
    server = starter(repository, flags=flags(cache))
    server.repository = repository
    yield server
    starter.stop_all()


@pytest.fixture(scope="module")
def client(server):
    with triton.InferenceServerClient(server.url) as client:
        yield client


@pytest.fixture(scope="module")
def shim(client, cache):
    """The file that the first TorchScript has compiled."""
    client.load_model("script")
    client.unload_model("script")
    [shim] = cache.iterdir()
    return shim


@pytest.fixture
def loaded(client):
    """Loads models for a test."""
    names = []

    def load(*wanted):
        for name in wanted:
            client.load_model(name)
            names.append(name)
        return client
    yield load
    for name in names:
        client.unload_model(name)


def ask(client, model, **inputs):
    answer = client.infer(model, [values(name, data) for name, data in inputs.items()])
    return {output["name"]: answer.as_numpy(output["name"]) for output in answer.get_response()["outputs"]}


@pytest.mark.parametrize("model, name, output", [
    ("script", "x", "y"), ("any_name", "features", "scores"), ("libtorch", "x", "y"), ("options", "x", "y"),
    ("compiled", "INPUT__0", "OUTPUT__0"), ("compiled_deflated", "ARGS[0]", "RESULT")])
def test_a_linear_layer_answers(loaded, model, name, output):
    client = loaded(model)
    assert ask(client, model, **{name: ROWS})[output].tolist() == LINEAR
    assert ask(client, model, **{name: ROWS[1:]})[output].tolist() == LINEAR[1:]  # the package was compiled for two rows and more
    assert ask(client, model, **{name: ROWS[:1]})[output].tolist() == LINEAR[:1]


@pytest.mark.parametrize("model, left, right, total, difference", [
    ("by_name", "left", "right", "sum", "difference"), ("by_index", "a__0", "a__1", "r__0", "r__1"),
    ("by_order", "minuend", "subtrahend", "sum", "difference")])
def test_names_mean_arguments_and_results(server, loaded, model, left, right, total, difference):
    """The difference lies in memory column by column."""
    answer = ask(loaded(model), model, **{left: np.array([[3, 4], [5, 6]], np.float32), right: np.array([[1, 1], [2, 2]], np.float32)})
    assert answer[total].tolist() == [[4, 5], [7, 8]] and answer[difference].tolist() == [[2, 3], [3, 4]]
    assert ("'minuend' or previous input(s) are neither an input argument to the model 'by_order'" in server.log) == (model == "by_order")


def test_a_dictionary_is_made_of_all_inputs(loaded):
    answer = ask(loaded("dictionary"), "dictionary", a=np.array([1, 2], np.float32), b=np.array([10, 20], np.float32))
    assert answer["y"].tolist() == [12, 24]


def test_strings_go_in_and_come_out(loaded):
    words = np.array([b"one", b"", b"three and \xc3\xa4"], object)
    answer = ask(loaded("strings"), "strings", words=words)
    assert answer["louder"].tolist() == [b"ONE", b"", "THREE AND Ä".encode()] or answer["louder"].tolist() == [b"ONE", b"", b"THREE AND \xc3\xa4"]
    assert answer["lengths"].tolist()[:2] == [3, 0]


def test_a_compiled_model_takes_structures(loaded):
    one = np.ones((2, 3), np.float32)
    answer = ask(loaded("named"), "named", **{"INPUT__0": one, "ARGS[0][1]": one * 2, "ARGS[1][k]": one * 5, "KWARGS[scale]": one * 10})
    assert np.all(answer["RESULT[sum]"] == 30) and np.all(answer["RESULT[extra][1]"] == 10)


def test_what_a_module_keeps_of_an_input_stays_as_it_was(loaded):
    client = loaded("keeps")
    for step in range(5):
        kept = ask(client, "keeps", x=np.full(4000, step, np.float32))["y"]
        assert step == 0 or kept.tolist() == [step - 1] * 3999


def test_instances_have_modules_of_their_own_unless_they_share(loaded):
    client = loaded("counter_own", "counter_shared")
    seen = {name: sorted(ask(client, f"counter_{name}", x=np.zeros(1, np.float32))["y"].item() for _ in range(4)) for name in ("own", "shared")}
    assert seen["shared"] == [1, 2, 3, 4]
    assert sum(seen["own"]) <= 1 + 2 + 3 + 4


def test_state_is_kept(server, loaded):
    loaded("state")
    with grpc.InferenceServerClient(f"localhost:{server.grpc_port}") as client:
        for step, wanted in enumerate((1, 3, 6)):
            tensor = grpc.InferInput("x__0", [1], "FP32").set_data_from_numpy(np.array([step + 1], np.float32))
            answer = client.infer("state", [tensor], sequence_id=7, sequence_start=step == 0, sequence_end=step == 2, client_timeout=PATIENCE)
            assert answer.as_numpy("y__0").tolist() == [wanted]


@pytest.mark.parametrize("model, inputs, said", [
    ("scalar", {"which": np.zeros(2, np.float32)}, "output 'y' is a scalar which is not supported."),
    ("scalar", {"which": np.ones(2, np.float32)}, "PyTorch execute failure: "),
    ("of_tensors", {"x": ROWS[0]}, "output must be of type Tensor or List[str], received List[Tensor]"),
    ("opaque", {"x": ROWS[0]}, "output must be a dense tensor, received "),
    ("other_type", {"x": ROWS}, "configuration expects datatype TYPE_INT32 for output 'y', model provides TYPE_FP32"),
    ("no_output", {"x": ROWS}, "The output y__3 in the model configuration refers to an output index which doesn't exist. This model has 1 outputs"),
    ("wrong_type", {"INPUT__0": ROWS.astype(np.float64)}, "unmatched dtype"),
    ("open", {"INPUT__0": np.ones((2, 3), np.float32)}, "unmatched dim value at 1, expected: 4, but got: 3"),
    ("open", {"INPUT__0": np.ones((4000, 4), np.float32)}, "dim value is too large at 0"),
    ("open", {"INPUT__0": ROWS[:1]}, "dim value is too small at 0"),
])
def test_what_a_model_cannot_answer_is_an_error_of_that_request(loaded, model, inputs, said):
    client = loaded(model)
    for _ in range(2):
        with pytest.raises(InferenceServerException, match=re.escape(said)):
            ask(client, model, **inputs)


def test_a_package_runs_without_its_checks_where_that_is_asked_for(loaded):
    assert ask(loaded("unchecked"), "unchecked", INPUT__0=ROWS[:1])["OUTPUT__0"].tolist() == LINEAR[:1]


@pytest.mark.parametrize("model", [*BAD, *FILES_OF_OTHERS, "package_cut", "script_package"])
def test_what_is_no_model_is_refused_with_its_reason(server, client, model):
    said = {"package_cut": "is no package of a compiled model (.pt2)", "script_package": "failed to load model"}.get(model)
    said = said or (BAD.get(model) or FILES_OF_OTHERS[model])[2]
    with pytest.raises(InferenceServerException, match=re.escape(said)) as caught:
        client.load_model(model)
    assert "\n" not in str(caught.value).strip()


def test_compiled_models_do_not_pile_up(server, client):
    """What one thread has run stays mapped until that thread is gone and another package is closed: so much, however often it is loaded."""
    def mapped():
        return len({line.split()[4] for line in proc.read(server.process.pid, "maps").splitlines() if "/memfd:model" in line})  # inodes
    before = mapped()
    for _ in range(8):
        client.load_model("compiled")
        assert ask(client, "compiled", INPUT__0=ROWS)["OUTPUT__0"].tolist() == LINEAR
        client.unload_model("compiled")
    wait_for("their end", lambda: mapped() <= before + 3)


def test_a_package_that_is_exchanged_is_the_new_one(server, client):
    path = server.repository / "named/1/model.pt2"
    client.load_model("compiled")
    client.load_model("named")  # the same descriptor's number as others had before
    client.unload_model("compiled")
    client.load_model("compiled")
    assert ask(client, "compiled", INPUT__0=ROWS)["OUTPUT__0"].tolist() == LINEAR
    assert path.exists()
    client.unload_model("compiled")
    client.unload_model("named")


@pytest.mark.parametrize("model, name, output", [("script", "x", "y"), ("compiled", "INPUT__0", "OUTPUT__0")])
def test_many_at_once_get_their_own_answers(server, loaded, model, name, output):
    loaded(model)
    wrong = []

    def work(number):
        with triton.InferenceServerClient(server.url) as own:
            for i in range(20):
                data = np.full((1 + i % 3, 4), number, np.float32)
                answer = ask(own, model, **{name: data})[output]
                if not np.array_equal(answer, data @ np.arange(12.0).reshape(3, 4).T + np.arange(3.0)):
                    wrong.append((number, i, answer))
    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


WEIGHTS = bytes(7 * i & 0xFF for i in range(10000))  # as tests/fakes/torch_package.c wants them


def save_fake(repository, name, object, weights):
    """A package with a shared object of the tests' own, which gives back its input, and with weights beside it."""
    version = save(repository, name, config([COMPILED], [("OUTPUT__0", "FP32", [4])], "torch_aoti", 8, "instance_group { count: 2 kind: KIND_CPU }"))
    with zipfile.ZipFile(version / "model.pt2", "w") as package:
        package.write(BUILD / f"tests/fakes/{object}.so", "model/data/aotinductor/model/m.wrapper.so")
        if weights is not None:
            package.writestr("model/data/aotinductor/model/m_weights.blob", weights)


def test_weights_of_a_package_may_be_a_file_of_their_own(start_server, repository, cache):
    save_fake(repository, "beside", "torch_package", WEIGHTS)
    save_fake(repository, "larger", "torch_package", WEIGHTS + b"more")
    save_fake(repository, "other", "torch_package", WEIGHTS[:5000] + bytes(5000))
    server = start_server(repository, flags=flags(cache))
    with triton.InferenceServerClient(server.url) as client:
        for model in ("beside", "larger", "other"):
            client.load_model(model)
        for rows in (1, 2, 1):
            assert ask(client, "beside", INPUT__0=ROWS[:rows])["OUTPUT__0"].tolist() == ROWS[:rows].tolist()
        assert ask(client, "larger", INPUT__0=ROWS)["OUTPUT__0"].tolist() == ROWS.tolist()
        with pytest.raises(InferenceServerException, match="PyTorch execute failure: weight 5000 is 0"):
            ask(client, "other", INPUT__0=ROWS)
        client.unload_model("beside")
        client.load_model("beside")
        assert ask(client, "beside", INPUT__0=ROWS)["OUTPUT__0"].tolist() == ROWS.tolist()


@pytest.mark.parametrize("object, weights, said", [
    ("torch_package", WEIGHTS[:-1], "has 9999 bytes of weights, its shared object takes 10000"),
    ("torch_package", b"", "has weights that its shared object does not take"),
    ("torch_package", b"\1" + WEIGHTS[1:], "the first weight is 1"),
    ("torch_package_bare", WEIGHTS, "has weights that its shared object does not take"),
    ("fault_injector", None, "its shared object is no compiled model of PyTorch's: it has no AOTInductorModelContainerCreateWithDevice"),
], ids=["too few", "none", "refused", "not wanted", "another library"])
def test_weights_that_do_not_fit_are_refused(start_server, repository, cache, object, weights, said):
    save_fake(repository, "fake", object, weights)
    assert said in failure_of(start_server(repository, flags=flags(cache)), "fake")


def test_the_tables_and_the_log_name_pytorch(server, loaded):
    loaded("compiled")
    assert re.search(r"using PyTorch \d+\.\d+\S* from \S*libtorch_cpu\.so", server.log)


def test_the_log_says_what_the_backend_cannot_read_off_a_model(server, loaded):
    loaded("any_name")
    for said in ("skipping model configuration auto-complete for 'any_name': not supported for pytorch backend",
                 "input 'features' or previous input(s) are neither an input argument to the model 'any_name' nor do they follow the <name>__<index> naming convention. "
                 "Falling back to enforcing strict ordering from model configuration."):
        assert said in server.log


# ---- the shim ----

def own_backends(directory, build=BUILD):
    """A directory of backends in which pytorch's is a copy, so that files can be put beside it."""
    shutil.copytree(build / "backends/pytorch", directory / "pytorch")
    return link_backends(directory, build)


@pytest.fixture
def scripts(repository):
    save(repository, "script", config([X], [Y], batch=8), "linear")
    save(repository, "compiled", config([COMPILED], [RESULT], "torch_aoti", 8), compiled="linear")
    return repository


def failure_of(server, model):
    answer = server.ask(f"/v2/repository/models/{model}/load", body=b"{}", method="POST")
    return None if answer.status == 200 else json.loads(answer.body)["error"]


def make_compiler(path, script):
    path.write_text(f"#!/bin/sh\n{script}")
    path.chmod(0o755)


def gives(shim):
    """The end of a compiler's script that gives what was compiled before."""
    return f"while [ \"$1\" != -o ]; do shift; done\ncp '{shim}' \"$2\"\n"


def test_the_shim_is_this_users_alone(shim):
    assert re.fullmatch(r"libnereid_torch-.*-[0-9a-f]{16}\.so", shim.name)
    assert shim.stat().st_mode & 0o777 == 0o600 and shim.parent.stat().st_mode & 0o777 == 0o700


def test_without_a_compiler_both_ways_are_said(start_server, scripts, tmp_path):
    server = start_server(scripts, flags=flags(tmp_path / "empty", "--backend-config=pytorch,compiler=/nowhere/c++"))
    said = failure_of(server, "script")
    for part in ("Install a C++ compiler (g++)", "compiler=PATH", "cache-dir=DIR", "beside the backend", 'runtime "model.py"', "/nowhere/c++: no such program"):
        assert part in said
    assert failure_of(server, "compiled") is None  # needs none
    assert list((tmp_path / "empty").iterdir()) == []


def test_a_compiler_that_fails_is_quoted(start_server, scripts, tmp_path):
    compiler = tmp_path / "c++"
    make_compiler(compiler, "echo 'first line' >&2\necho 'shim.cc:1: error: no torch here' >&2\nexit 1\n")
    server = start_server(scripts, flags=flags(tmp_path / "empty", f"--backend-config=pytorch,compiler={compiler}"))
    assert "shim.cc:1: error: no torch here" in failure_of(server, "script")
    assert list((tmp_path / "empty").iterdir()) == []


def test_the_second_of_the_usual_compilers_does_where_the_first_is_missing(start_server, scripts, shim, tmp_path):
    """Nobody names one. This one gives what was compiled before."""
    compiler = tmp_path / "bin/g++"
    compiler.parent.mkdir()
    make_compiler(compiler, f"PATH=/usr/bin:/bin\n{gives(shim)}")
    server = start_server(scripts, variables={"PATH": compiler.parent}, flags=[
        f"--backend-config=pytorch,library={frameworks.library('pytorch')}", f"--backend-config=pytorch,cache-dir={tmp_path / 'found'}", *EXPLICIT])
    assert failure_of(server, "script") is None
    assert [path.name for path in (tmp_path / "found").iterdir()] == [shim.name]


def test_a_library_that_the_loader_knows_by_name_has_its_files_beside_it(start_server, scripts, shim):
    library = frameworks.library("pytorch")
    server = start_server(scripts, variables={"LD_LIBRARY_PATH": library.parent}, flags=[
        "--backend-config=pytorch,library=libtorch_cpu.so", f"--backend-config=pytorch,cache-dir={shim.parent}", "--backend-config=pytorch,compiler=/nowhere/c++", *EXPLICIT])
    assert failure_of(server, "script") is None  # from the cache, whose names have PyTorch's version


def test_the_loaders_reason_is_said(start_server, scripts, tmp_path):
    """Without what lies beside it."""
    alone = tmp_path / "libtorch_cpu.so"
    alone.symlink_to(frameworks.library("pytorch"))
    server = start_server(scripts, flags=[f"--backend-config=pytorch,library={alone}", *EXPLICIT])
    assert re.search(r"lib\w+\.so[.\d]*: cannot open shared object file", failure_of(server, "compiled"))


@pytest.mark.parametrize("mode", [0o777, 0o770])
def test_a_cache_that_others_may_write_is_left_alone(start_server, scripts, shim, tmp_path, mode):
    directory = tmp_path / "open"
    directory.mkdir()
    shutil.copy(shim, directory)
    directory.chmod(mode)
    server = start_server(scripts, flags=flags(directory, "--backend-config=pytorch,compiler=/nowhere/c++"))
    assert f"'{directory}': may be written by others" in failure_of(server, "script")


def test_a_prebuilt_shim_needs_no_compiler(nereid, shim, scripts, tmp_path_factory, tmp_path):
    directory = own_backends(tmp_path_factory.mktemp("own"))
    prebuilt = directory / "pytorch/libnereid_torch-cxx11.so"
    prebuilt.write_bytes(b"no library")
    starter = Starter(nereid, directory, tmp_path)
    own = starter(scripts, flags=flags(tmp_path / "empty", "--backend-config=pytorch,compiler=/nowhere/c++"))
    assert f"'{prebuilt}': " in failure_of(own, "script")
    shutil.copy(shim, prebuilt)
    assert failure_of(own, "script") is None
    starter.stop_all()
    assert list((tmp_path / "empty").iterdir()) == []


def test_two_servers_may_compile_at_once(nereid, backends, scripts, tmp_path, shim):
    """A compiler that waits for the other one, and then gives what was compiled before."""
    compiler, begun = tmp_path / "c++", tmp_path / "begun"
    begun.mkdir()
    make_compiler(compiler, f"touch {begun}/$$\nwhile [ $(ls {begun} | wc -l) -lt 2 ]; do sleep 0.05; done\n{gives(shim)}")
    directories = [tmp_path / name for name in "ab"]
    for directory in directories:
        directory.mkdir()
    starters = [Starter(nereid, backends, directory) for directory in directories]
    servers = [starter(scripts, flags=flags(tmp_path / "both", f"--backend-config=pytorch,compiler={compiler}")) for starter in starters]
    said = {}
    threads = [threading.Thread(target=lambda s=server: said.__setitem__(s.http_port, s.ask("/v2/repository/models/script/load", b"{}", "POST").status)) for server in servers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for starter in starters:
        starter.stop_all()
    assert list(said.values()) == [200, 200]
    assert [path.name for path in (tmp_path / "both").iterdir()] == [shim.name]


# ---- models in Python ----

@pytest.mark.skipif("NEREID_TORCH_PYTHON" not in os.environ, reason="NEREID_TORCH_PYTHON names a Python with all of PyTorch (5 GB)")
def test_a_module_in_python_is_run_by_workers(start_server, repository):
    version = save(repository, "module", config([X], [Y], "", 8, 'runtime: "model.py"'), "linear")
    (version / "model.py").write_text(
        "import torch\nfrom torch.nn import Linear\n\n\nclass Mine(torch.nn.Module):\n    def forward(self, x):\n        return x[:, :3] * 2\n")
    (version / "model.pt").unlink()
    save(repository, "script", config([X], [Y], "", 8, 'runtime: "model.py"'), "linear")
    server = start_server(repository, flags=[f"--backend-config=python,python-executable={os.environ['NEREID_TORCH_PYTHON']}"])
    with triton.InferenceServerClient(server.url) as client:
        assert ask(client, "module", x=ROWS)["y"].tolist() == [[2, 4, 6], [10, 12, 14]]
        assert ask(client, "script", x=ROWS)["y"].tolist() == LINEAR
