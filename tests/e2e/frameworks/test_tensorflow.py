# SPDX-License-Identifier: Apache-2.0
"""The tensorflow backend: models of tests/models/tensorflow (scripts/make_tensorflow_models.py) served with the TensorFlow that scripts/setup --all installs."""
import concurrent.futures
import json
import shutil
import threading

import frameworks
import numpy as np
import proc
import pytest
import tritonclient.grpc as triton_grpc
import tritonclient.http as triton
from conftest import DEADLINE, ROOT, TOGETHER, Starter, wait_for
from state_models import IDLE
from test_isolated import isolate, processes
from tritonclient.utils import InferenceServerException
from tritonclient.utils import shared_memory

pytestmark = [frameworks.needs("tensorflow"), pytest.mark.slow]
MODELS = ROOT / "tests/models/tensorflow"
LONG = "größer als die 22 Zeichen, die ohne Speicher auskommen".encode()
CPU = "instance_group { kind: KIND_CPU count: %d }\n"
EXPLICIT = "--model-control-mode=explicit"


def add_model(repository, model, config="", name=None):
    """A SavedModel's folder, or the file of a graph."""
    source = MODELS / model
    version = repository / (name or model.partition(".")[0]) / "1"
    if source.is_dir():
        shutil.copytree(source, version / "model.savedmodel")
    else:
        version.mkdir(parents=True)
        shutil.copy(source, version / "model.graphdef")
    if config:
        (version.parent / "config.pbtxt").write_text(config)
    return version.parent


def parameter(key, value):
    return f'parameters {{ key: "{key}" value {{ string_value: "{value}" }} }}\n'


def tensor(name, kind, dims, more=""):
    return f'{{ name: "{name}" data_type: TYPE_{kind} dims: {dims} {more} }}\n'


SHAPES = "".join(f"{key} {tensor(*entry)}" for key, entry in (
    ("input", ("fixed", "FP32", "[2, 3]")), ("input", ("scalar", "FP32", "[1]")), ("input", ("any", "FP32", "[-1]")),
    ("output", ("turned", "FP32", "[3, 2]")), ("output", ("half", "FP32", "[1]")), ("output", ("any_out", "FP32", "[-1]"))))
SEQUENCE = f"""max_batch_size: 4
sequence_batching {{ direct {{ }} {IDLE}
  control_input {{ name: "start" control {{ kind: CONTROL_SEQUENCE_START int32_false_true: [ 0, 1 ] }} }}
  state {{ input_name: "state" output_name: "next_state" data_type: TYPE_FP32 dims: [ 1 ] }} }}
"""
RAGGED = """max_batch_size: 4
input { name: "values" data_type: TYPE_FP32 dims: [ -1 ] allow_ragged_batch: true }
batch_input { kind: BATCH_ELEMENT_COUNT target_name: "counts" data_type: TYPE_FP32 source_input: "values" }
output { name: "sums" data_type: TYPE_FP32 dims: [ 1 ] }
""" + TOGETHER % 3
GRAPH = "".join(f"{key} {tensor(name, 'INT32', '[4]')}" for key, name in (("input", "INPUT0"), ("input", "INPUT1"), ("output", "OUTPUT0"), ("output", "OUTPUT1")))
GRAPH = 'platform: "tensorflow_graphdef"\nmax_batch_size: 4\n' + GRAPH
VARIABLE = 'platform: "tensorflow_graphdef"\nmax_batch_size: 4\n' + f"input {tensor('INPUT', 'FP32', '[1]')}output {tensor('OUTPUT', 'FP32', '[1]')}"


