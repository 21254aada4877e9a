# SPDX-License-Identifier: Apache-2.0
"""The model repositories of the cases: name → what writes the model's directory."""
import numpy
import onnx

IDENTITY = 'backend: "identity"'
ONNX = 'backend: "onnxruntime"'
BATCHES = " max_batch_size: 64"
BATCHER = " dynamic_batching { }"
CACHED = " response_cache { enable: true }"


def instances(count, intra_op_threads=None):
    text = f" instance_group {{ count: {count} kind: KIND_CPU }}"
    if intra_op_threads:
        text += f' parameters {{ key: "intra_op_thread_count" value {{ string_value: "{intra_op_threads}" }} }}'
    return text


def limited(delay_ms):
    """An execution takes so long, and one of a resource."""
    return (' instance_group { count: 1 kind: KIND_CPU rate_limiter { resources { name: "r" global: true count: 1 } } }'
            f' parameters {{ key: "execute_delay_ms" value {{ string_value: "{delay_ms}" }} }}')


def tensors(*dims):
    dims = ", ".join(map(str, dims))
    return (f' input {{ name: "INPUT0" data_type: TYPE_FP32 dims: [ {dims} ] }}'
            f' output {{ name: "OUTPUT0" data_type: TYPE_FP32 dims: [ {dims} ] }}')


PYTHON = 'backend: "python"'
ADD = """import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        responses = []
        for request in requests:
            value = pb_utils.get_input_tensor_by_name(request, "INPUT0").as_numpy()
            responses.append(pb_utils.InferenceResponse([pb_utils.Tensor("OUTPUT0", value + value)]))
        return responses
"""
SLOW = """import time

import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        time.sleep(0.01 * len(requests))
        return [pb_utils.InferenceResponse([pb_utils.get_input_tensor_by_name(request, "INPUT0")]) for request in requests]
"""
IMPORTS = """import numpy
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        return [pb_utils.InferenceResponse([]) for _ in requests]
"""

SUMS = """import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def initialize(self, args):
        self.sums = {}

    def execute(self, requests):
        responses = []
        for request in requests:
            value = {name: pb_utils.get_input_tensor_by_name(request, name).as_numpy() for name in ("INPUT0", "START", "READY", "CORRID")}
            total = value["INPUT0"]
            if value["READY"][0, 0]:
                who = value["CORRID"][0, 0]
                total = self.sums[who] = total if value["START"][0, 0] else self.sums[who] + total
            responses.append(pb_utils.InferenceResponse([pb_utils.Tensor("OUTPUT0", total)]))
        return responses
"""


def sequences(strategy):
    kinds = "".join(f' control_input [ {{ name: "{kind}" control [ {{ kind: CONTROL_SEQUENCE_{kind} int32_false_true: [ 0, 1 ] }} ] }} ]'
                    for kind in ("START", "READY"))
    return (f' sequence_batching {{ max_sequence_idle_microseconds: 600000000 {strategy} {kinds} control_input '
            '[ { name: "CORRID" control [ { kind: CONTROL_SEQUENCE_CORRID data_type: TYPE_UINT64 } ] } ] }')


# name → configuration, and for ONNX models the width and number of their layers, for Python models their text
MODELS = {
    "small": (IDENTITY + BATCHES + BATCHER + instances(2) + tensors(16),),
    "plain": (IDENTITY + BATCHES + instances(2) + tensors(16),),
    "large": (IDENTITY + instances(2) + tensors(-1, -1),),
    "cached": (IDENTITY + BATCHES + instances(2) + tensors(16) + CACHED,),
    "cached_large": (IDENTITY + instances(2) + tensors(-1, -1) + CACHED,),
    "cached_onnx": (ONNX + BATCHES + instances(2, 1) + tensors(256) + CACHED, 256, 16),
    "one": (IDENTITY + BATCHES + instances(1) + tensors(16),),
    "onnx_small": (ONNX + BATCHES + BATCHER + instances(2, 1) + tensors(16), 16, 1),
    "limited": (IDENTITY + BATCHES + limited(20) + tensors(16),),
    # 128 MiB of weights, far more than a cache holds: one row waits for memory, 32 rows for the processor
    "onnx_wide": (ONNX + BATCHES + BATCHER + instances(1, 2) + tensors(2048), 2048, 8),
    "onnx_busy": (ONNX + BATCHES + instances(2, 1) + tensors(2048), 2048, 8),
    "python_plain": (PYTHON + BATCHES + instances(1) + tensors(16), ADD),
    "python_batches": (PYTHON + BATCHES + BATCHER + instances(1) + tensors(16), ADD),
    "python_four": (PYTHON + BATCHES + BATCHER + instances(4) + tensors(16), ADD),
    "python_slow": (PYTHON + BATCHES + instances(4) + tensors(16), SLOW),
    "python_large": (PYTHON + instances(1) + tensors(-1, -1), ADD),
    "python_direct": (PYTHON + " max_batch_size: 1024" + sequences("direct { }") + instances(1) + tensors(16), SUMS),
    "python_oldest": (PYTHON + BATCHES + sequences("oldest { max_candidate_sequences: 1024 }") + instances(1) + tensors(16), SUMS),
    "python_imports": (PYTHON + instances(1) + tensors(16), IMPORTS),
}
# name → models that each get what the one before gives
ENSEMBLES = {
    "three_identities": ("plain", "plain", "plain"),
    "three_stages": ("python_batches", "onnx_small", "python_batches"),
}


