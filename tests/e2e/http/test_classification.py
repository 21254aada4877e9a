# SPDX-License-Identifier: Apache-2.0
"""Outputs as classes: "value:index:label" for the largest elements, as Triton has it."""
import json

import numpy
import pytest
import tritonclient.http as http
from conftest import Starter, make_identity, make_targets
from safety import tensor

NUMBERS = ["UINT8", "UINT16", "UINT32", "UINT64", "INT8", "INT16", "INT32", "INT64", "FP32", "FP64"]


def labeled(repository, name="labeled", file="labels.txt", text="zero\none\n\nthree:3", max_batch_size=0):
    """An identity whose output has labels."""
    directory = make_identity(repository, name, max_batch_size=max_batch_size)
    config = directory / "config.pbtxt"
    config.write_text(config.read_text().replace('name: "OUTPUT0"', f'name: "OUTPUT0" label_filename: "{file}"'))
    if text is not None:
        (directory / file).parent.mkdir(exist_ok=True)
        (directory / file).write_text(text)
    return directory


@pytest.fixture(scope="module")
def classifying(nereid, backends, tmp_path_factory):
    models = make_targets(tmp_path_factory.mktemp("models"))
    labeled(models)
    labeled(models, "rows", max_batch_size=8)
    starter = Starter(nereid, backends, tmp_path_factory.mktemp("classifying"))
    yield starter(models, flags=("--model-control-mode=explicit", "--load-model=*"))
    starter.stop_all()


def classes(server, model, count, binary=False, **more):
    """The output as the reply has it."""
    output = {"name": "OUTPUT0", "parameters": {"classification": count, "binary_data": binary}}
    answer = server.ask(f"/v2/models/{model}/infer", tensor(outputs=[output], **more))
    assert answer.status == 200, answer.text
    return json.loads(answer.body)["outputs"][0]


@pytest.mark.parametrize("datatype", NUMBERS)
def test_each_type_is_printed_as_triton_does(classifying, datatype):
    value = "%.6f" if datatype.startswith("FP") else "%d"
    for count, shown in ((1, [3]), (2, [3, 2]), (3, [3, 2, 1]), (4, [3, 2, 1]), (2**32, [3, 2, 1]), (2**64 - 1, [3, 2, 1])):
        output = classes(classifying, f"t_{datatype.lower()}", count, datatype=datatype, shape=[1, 3], data=[1, 3, 2])
        index = {1: 0, 3: 1, 2: 2}
        assert output == {"name": "OUTPUT0", "datatype": "BYTES", "shape": [1, len(shown)],
                          "data": [f"{value % n}:{index[n]}" for n in shown]}
    output = classes(classifying, f"t_{datatype.lower()}", 0, datatype=datatype, shape=[1, 3], data=[1, 3, 2])
    assert output["datatype"] == datatype and output["data"] == [1, 3, 2]


def test_labels_are_the_lines_of_a_file(classifying):
    output = classes(classifying, "labeled", 9, shape=[5], data=[5, 4, 3, 2, 1])
    assert output["shape"] == [5]
    assert output["data"] == ["5.000000:0:zero", "4.000000:1:one", "3.000000:2", "2.000000:3:three:3", "1.000000:4"]


def test_each_row_of_a_batch_has_its_own(classifying):
    output = classes(classifying, "rows", 2, shape=[3, 4], data=[0, 1, 2, 3, 9, 8, 7, 6, 1, 1, 1, 1])
    assert output["shape"] == [3, 2]
    assert output["data"] == ["3.000000:3:three:3", "2.000000:2", "9.000000:0:zero", "8.000000:1:one", "1.000000:0:zero", "1.000000:1:one"]
    assert classes(classifying, "rows", 2, shape=[1, 0], data=[]) == {"name": "OUTPUT0", "datatype": "BYTES", "shape": [1, 0], "data": []}


@pytest.mark.parametrize("binary", [True, False])
def test_the_clients_own_functions(classifying, binary):
    client = http.InferenceServerClient(classifying.url)
    source = http.InferInput("INPUT0", [2, 3], "FP32")
    source.set_data_from_numpy(numpy.array([[1, 2, 3], [6, 5, 4]], numpy.float32))
    result = client.infer("rows", [source], outputs=[http.InferRequestedOutput("OUTPUT0", binary_data=binary, class_count=1)])
    assert result.as_numpy("OUTPUT0").tolist() == ([[b"3.000000:2"], [b"6.000000:0:zero"]] if binary else [["3.000000:2"], ["6.000000:0:zero"]])


def test_large_outputs_are_classified_by_a_worker(classifying):
    count = 1_000_000
    data = numpy.random.default_rng(1).permutation(count).astype(numpy.float32)
    client = http.InferenceServerClient(classifying.url)
    source = http.InferInput("INPUT0", [count], "FP32")
    source.set_data_from_numpy(data)
    result = client.infer("labeled", [source], outputs=[http.InferRequestedOutput("OUTPUT0", class_count=3)])
    best = numpy.argsort(-data)[:3]
    assert [text.split(b":")[1] for text in result.as_numpy("OUTPUT0")] == [b"%d" % i for i in best]


def test_a_model_without_its_labels_does_not_load(start_server, repository):
    labeled(repository, "missing", text=None)
    labeled(repository, "inside", file="names/labels.txt")
    (labeled(repository, "directory", text=None) / "labels.txt").mkdir()
    server = start_server(repository, flags=("--model-control-mode=explicit",))
    for name, words in (("missing", "labels.txt"), ("directory", "labels.txt")):
        answer = server.ask(f"/v2/repository/models/{name}/load", b"")
        assert answer.status == 400 and "failed to read the labels of output 'OUTPUT0'" in answer.text and words in answer.text
    assert server.ask("/v2/repository/models/inside/load", b"").status == 200
    assert classes(server, "inside", 1, shape=[2], data=[0, 1])["data"] == ["1.000000:1:one"]