def fill(repository):
    for name in ("add", "types", "brain", "strings", "fails", "table"):
        add_model(repository, name)
    add_model(repository, "counts", CPU % 1)
    add_model(repository, "keeps", CPU % 1)
    add_model(repository, "shapes", SHAPES)
    add_model(repository, "sequence", SEQUENCE)
    add_model(repository, "ragged", RAGGED)
    add_model(repository, "graph.graphdef", GRAPH)
    add_model(repository, "tags", name="twice")
    add_model(repository, "tags", parameter("TF_SIGNATURE_DEF", "negative"), "negative")
    add_model(repository, "tags", parameter("TF_GRAPH_TAG", "other"), "ten")
    directory = add_model(repository, "variable.graphdef", VARIABLE + parameter("TF_INIT_OPS_FILE", "init.json"))
    (directory / "init.json").write_text('{"init_ops": ["init"]}')
    return repository


@pytest.fixture(scope="module")
def server(nereid, backends, tmp_path_factory):
    starter = Starter(nereid, backends, tmp_path_factory.mktemp("server"))
    yield starter(fill(tmp_path_factory.mktemp("models")), flags=[EXPLICIT, "--load-model=*", "--allow-client-shm=true", *frameworks.settings("tensorflow")])
    starter.stop_all()


@pytest.fixture
def client(server):
    with triton.InferenceServerClient(server.url, network_timeout=DEADLINE) as client:
        yield client


def given(name, kind, data, of=triton):
    return of.InferInput(name, data.shape, kind).set_data_from_numpy(data)


def fp32(name, data):
    return given(name, "FP32", np.array(data, np.float32))


def texts(*rows):
    return np.array(rows, dtype=np.object_)


# ---- answers


def test_the_table_of_backends_has_the_version_and_the_path(server):
    path, version = frameworks.library("tensorflow"), frameworks.version("tensorflow")
    assert f"tensorflow: using TensorFlow {version} from {path}" in server.log


def test_a_batch_is_added(client):
    x, y = np.arange(12, dtype=np.float32).reshape(3, 4), np.full((3, 4), 2, np.float32)
    answer = client.infer("add", [fp32("x", x), fp32("y", y)])
    np.testing.assert_array_equal(answer.as_numpy("sum"), x + y)
    np.testing.assert_array_equal(answer.as_numpy("difference"), x - y)


def test_only_what_is_asked_for_is_answered(client):
    answer = client.infer("add", [fp32("x", [[1] * 4]), fp32("y", [[2] * 4])], outputs=[triton.InferRequestedOutput("difference")])
    assert [o["name"] for o in answer.get_response()["outputs"]] == ["difference"]


VALUES = {
    "BOOL": np.array([[True, False]]), "UINT8": np.array([[0, 255]], np.uint8), "UINT16": np.array([[0, 65535]], np.uint16),
    "UINT32": np.array([[0, 2**32 - 1]], np.uint32), "UINT64": np.array([[0, 2**64 - 1]], np.uint64), "INT8": np.array([[-128, 127]], np.int8),
    "INT16": np.array([[-(2**15), 1]], np.int16), "INT32": np.array([[-(2**31), 1]], np.int32), "INT64": np.array([[-(2**63), 1]], np.int64),
    "FP16": np.array([[1.5, -2]], np.float16), "FP32": np.array([[0.1, -2]], np.float32), "FP64": np.array([[0.1, -2]], np.float64),
    "BYTES": texts([b"\x00", LONG]),
}


def test_every_type_goes_through(client):
    answer = client.infer("types", [given(name, name, data) for name, data in VALUES.items()])
    kinds = {o["name"]: o["datatype"] for o in answer.get_response()["outputs"]}
    assert kinds == {f"{name}_out": name for name in VALUES}
    for name, data in VALUES.items():
        np.testing.assert_array_equal(answer.as_numpy(f"{name}_out"), data)


def test_brain_floats_go_through(server):
    body = {"inputs": [{"name": "x", "datatype": "BF16", "shape": [1, 2], "data": [1.5, -2]}]}
    answer = server.ask("/v2/models/brain/infer", json.dumps(body).encode())
    assert json.loads(answer.body)["outputs"][0]["data"] == [1.5, -2]