def write_ensemble(repository, name, given):
    """Each step is a model of its own."""
    steps = []
    for number, model in enumerate(given):
        write_model(repository, model, f"{name}_{number}")
        names = ["INPUT0" if number == 0 else f"between{number}", "OUTPUT0" if number == len(given) - 1 else f"between{number + 1}"]
        steps.append(f'step {{ model_name: "{name}_{number}" model_version: -1 input_map {{ key: "INPUT0" value: "{names[0]}" }}'
                     f' output_map {{ key: "OUTPUT0" value: "{names[1]}" }} }}')
    (repository / name / "1").mkdir(parents=True)
    config = 'platform: "ensemble"' + BATCHES + tensors(16) + " ensemble_scheduling { " + " ".join(steps) + " }"
    (repository / name / "config.pbtxt").write_text(config + "\n")


def write_model(repository, model, name=None):
    """Writes one of MODELS, under another name if one is given, or one of ENSEMBLES."""
    if model in ENSEMBLES:
        return write_ensemble(repository, model, ENSEMBLES[model])
    config, *layers = MODELS[model]
    version = repository / (name or model) / "1"
    version.mkdir(parents=True)
    (version.parent / "config.pbtxt").write_text(config + "\n")
    if layers and isinstance(layers[0], str):
        (version / "model.py").write_text(layers[0])
    elif layers:
        write_onnx(version / "model.onnx", *layers)


def write_onnx(path, width, layers):
    """Matrix multiplications of [n, width] with weights [width, width], one after the other."""
    random = numpy.random.default_rng(1)
    value = lambda name: onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, ["n", width])  # noqa: E731
    names = ["INPUT0", *(f"hidden{i}" for i in range(1, layers)), "OUTPUT0"]
    nodes, weights = [], []
    for i in range(layers):
        weight = random.standard_normal((width, width), numpy.float32) / numpy.float32(width**0.5)
        weights.append(onnx.numpy_helper.from_array(weight, f"weight{i}"))
        nodes.append(onnx.helper.make_node("MatMul", [names[i], f"weight{i}"], [names[i + 1]]))
    graph = onnx.helper.make_graph(nodes, "layers", [value("INPUT0")], [value("OUTPUT0")], weights)
    # Versions that ONNX Runtime has known for years.
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 13)], ir_version=8)
    onnx.save(model, path)


LSTM = ONNX + """ max_batch_size: 32 dynamic_batching { }%s
input { name: "INPUT0" data_type: TYPE_FP32 dims: [ -1, 64 ] } %s
output { name: "OUTPUT0" data_type: TYPE_FP32 dims: [ 1, 256 ] }
"""


def parameters(**values):
    return "".join(f' parameters {{ key: "{key}" value {{ string_value: "{value}" }} }}' for key, value in values.items())


