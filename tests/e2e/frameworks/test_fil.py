# SPDX-License-Identifier: Apache-2.0
"""The fil backend: tree models answer as the libraries that made them (scripts/make_tree_models.py), parameters, bad files."""
import contextlib
import json
import pathlib
import shutil
import struct

import frameworks
import numpy as np
import pytest
import tritonclient.http as triton
from conftest import DEADLINE, ROOT
from python_sides import SIDES, SideStarter

MODELS = ROOT / "tests/models/trees"
ANSWERS = json.loads((MODELS / "answers.json").read_text())
ROWS = np.array([[np.nan if v is None else v for v in row] for row in ANSWERS["rows"]], np.float32)
FILES = {"xgboost": "xgboost.model", "xgboost_json": "xgboost.json", "xgboost_ubj": "xgboost.ubj", "lightgbm": "model.txt", "treelite_checkpoint": "checkpoint.tl"}

pytestmark = frameworks.needs("fil")


def config(parameters, columns, features=5, batch=64, more=""):
    listed = "".join(f'parameters {{ key: "{key}" value {{ string_value: "{value}" }} }}\n' for key, value in parameters.items())
    return (f'backend: "fil"\nmax_batch_size: {batch}\ninput {{ name: "input__0" data_type: TYPE_FP32 dims: [ {features} ] }}\n'
            f'output {{ name: "output__0" data_type: TYPE_FP32 dims: [ {columns} ] }}\n{listed}{more}')


def place(repository, name, file, text=None):
    """The model of that file, where Triton looks for its type."""
    kind = ANSWERS["models"][file]["type"]
    (repository / name / "1").mkdir(parents=True)
    shutil.copy(MODELS / file, repository / name / "1" / FILES[kind])
    if text is not None:
        (repository / name / "config.pbtxt").write_text(text)
    return repository / name


def add(repository, name, file, columns, **parameters):
    return place(repository, name, file, config({"model_type": ANSWERS["models"][file]["type"], **parameters}, columns))


def flags():
    return frameworks.settings("fil")


def ask(client, name, rows, **options):
    tensor = triton.InferInput("input__0", rows.shape, "FP32").set_data_from_numpy(rows)
    return client.infer(name, [tensor], **options).as_numpy("output__0")


def rows_for(file):
    return np.nan_to_num(ROWS) if ANSWERS["models"][file].get("filled") else ROWS


def answers(file):
    return np.array(ANSWERS["models"][file]["values"], np.float32)


@contextlib.contextmanager
def serving(start, repository, **options):
    server = start(repository, flags=[*flags(), *options.pop("flags", [])], **options)
    with triton.InferenceServerClient(server.url, network_timeout=DEADLINE) as client:
        yield client


@pytest.fixture(params=["nereid", "triton"])
def start_side(request, tmp_path):
    """Our backend in our server, and in NVIDIA's."""
    if request.param == "nereid":
        starter = request.getfixturevalue("start_server")
        yield starter
        return
    side = SIDES["nereid-in-triton"]
    starter = SideStarter(side, side.backends(tmp_path), tmp_path)
    yield lambda repository, flags: starter(repository, flags=[*flags, "--load-model=*"])
    starter.stop_all()


def test_models_answer_as_the_libraries_that_made_them(start_side, repository):
    """Probabilities, classes and numbers of each type of file; shapes as Triton's backend has them."""
    for file, model in ANSWERS["models"].items():
        name = file.replace(".", "_")
        if "number" in file or "regression" in file:
            add(repository, name, file, 1, is_classifier="false")
            continue
        columns = 1 if "labels" in model else np.shape(model["values"])[1]
        add(repository, f"{name}_label", file, 1, is_classifier="true", threshold="0.5")
        if "labels" not in model:
            add(repository, f"{name}_proba", file, columns, is_classifier="true", predict_proba="true", threshold="0.5")
    with serving(start_side, repository) as client:
        for file, model in ANSWERS["models"].items():
            name, rows = file.replace(".", "_"), rows_for(file)
            if "labels" in model:
                assert ask(client, f"{name}_label", rows).tolist() == [row[0] for row in model["labels"]]
                continue
            wanted = answers(file)
            shaped = wanted[:, 0] if wanted.shape[1] == 1 else wanted
            if "number" in file or "regression" in file:
                np.testing.assert_allclose(ask(client, name, rows), shaped, atol=1e-6)
                continue
            np.testing.assert_allclose(ask(client, f"{name}_proba", rows), shaped, atol=1e-6)
            labels = wanted.argmax(1) if wanted.shape[1] > 1 else wanted[:, 0] > 0.5
            assert ask(client, f"{name}_label", rows).tolist() == labels.astype(float).tolist()