def test_strings_of_all_lengths_go_both_ways(client):
    data = texts([b"", b"\x00\xff"], [LONG, b"x" * 100_000])
    answer = client.infer("strings", [given("s", "BYTES", data)])
    assert answer.as_numpy("doubled").tolist() == [[2 * s for s in row] for row in data.tolist()]
    assert answer.as_numpy("length").tolist() == [[len(s) for s in row] for row in data.tolist()]


def test_a_lookup_table_is_filled(client):
    words = texts([b"two"], [b"zero"], [b"nobody"])
    assert client.infer("table", [given("word", "BYTES", words)]).as_numpy("number").tolist() == [[2], [0], [3]]


def test_scalars_and_fixed_shapes_need_no_batch(client):
    fixed = np.arange(6, dtype=np.float32).reshape(2, 3)
    answer = client.infer("shapes", [fp32("fixed", fixed), fp32("scalar", [4]), fp32("any", [1, 2, 3])])
    np.testing.assert_array_equal(answer.as_numpy("turned"), 4 * fixed.T)
    assert answer.as_numpy("half").tolist() == [2]
    assert answer.as_numpy("any_out").tolist() == [2, 3, 4]


def test_tensors_of_no_elements_go_through(client):
    answer = client.infer("shapes", [fp32("fixed", np.zeros((2, 3))), fp32("scalar", [4]), fp32("any", [])])
    assert answer.as_numpy("any_out").tolist() == []
    outputs = [triton.InferRequestedOutput("half")]
    assert client.infer("shapes", [fp32("fixed", np.zeros((2, 3))), fp32("scalar", [4]), fp32("any", [])], outputs=outputs).as_numpy("half").tolist() == [2]


def test_strings_that_are_cut_off_are_refused(server, client):
    body = json.dumps({"inputs": [{"name": "s", "datatype": "BYTES", "shape": [1, 2], "parameters": {"binary_data_size": 9}}]}).encode()
    answer = server.ask("/v2/models/strings/infer", body + b"\x01\0\0\0a\xff\0\0\0", headers={"Inference-Header-Content-Length": str(len(body))})
    assert answer.status == 400
    assert client.is_model_ready("strings")


@pytest.mark.parametrize("model, factor", [("twice", 2), ("negative", -2), ("ten", 10)])
def test_a_signature_and_a_tag_are_chosen(client, model, factor):
    assert client.infer(model, [fp32("x", [[3]])]).as_numpy("y").tolist() == [[3 * factor]]


def test_a_graph_answers(client):
    a, b = np.array([[1, 2, 3, 4]], np.int32), np.array([[5, 5, 5, 5]], np.int32)
    answer = client.infer("graph", [given("INPUT0", "INT32", a), given("INPUT1", "INT32", b)])
    assert answer.as_numpy("OUTPUT0").tolist() == (a + b).tolist() and answer.as_numpy("OUTPUT1").tolist() == (a - b).tolist()


def test_the_initial_operations_are_run(client):
    assert client.infer("variable", [fp32("INPUT", [[2]])]).as_numpy("OUTPUT").tolist() == [[6]]


def test_a_variable_remembers(client):
    def step(by):
        return client.infer("counts", [given("step", "INT64", np.array([by]))]).as_numpy("total").tolist()
    (before,) = step(0)
    assert [step(2), step(3)] == [[before + 2], [before + 5]]


def test_a_sequence_has_its_own_state(client):
    totals = [client.infer("sequence", [fp32("value", [[v]])], sequence_id=7, sequence_start=i == 0, sequence_end=i == 2).as_numpy("total").tolist()
              for i, v in enumerate((1, 10, 100))]
    assert totals == [[[1]], [[11]], [[111]]]


def test_ragged_requests_share_a_batch(server):
    rows = [[1.0], [2.0, 3.0], [4.0, 5.0, 6.0]]
    with triton.InferenceServerClient(server.url, concurrency=3, network_timeout=DEADLINE) as client:
        pending = [client.async_infer("ragged", [fp32("values", [row])]) for row in rows]
        assert [p.get_result().as_numpy("sums").tolist() for p in pending] == [[[sum(row)]] for row in rows]
        statistics = client.get_inference_statistics("ragged")["model_stats"][0]
    assert (statistics["inference_count"], statistics["execution_count"]) == (3, 1)