def write_lstm(repository, name, padded=False, **more):
    """The last state of an LSTM over sequences of any length; `padded`: it is told their lengths, and what is behind them does not count."""
    width, hidden = 64, 256
    random, lengths = numpy.random.default_rng(1), "N" if padded else ""
    node, tensor = onnx.helper.make_node, onnx.TensorProto.FLOAT
    value = onnx.helper.make_tensor_value_info
    shapes = {"W": (1, 4 * hidden, width), "R": (1, 4 * hidden, hidden), "B": (1, 8 * hidden)}
    weights = [onnx.numpy_helper.from_array(random.standard_normal(shape, numpy.float32) / numpy.float32(hidden**0.5), key) for key, shape in shapes.items()]
    nodes = [node("Transpose", ["INPUT0"], ["by_time"], perm=[1, 0, 2]),
             node("LSTM", ["by_time", "W", "R", "B", lengths], ["", "state"], hidden_size=hidden),
             node("Transpose", ["state"], ["OUTPUT0"], perm=[1, 0, 2])]
    inputs = [value("INPUT0", tensor, ["b", "n", width])]
    if padded:
        inputs.append(value("N", onnx.TensorProto.INT32, ["b"]))
        more["padding_length"] = "N"
    graph = onnx.helper.make_graph(nodes, "lstm", inputs, [value("OUTPUT0", tensor, ["b", 1, hidden])], weights)
    length_input = 'input { name: "N" data_type: TYPE_INT32 dims: [ 1 ] reshape { shape: [ ] } }' if padded else ""
    (repository / name / "1").mkdir(parents=True)
    (repository / name / "config.pbtxt").write_text(LSTM % (instances(1, 1) + parameters(**more), length_input))
    onnx.save(onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 13)], ir_version=8), repository / name / "1/model.onnx")


SUMS_CONFIG = ONNX + """ max_batch_size: 32 dynamic_batching { }%s
input { name: "INPUT0" data_type: TYPE_FP32 %s }
output { name: "OUTPUT0" data_type: TYPE_FP32 dims: [ 1 ] } %s
"""
RAGGED = """ batch_input { kind: BATCH_ACCUMULATED_ELEMENT_COUNT target_name: "ENDS" data_type: TYPE_INT32 source_input: "INPUT0" }"""


def write_sums(repository, name, is_ragged, width=64, longest=64):
    """The sum over a sequence of what two layers make of each step: of sequences one behind the other, or of padded ones (zeros add nothing)."""
    random = numpy.random.default_rng(1)
    node, value, types = onnx.helper.make_node, onnx.helper.make_tensor_value_info, onnx.TensorProto
    array = lambda key, content: onnx.numpy_helper.from_array(content, key)  # noqa: E731
    given = [array("W1", random.standard_normal((width, 256), numpy.float32) / 8), array("W2", random.standard_normal((256, 1), numpy.float32) / 16),
             array("steps", numpy.array([-1, width])), array("sums", numpy.array([-1, 1] if is_ragged else [-1, longest]))]
    nodes = [node("Reshape", ["INPUT0", "steps"], ["x"]), node("MatMul", ["x", "W1"], ["h"]), node("Tanh", ["h"], ["t"]), node("MatMul", ["t", "W2"], ["scores"])]
    inputs = [value("INPUT0", types.FLOAT, ["n"] if is_ragged else ["b", "n"])]
    if is_ragged:
        inputs.append(value("ENDS", types.INT32, ["b"]))
        given += [array("zero", numpy.zeros((1, 1), numpy.float32)), array("first", numpy.zeros(1, numpy.int32)), array("axis", numpy.array(0)),
                  array("from", numpy.array([0])), array("to", numpy.array([-1])), array("width", numpy.array(width, numpy.int32))]
        nodes += [node("CumSum", ["scores", "axis"], ["running"]), node("Concat", ["zero", "running"], ["totals"], axis=0),
                  node("Div", ["ENDS", "width"], ["ends"]), node("Slice", ["ends", "from", "to"], ["but_last"]),
                  node("Concat", ["first", "but_last"], ["begins"], axis=0), node("Gather", ["totals", "ends"], ["at_end"]),
                  node("Gather", ["totals", "begins"], ["at_begin"]), node("Sub", ["at_end", "at_begin"], ["difference"]),
                  node("Reshape", ["difference", "sums"], ["OUTPUT0"])]
    else:
        nodes += [node("Reshape", ["scores", "sums"], ["rows"]), node("ReduceSum", ["rows"], ["OUTPUT0"], keepdims=1)]
        given.append(array("axes", numpy.array([1])))
        nodes[-1].input.append("axes")
    graph = onnx.helper.make_graph(nodes, "sums", inputs, [value("OUTPUT0", types.FLOAT, ["b", 1])], given)
    dims = "dims: [ -1 ] allow_ragged_batch: true" if is_ragged else f"dims: [ {longest * width} ]"
    config = SUMS_CONFIG % (instances(1, 1), dims, RAGGED if is_ragged else "")
    (repository / name / "1").mkdir(parents=True)
    (repository / name / "config.pbtxt").write_text(config)
    onnx.save(onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 13)], ir_version=8), repository / name / "1/model.onnx")