def test_the_other_class_is_there_where_it_is_configured(start_side, repository):
    add(repository, "m", "xgboost_binary.ubj", 2, is_classifier="true", predict_proba="true", threshold="0.5")
    with serving(start_side, repository) as client:
        wanted = answers("xgboost_binary.ubj")[:, 0]
        np.testing.assert_allclose(ask(client, "m", ROWS), np.stack([1 - wanted, wanted], 1), atol=1e-6)


def test_an_objective_of_classes_has_probabilities(start_server, repository):
    file = "xgboost_softmax.json"
    add(repository, "m", file, 3, is_classifier="true", predict_proba="true")
    with serving(start_server, repository) as client:
        found = ask(client, "m", ROWS)
        np.testing.assert_allclose(found.sum(1), 1, atol=1e-6)
        assert found.argmax(1).tolist() == [row[0] for row in ANSWERS["models"][file]["labels"]]


def load(server, name):
    """None, or why the model does not load."""
    answer = server.ask(f"/v2/repository/models/{name}/load", b"")
    return None if answer.status == 200 else json.loads(answer.body)["error"]


def starts_empty(start_server, repository):
    repository.mkdir(exist_ok=True)
    return start_server(repository, flags=[*flags(), "--model-control-mode=explicit"])


def test_parameters(start_server, repository):
    """Names, defaults and words are those of Triton's backend."""
    wanted = answers("xgboost_binary.ubj")[:, 0]
    add(repository, "low", "xgboost_binary.ubj", 1, is_classifier="true", threshold="0.3")
    add(repository, "high", "xgboost_binary.ubj", 1, is_classifier="true", threshold="0.7", cpu_nthread="1", chunk_size="4", layout="layered", transfer_threshold="2")
    add(repository, "unsaid", "xgboost_binary.ubj", 1, cpu_nthread="many")
    add(repository, "old", "xgboost_binary.ubj", 1, output_class="false", is_classifier="true", storage_type="AUTO", algo="ALGO_AUTO", blocks_per_sm="0",
        threads_per_tree="1", use_experimental_optimizations="true")
    server = starts_empty(start_server, repository)
    for name in ("low", "high", "unsaid", "old"):
        assert load(server, name) is None
    with triton.InferenceServerClient(server.url, network_timeout=DEADLINE) as client:
        assert ask(client, "low", ROWS).tolist() == (wanted > 0.3).tolist() != (wanted > 0.7).tolist()
        assert ask(client, "high", ROWS).tolist() == (wanted > 0.7).tolist()
        assert ask(client, "unsaid", ROWS).tolist() == (wanted > 0.5).tolist()
        np.testing.assert_allclose(ask(client, "old", ROWS), wanted, atol=1e-6)
    for name, instead in (("algo", "layout"), ("threads_per_tree", "chunk_size"), ("output_class", "is_classifier")):
        assert f"The `{name}` parameter has been removed in 25.09 release. Use `{instead}` instead." in server.log
    for name in ("storage_type", "blocks_per_sm"):
        assert f"The `{name}` parameter has been removed in 25.09 release." in server.log
    assert "model 'unsaid': parameter 'is_classifier' is not given: the model's file says true" in server.log