def test_many_clients_each_get_their_own_answer(server):
    wrong = []

    def ask(n):
        with triton.InferenceServerClient(server.url, network_timeout=DEADLINE) as client:
            for i in range(50):
                x = np.full((1, 4), n * 1000 + i, np.float32)
                if not np.array_equal(client.infer("add", [fp32("x", x), fp32("y", x)]).as_numpy("sum"), x + x):
                    wrong.append((n, i))

    threads = [threading.Thread(target=ask, args=(n,)) for n in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


# ---- the request's memory


def test_what_a_model_keeps_is_not_the_requests_memory(client):
    """Each request's memory is used again for the next one."""
    before = client.infer("keeps", [fp32("value", [0] * 64)])
    for n in range(1, 20):
        before = client.infer("keeps", [fp32("value", [n] * 64)]).as_numpy("before")
        assert before.tolist() == [n - 1] * 64


def test_a_region_of_shared_memory_is_only_read(client):
    data = np.arange(8, dtype=np.float32).reshape(2, 4)
    region = shared_memory.create_shared_memory_region("tf_input", "/tf_input", data.nbytes)
    try:
        shared_memory.set_shared_memory_region(region, [data])
        client.register_system_shared_memory("tf_input", "/tf_input", data.nbytes)
        inputs = [triton.InferInput(name, data.shape, "FP32") for name in "xy"]
        for tensor in inputs:
            tensor.set_shared_memory("tf_input", data.nbytes)
        assert client.infer("add", inputs).as_numpy("sum").tolist() == (2 * data).tolist()
        assert shared_memory.get_contents_as_numpy(region, np.float32, data.shape).tolist() == data.tolist()
    finally:
        client.unregister_system_shared_memory("tf_input")
        shared_memory.destroy_shared_memory_region(region)


# ---- a run that fails


def test_a_failing_run_gives_tensorflows_reason_in_one_line(client):
    with pytest.raises(InferenceServerException, match=r"indices\[0\] = 7 is not in \[0, 3\)") as failed:
        client.infer("fails", [given("index", "INT32", np.array([[7]], np.int32))])
    assert "\n" not in failed.value.message()
    assert client.infer("fails", [given("index", "INT32", np.array([[2]], np.int32))]).as_numpy("value").tolist() == [[30]]


# ---- completed configurations


def config_of(client, model):
    config = client.get_model_config(model)
    brief = {key: [(t["name"], t["data_type"], [int(d) for d in t["dims"]]) for t in config[key]] for key in ("input", "output")}
    return config["max_batch_size"], "dynamic_batching" in config, brief


def test_a_configuration_is_read_off_the_signature(client):
    four = "TYPE_FP32", [4]
    assert config_of(client, "add") == (4, True, {"input": [("x", *four), ("y", *four)], "output": [("difference", *four), ("sum", *four)]})
    assert client.get_model_config("add")["platform"] == "tensorflow_savedmodel"
    batch, dynamic, brief = config_of(client, "counts")
    assert (batch, dynamic, brief["input"]) == (0, False, [("step", "TYPE_INT64", [1])])


def test_controls_and_states_are_no_inputs_of_requests(client):
    _, dynamic, brief = config_of(client, "sequence")
    assert (dynamic, [name for name, *_ in brief["input"]]) == (False, ["value"])


COMPLETED = {  # configuration: what it becomes
    f"input {tensor('x', 'INVALID', '[]')}": (4, ["x", "y"], ["difference", "sum"]),  # its type and shape are the model's
    f"input {tensor('y', 'FP32', '[4]')}output {tensor('sum', 'FP32', '[4]')}": (4, ["y", "x"], ["sum"]),
    f"input {tensor('x', 'FP32', '[-1, 4]')}": (0, ["x", "y"], ["difference", "sum"]),  # it says that the model does not batch
    "max_batch_size: 1": (1, ["x", "y"], ["difference", "sum"]),
}


def test_what_is_given_stays_and_the_rest_is_completed(start_server, repository):
    for n, config in enumerate(COMPLETED):
        add_model(repository, "add", config, f"m{n}")
    server = start_server(repository, flags=frameworks.settings("tensorflow"))
    with triton.InferenceServerClient(server.url, network_timeout=DEADLINE) as client:
        for n, expected in enumerate(COMPLETED.values()):
            batch, dynamic, brief = config_of(client, f"m{n}")
            names = [[name for name, *_ in brief[key]] for key in ("input", "output")]
            assert (batch, *names) == expected and dynamic == (batch > 1)
            assert all(kind == "TYPE_FP32" and dims == ([4] if batch else [-1, 4]) for _, kind, dims in brief["input"] + brief["output"])


# ---- what cannot be loaded


def config(*entries):
    return "".join(f"{key} {tensor(*entry)}" for key, *entry in entries)


def change(model, old, new):
    """A copy whose bytes are other ones, as many."""
    def make(repository, name, more):
        assert len(old) == len(new)
        directory = add_model(repository, model, more, name)
        file = directory / "1" / ("model.graphdef" if model.endswith(".graphdef") else "model.savedmodel/saved_model.pb")
        content = file.read_bytes()
        assert old in content
        file.write_bytes(content.replace(old, new))
    return make


def with_bytes(content, graph=False):
    def make(repository, name, more):
        directory = add_model(repository, "graph.graphdef" if graph else "add", more, name)
        file = directory / "1" / ("model.graphdef" if graph else "model.savedmodel/saved_model.pb")
        file.write_bytes(content(file.read_bytes()) if callable(content) else content)
    return make


def plain(model):
    return lambda repository, name, more: add_model(repository, model, more, name)


def with_variables(change):
    def make(repository, name, more):
        file = add_model(repository, "tags", more, name) / "1/model.savedmodel/variables/variables.index"
        file.write_bytes(change(file.read_bytes()))
    return make


def without_file(repository, name, more):
    (add_model(repository, "tags", more, name) / "1/model.savedmodel/saved_model.pb").unlink()


ADD = config(("input", "x", "FP32", "[4]"), ("input", "y", "FP32", "[4]"), ("output", "sum", "FP32", "[4]"))
BAD = {  # what: how it is made, its configuration, the reason
    "truncated": (with_bytes(lambda b: b[:500]), "", "saved_model.pb': it is not a SavedModel"),
    "empty": (with_bytes(b""), "", "expected 'serve' tag"),
    "text": (with_bytes(b"This is no model at all.\n" * 9), "", "it is not a SavedModel"),
    "no file": (without_file, "", "unable to find '"),
    "variables, truncated": (with_variables(lambda b: b[:10]), "", "unable to load '1/model.savedmodel': "),
    "no tag": (plain("add"), parameter("TF_GRAPH_TAG", "gpu"), "expected 'gpu' tag"),
    "no signature": (plain("add"), parameter("TF_SIGNATURE_DEF", "score"), "expected 'score' signature"),
    "no such operator": (change("strings", b"StringLength", b"StringLengtX"), "", "Op type not registered 'StringLengtX'"),
    "no such node": (change("add", b"\x05sub:0", b"\x05sub:9"), "", "its graph has no 'sub:9'"),
    "a type that no server has": (change("fails", b"\x10\x03\x1a", b"\x10\x14\x1a"), "", "unsupported datatype 'DT_RESOURCE'"),
    "another type": (plain("add"), ADD.replace("FP32", "INT32", 1), "configuration expects datatype TYPE_INT32 for input 'x', model provides TYPE_FP32"),
    "another shape": (plain("add"), "max_batch_size: 4\n" + ADD.replace("[4]", "[5]", 1), "model 'm', tensor 'x': the model expects 2 dimensions"),
    "another name": (plain("add"), "max_batch_size: 4\n" + ADD.replace('"x"', '"z"'), "unexpected inference input 'z', allowed inputs are: x, y"),
    "another output": (plain("add"), "max_batch_size: 4\n" + ADD.replace("sum", "all"), "unexpected inference output 'all', allowed outputs are: difference, sum"),
    "no batch": (plain("counts"), "max_batch_size: 8\n",
                 "unable to autofill for 'm', configuration specified max-batch 8 but model signature does not support batching"),
    "contradiction": (plain("add"), config(("input", "x", "FP32", "[4]"), ("input", "y", "FP32", "[-1, 4]")),
                      "unable to autofill for 'm', model tensor configurations are contradicting each other in terms of whether batching is supported"),
    "scalars": (plain("shapes"), "", "Unable to autofill for 'm': the rank of model tensor"),
    "threads": (plain("add"), parameter("TF_NUM_INTRA_THREADS", "-1"),
                "parameter 'TF_NUM_INTRA_THREADS' must be non-negative number for TensorFlow model 'm'"),
    "no number": (plain("add"), parameter("TF_NUM_INTER_THREADS", "many"), "TF_NUM_INTER_THREADS"),
    "sharing": (plain("add"), parameter("MAX_SESSION_SHARE_COUNT", "0"),
                "parameter 'MAX_SESSION_SHARE_COUNT' must be positive number for TensorFlow model 'm'"),
    "accelerator": (plain("add"), 'optimization { execution_accelerators { cpu_execution_accelerator: [ { name: "openvino" } ] } }',
                    "CPU Execution Accelerator is not supported in TensorFlow backend"),
    "accelerator of a GPU": (plain("add"), 'instance_group { kind: KIND_MODEL }\n'
                             'optimization { execution_accelerators { gpu_execution_accelerator: [ { name: "magic" } ] } }',
                             "unknown Execution Accelerator 'magic' is requested"),
    "no library of operators": (plain("add"), 'model_operations { op_library_filename: "/nowhere/ops.so" }', "/nowhere/ops.so: cannot open shared object file"),
    "no initial operations": (plain("add"), parameter("TF_INIT_OPS_FILE", "init.json"), "unable to find '"),
    "graph of nothing": (with_bytes(b"", graph=True), GRAPH, "model m has an empty network"),
    "graph, truncated": (with_bytes(lambda b: b[:150], graph=True), GRAPH, "model.graphdef': it is not a GraphDef"),
    "graph of another operator": (change("graph.graphdef", b"AddV2", b"AddV9"), GRAPH, "Op type not registered 'AddV9'"),
    "graph of another input": (plain("graph.graphdef"), GRAPH.replace("INPUT1", "INPUT2"), "unexpected inference input 'INPUT2', allowed inputs are: INPUT0,"),
    "graph of another output": (plain("graph.graphdef"), GRAPH.replace("OUTPUT1", "INPUT0"), "unexpected inference output 'INPUT0'"),
}


@pytest.fixture(scope="module")
def loader(nereid, backends, tmp_path_factory):
    """A server without models, and its repository."""
    repository = tmp_path_factory.mktemp("bad")
    add_model(repository, "add", name="good")
    starter = Starter(nereid, backends, tmp_path_factory.mktemp("loader"))
    yield starter(repository, flags=[EXPLICIT, "--load-model=good", *frameworks.settings("tensorflow")]), repository
    starter.stop_all()


@pytest.mark.parametrize("case", BAD)
def test_what_does_not_load_says_why_and_nothing_else_suffers(loader, case):
    server, repository = loader
    make, more, reason = BAD[case]
    make(repository, "m", more)
    try:
        answer = server.ask("/v2/repository/models/m/load", b"{}")
        text = json.loads(answer.body)["error"]
        assert answer.status >= 400 and reason in text and "\n" not in text.strip()
        with triton.InferenceServerClient(server.url, network_timeout=DEADLINE) as client:
            assert client.infer("good", [fp32("x", [[1] * 4]), fp32("y", [[2] * 4])]).as_numpy("sum").tolist() == [[3] * 4]
    finally:
        shutil.rmtree(repository / "m")


def test_a_model_can_be_loaded_and_unloaded_many_times(loader):
    server, repository = loader
    add_model(repository, "counts", CPU % 2, "m")
    try:
        with triton.InferenceServerClient(server.url, network_timeout=DEADLINE) as client:
            for _ in range(5):
                client.load_model("m")
                total = client.infer("m", [given("step", "INT64", np.array([1]))]).as_numpy("total").tolist()
                assert total == [1]  # the session is another one
                client.unload_model("m")
                wait_for("the end", lambda: not client.is_model_ready("m"))
    finally:
        shutil.rmtree(repository / "m")


# ---- sessions, threads, places


def test_instances_have_a_session_each_unless_they_share(start_server, repository):
    add_model(repository, "counts", CPU % 2, "own")
    add_model(repository, "counts", CPU % 2 + parameter("MAX_SESSION_SHARE_COUNT", "2"), "shared")
    server = start_server(repository, flags=frameworks.settings("tensorflow"))
    step = [given("step", "INT64", np.array([1]), of=triton_grpc)]
    with triton_grpc.InferenceServerClient(f"localhost:{server.grpc_port}") as client, concurrent.futures.ThreadPoolExecutor(8) as threads:
        def totals(model):
            """Of requests that are there at the same time, so that both instances run."""
            return [total.as_numpy("total").tolist()[0] for total in threads.map(lambda _: client.infer(model, step), range(8))]

        for _ in range(5):
            totals("shared")  # a run adds, then reads: it may read what the other instance has added meanwhile
        assert client.infer("shared", step).as_numpy("total").tolist() == [41]
        counted, runs = 0, 0
        while counted == runs:  # until the other instance ran, too
            counted, runs = max(counted, *totals("own")), runs + 8


def test_parameters_are_taken(start_server, repository):
    more = "".join(parameter(*p) for p in (("TF_NUM_INTRA_THREADS", 1), ("TF_NUM_INTER_THREADS", -1), ("TF_USE_PER_SESSION_THREADS", "true"),
                                           ("TF_GRAPH_TAG", "serve"), ("TF_SIGNATURE_DEF", "serving_default"), ("MAX_SESSION_SHARE_COUNT", 8)))
    add_model(repository, "add", more + 'optimization { graph { level: 1 } }\ninstance_group { kind: KIND_MODEL }')
    flags = [f"--backend-config=tensorflow,{setting}" for setting in ("allow-soft-placement=false", "gpu-memory-fraction=0.5", "default-max-batch-size=16")]
    server = start_server(repository, flags=[*flags, *frameworks.settings("tensorflow")])
    with triton.InferenceServerClient(server.url, network_timeout=DEADLINE) as client:
        assert client.infer("add", [fp32("x", [[1] * 4]), fp32("y", [[2] * 4])]).as_numpy("sum").tolist() == [[3] * 4]
        assert client.get_model_config("add")["max_batch_size"] == 16


def test_a_model_lives_in_a_process_of_its_own(start_server, repository):
    isolate(add_model(repository, "add", "\n"))
    isolate(add_model(repository, "strings", "\n"))
    server = start_server(repository, flags=frameworks.settings("tensorflow"))
    with triton.InferenceServerClient(server.url, network_timeout=DEADLINE) as client:
        assert client.infer("add", [fp32("x", [[1] * 4]), fp32("y", [[2] * 4])]).as_numpy("sum").tolist() == [[3] * 4]
        assert client.infer("strings", [given("s", "BYTES", texts([b"a", LONG]))]).as_numpy("doubled").tolist() == [[b"aa", LONG + LONG]]
    assert len(processes(server)) == 2
    assert "libtensorflow" not in proc.read(server.process.pid, "maps")


def test_without_tensorflow_the_model_says_what_pip_installs(start_server, repository):
    add_model(repository, "add")
    server = start_server(repository, flags=["--backend-config=tensorflow,framework-search=strict", "--exit-on-error=false"], ready=False)
    wait_for("the reason", lambda: "pip install tensorflow" in server.log)