def test_wrong_parameters_are_refused_in_tritons_words(start_server, repository):
    file = "xgboost_binary.ubj"
    cases = {
        "type": ({"model_type": "pickle"}, 1, "pickle not recognized as a valid serialization format."),
        "classifier": ({"is_classifier": "yes"}, 1, "Expected 'true' or 'false' for parameter 'is_classifier', got: 'yes'"),
        "proba": ({"predict_proba": "1"}, 1, "Expected 'true' or 'false' for parameter 'predict_proba', got: '1'"),
        "threshold": ({"threshold": "half"}, 1, "Bad input for parameter threshold"),
        "columns": ({"is_classifier": "true"}, 2, "configuration expects 2 values of 'output__0' for each row, model provides 1, the class"),
    }
    for name, (parameters, columns, _) in cases.items():
        add(repository, name, file, columns, **({"is_classifier": "true"} | parameters))
    place(repository, "features", file, config({"model_type": "xgboost_ubj", "is_classifier": "true"}, 1, features=6))
    place(repository, "gpu", file, config({"model_type": "xgboost_ubj", "is_classifier": "true"}, 1, more="instance_group { kind: KIND_GPU }"))
    place(repository, "shap", file, config({"model_type": "xgboost_ubj", "is_classifier": "true"}, 1,
                                           more='output { name: "treeshap_output" data_type: TYPE_FP32 dims: [ 6 ] }'))
    place(repository, "type64", file, config({"model_type": "xgboost_ubj", "is_classifier": "true"}, 1).replace("TYPE_FP32", "TYPE_FP64", 1))
    server = starts_empty(start_server, repository)
    for name, (_, _, text) in cases.items():
        assert text in load(server, name)
    assert "the model expects 2 dimensions (shape [-1,5])" in load(server, "features")
    assert "KIND_GPU" in load(server, "gpu")
    assert "output 'treeshap_output' is not supported" in load(server, "shap")
    assert "configuration expects datatype TYPE_FP64 for input 'input__0', model provides TYPE_FP32" in load(server, "type64")


def test_unknown_fields_are_allowed_where_that_is_asked(start_server, repository):
    file = "xgboost_binary.json"
    for name, more in (("strict", {}), ("lax", {"xgboost_allow_unknown_field": "true"})):
        path = add(repository, name, file, 1, is_classifier="false", **more) / "1/xgboost.json"
        path.write_text(path.read_text().replace('"learner":{', '"learner":{"of_another_version":[1,{"a":2}],', 1))
    server = starts_empty(start_server, repository)
    assert "of_another_version" in load(server, "strict")
    assert load(server, "lax") is None
    with triton.InferenceServerClient(server.url, network_timeout=DEADLINE) as client:
        np.testing.assert_allclose(ask(client, "lax", ROWS), answers(file)[:, 0], atol=1e-6)


def test_files_that_are_no_models_are_refused_in_one_line(start_server, repository):
    """Cut off, of another type, empty, not there. What is loaded goes on."""
    add(repository, "good", "xgboost_binary.ubj", 1, is_classifier="false")
    several = {"softprob", "softmax", "multi"}
    for file, model in ANSWERS["models"].items():
        name = file.replace(".", "_")
        if any(word in file for word in several) or "forest" in file:
            continue
        path = add(repository, f"cut_{name}", file, 1, is_classifier="false") / "1" / FILES[model["type"]]
        path.write_bytes(path.read_bytes()[: path.stat().st_size // (5 if model["type"] == "lightgbm" else 2)])  # parameters follow its trees
        path = add(repository, f"other_{name}", file, 1, is_classifier="false") / "1" / FILES[model["type"]]
        path.write_bytes((MODELS / ("lightgbm_binary.txt" if model["type"] != "lightgbm" else "forest.tl")).read_bytes())
        (add(repository, f"empty_{name}", file, 1, is_classifier="false") / "1" / FILES[model["type"]]).write_bytes(b"")
    (add(repository, "absent", "xgboost_binary.ubj", 1, is_classifier="false") / "1/xgboost.ubj").unlink()
    server = starts_empty(start_server, repository)
    assert load(server, "good") is None
    bad = sorted(path.name for path in repository.iterdir() if path.name.startswith(("cut", "other", "empty")))
    assert len(bad) > 12
    for name in bad:
        why = load(server, name)
        assert why is not None, name
        assert not name.startswith("other") or "the file looks like" in why
        assert f"failed to load model '{name}' from '1/" in why and why.count("\n") == 1 and "/project/" not in why, why
    assert "unable to find" in load(server, "absent") and "1/xgboost.ubj" in load(server, "absent")
    with triton.InferenceServerClient(server.url, network_timeout=DEADLINE) as client:
        np.testing.assert_allclose(ask(client, "good", ROWS), answers("xgboost_binary.ubj")[:, 0], atol=1e-6)
    assert "Check failed" not in "".join(line for line in server.log.splitlines() if not line[:1] in "IWE|+")


def test_a_lightgbm_file_without_its_last_trees_is_no_model(start_server, repository):
    """treelite takes what is there."""
    data = (MODELS / "lightgbm_regression.txt").read_bytes()
    end = data.index(b"end of trees")
    for size in range(data.index(b"Tree=1") - 40, end, 97):
        (add(repository, f"m{size}", "lightgbm_regression.txt", 1, is_classifier="false") / "1/model.txt").write_bytes(data[:size])
    (add(repository, "whole", "lightgbm_regression.txt", 1, is_classifier="false") / "1/model.txt").write_bytes(data[:end])
    server = starts_empty(start_server, repository)
    names = sorted(path.name for path in repository.iterdir() if path.name != "whole")
    assert len(names) > 4
    for name in names:
        assert f"failed to load model '{name}' from '1/model.txt': the file is cut off" in load(server, name)
    assert load(server, "whole") is None


def test_a_damaged_checkpoint_ends_nothing(start_server, repository):
    """It reads well, and leads in circles, to features that there are not, or out of the tree: treelite follows it without a look."""
    whole = (MODELS / "forest.tl").read_bytes()
    names = []
    for field, (at, count) in ANSWERS["models"]["forest.tl"]["places"].items():
        for node in range(count):
            for value in (-5, 0, 1, 70000):
                data = bytearray(whole)
                data[at + 4 * node : at + 4 * node + 4] = value.to_bytes(4, "little", signed=True)
                if data != whole:
                    names.append(f"{field}_{node}_{value}")
                    (add(repository, names[-1], "forest.tl", 3, is_classifier="true", predict_proba="true") / "1/checkpoint.tl").write_bytes(data)
    server = starts_empty(start_server, repository)
    refused = {name: load(server, name) for name in names}
    for reason in ("nodes of a tree are in a circle or not there", "a node asks for a feature that there is not"):
        assert any(why is not None and f"the file is damaged: {reason}" in why for why in refused.values())
    assert all(why is not None for name, why in refused.items() if name.startswith("cleft") and name.endswith("_1"))  # two have that child
    assert refused["cleft_0_0"] is not None and refused["cright_0_70000"] is not None and refused["split_index_0_70000"] is not None
    with triton.InferenceServerClient(server.url, network_timeout=DEADLINE) as client:
        for name in (name for name in names if refused[name] is None):
            assert name.startswith("split_index") or name.split("_")[1] != "0", name  # another feature, or a leaf's other half
            ask(client, name, rows_for("forest.tl"))


def test_a_size_that_is_damaged_is_found_before_memory_is_asked_for(start_server, repository):
    """treelite would take gigabytes for an array, or make trees without end."""
    whole = (MODELS / "forest.tl").read_bytes()
    cleft = ANSWERS["models"]["forest.tl"]["places"]["cleft"][0]
    for place_of, at in {"trees": 14, "classes": 32, "postprocessor": 100, "children": cleft - 8}.items():
        for power in (33, 62):
            data = whole[:at] + (1 << power).to_bytes(8, "little") + whole[at + 8 :]
            (add(repository, f"{place_of}_{power}", "forest.tl", 1, is_classifier="true") / "1/checkpoint.tl").write_bytes(data)
    (add(repository, "short", "forest.tl", 1, is_classifier="true") / "1/checkpoint.tl").write_bytes(whole[:-1])
    (add(repository, "longer", "forest.tl", 1, is_classifier="true") / "1/checkpoint.tl").write_bytes(whole + b"more")
    server = starts_empty(start_server, repository)
    for name in sorted(path.name for path in repository.iterdir() if path.name != "longer"):
        assert f"failed to load model '{name}' from '1/checkpoint.tl': the file is cut off, or a size in it is damaged" in load(server, name)
    assert load(server, "longer") is None


def old_checkpoint(task, classes):
    """As treelite 3.9 wrote them: one tree, which is a leaf of 0.25."""
    header = struct.pack("<3i2BQi2BBBxxII256s3fi", 3, 9, 1, 2, 2, 1, 5, task, 0, 0, task, classes, 1, b"identity", 1, 1, 0, 0)
    node = struct.pack("<2iIfQ2dbb4B2x", -1, -1, 0, 0.25, 0, 0, 0, 0, 0, 0, 0, 0, 0)
    return header + struct.pack("<i?Q", 1, False, 1) + node + struct.pack("<QQQQQQQQQii", 0, 1, 0, 1, 0, 0, 2, 0, 0, 0, 0)


def test_an_old_checkpoint(start_server, repository):
    """One without classes has treelite divide by zero."""
    for name, data in {"m": old_checkpoint(0, 1), "none": old_checkpoint(1, 0)}.items():
        (add(repository, name, "forest.tl", 1, is_classifier="false") / "1/checkpoint.tl").write_bytes(data)
    server = starts_empty(start_server, repository)
    assert "or a size in it is damaged" in load(server, "none")
    assert load(server, "m") is None
    with triton.InferenceServerClient(server.url, network_timeout=DEADLINE) as client:
        assert ask(client, "m", ROWS[:2]).tolist() == [0.25, 0.25]


def test_a_checkpoint_of_a_newer_version_is_refused(start_server, repository):
    path = add(repository, "newer", "forest.tl", 1, is_classifier="false") / "1/checkpoint.tl"
    path.write_bytes(struct.pack("<i", 9) + path.read_bytes()[4:])
    reason = load(starts_empty(start_server, repository), "newer")
    assert "version" in reason and "9." in reason and "\n" not in reason.strip(), reason


def places_of_vectors(data, cleft):
    """Of the first tree in forest.tl: how many nodes it has, and where the arrays are that say which values a leaf has."""
    nodes = int.from_bytes(data[cleft - 8 : cleft], "little")
    at = cleft - 8
    for size in (4, 4, 4, 1, 8, 8, 1, 1, 8):  # cleft, ..., leaf_vector
        at += 8 + size * int.from_bytes(data[at : at + 8], "little")
    return nodes, at + 8, at + 16 + 8 * nodes


def test_values_of_leaves_that_are_not_there(start_server, repository):
    """In a model whose leaves have one value each, as its header says, too."""
    data = bytearray((MODELS / "forest.tl").read_bytes())
    nodes, begin, end = places_of_vectors(data, ANSWERS["models"]["forest.tl"]["places"]["cleft"][0])
    data[56:60] = (1).to_bytes(4, "little")  # leaf_vector_shape
    data[88:100] = bytes(12)  # class_id
    for node in range(nodes):
        data[begin + 8 * node : begin + 8 * node + 8] = (1 << 40).to_bytes(8, "little")
        data[end + 8 * node : end + 8 * node + 8] = ((1 << 40) + 1).to_bytes(8, "little")
    (add(repository, "m", "forest.tl", 1, is_classifier="true") / "1/checkpoint.tl").write_bytes(data)
    server = starts_empty(start_server, repository)
    assert "the file is damaged: a leaf has values that are not there" in load(server, "m")


def test_batches_of_several_requests(start_server, repository):
    """Each gets its rows; one of another width fails alone."""
    place(repository, "m", "xgboost_softprob.ubj", config({"model_type": "xgboost_ubj", "is_classifier": "true", "predict_proba": "true"}, 3,
                                                          more="dynamic_batching { max_queue_delay_microseconds: 100000 }"))
    place(repository, "open", "xgboost_binary.ubj", config({"model_type": "xgboost_ubj", "is_classifier": "false"}, 1).replace("[ 5 ]", "[ -1 ]"))
    wanted = answers("xgboost_softprob.ubj")
    server = start_server(repository, flags=flags())
    with triton.InferenceServerClient(server.url, network_timeout=DEADLINE, concurrency=8) as client:
        calls = []
        for i in range(8):
            rows = ROWS[i : i + 1 + i % 3]
            calls.append((i, client.async_infer("m", [triton.InferInput("input__0", rows.shape, "FP32").set_data_from_numpy(rows)])))
        for i, call in calls:
            np.testing.assert_allclose(call.get_result().as_numpy("output__0"), wanted[i : i + 1 + i % 3], atol=1e-6)
        np.testing.assert_allclose(ask(client, "open", ROWS), answers("xgboost_binary.ubj")[:, 0], atol=1e-6)
        with pytest.raises(triton.InferenceServerException, match="input 'input__0' has 4 features, the model has 5"):
            ask(client, "open", ROWS[:, :4].copy())


def test_many_rows_are_shared_by_threads(start_server, repository):
    add(repository, "m", "xgboost_softprob.ubj", 3, is_classifier="true", predict_proba="true")
    path = repository / "m/config.pbtxt"
    path.write_text(path.read_text().replace("max_batch_size: 64", "max_batch_size: 100000"))
    with serving(start_server, repository) as client:
        np.testing.assert_allclose(ask(client, "m", np.tile(ROWS, (500, 1))), np.tile(answers("xgboost_softprob.ubj"), (500, 1)), atol=1e-6)


def test_the_shape_of_tritons_backend_is_no_mismatch(start_server, repository):
    """[rows] where [rows, 1] is configured: also where outputs must be as configured."""
    add(repository, "m", "xgboost_number.ubj", 1, is_classifier="false")
    server = start_server(repository, flags=[*flags(), "--strict-outputs"])
    with triton.InferenceServerClient(server.url, network_timeout=DEADLINE) as client:
        assert ask(client, "m", ROWS).shape == (20,) and ask(client, "m", ROWS[:1]).shape == (1,)
    assert "nereid_output_mismatch_total" not in server.ask("/metrics", port=server.metrics_port).text


def test_what_is_not_configured_is_read_off_the_model(start_server, repository):
    """Triton wants all of it."""
    place(repository, "m", "xgboost_softprob.ubj", 'backend: "fil"\nparameters { key: "predict_proba" value { string_value: "true" } }')
    place(repository, "n", "lightgbm_regression.txt", 'backend: "fil"')
    with serving(start_server, repository) as client:
        config = client.get_model_config("m")
        assert config["max_batch_size"] == 4
        assert [(t["name"], t["data_type"], t["dims"]) for t in config["input"] + config["output"]] == [
            ("input__0", "TYPE_FP32", [5]), ("output__0", "TYPE_FP32", [3])]
        np.testing.assert_allclose(ask(client, "m", ROWS[:4]), answers("xgboost_softprob.ubj")[:4], atol=1e-6)
        np.testing.assert_allclose(ask(client, "n", ROWS[:4]), answers("lightgbm_regression.txt")[:4, 0], atol=1e-6)


def test_without_batches(start_server, repository):
    text = config({"model_type": "xgboost_ubj", "is_classifier": "false"}, "-1, 1", features="-1, 5", batch=0)
    place(repository, "m", "xgboost_binary.ubj", text)
    with serving(start_server, repository) as client:
        np.testing.assert_allclose(ask(client, "m", ROWS), answers("xgboost_binary.ubj")[:, 0], atol=1e-6)


def test_without_treelite_the_error_says_what_to_install(start_server, repository, tmp_path):
    add(repository, "m", "xgboost_binary.ubj", 1, is_classifier="false")
    other = tmp_path / "libtreelite.so"
    shutil.copy(pathlib.Path(shutil.which("true")), other)
    server = start_server(repository, flags=[f"--backend-config=fil,library={other}", "--model-control-mode=explicit"])
    why = load(server, "m")
    assert "pip install treelite" in why and str(other) in why
