"""The model repositories of the cases: name → what writes the model's directory."""
import numpy
import onnx

IDENTITY = 'backend: "identity"'
ONNX = 'backend: "onnxruntime"'
BATCHES = " max_batch_size: 64"
BATCHER = " dynamic_batching { }"


def instances(count, intra_op_threads=None):
    text = f" instance_group {{ count: {count} kind: KIND_CPU }}"
    if intra_op_threads:
        text += f' parameters {{ key: "intra_op_thread_count" value {{ string_value: "{intra_op_threads}" }} }}'
    return text


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
IMPORTS = """import numpy
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        return [pb_utils.InferenceResponse([]) for _ in requests]
"""

# name → configuration, and for ONNX models the width and number of their layers, for Python models their text
MODELS = {
    "small": (IDENTITY + BATCHES + BATCHER + instances(2) + tensors(16),),
    "plain": (IDENTITY + BATCHES + instances(2) + tensors(16),),
    "large": (IDENTITY + instances(2) + tensors(-1, -1),),
    "one": (IDENTITY + BATCHES + instances(1) + tensors(16),),
    "onnx_small": (ONNX + BATCHES + BATCHER + instances(2, 1) + tensors(16), 16, 1),
    # 128 MiB of weights, far more than a cache holds: one row waits for memory, 32 rows for the processor
    "onnx_wide": (ONNX + BATCHES + BATCHER + instances(1, 2) + tensors(2048), 2048, 8),
    "onnx_busy": (ONNX + BATCHES + instances(2, 1) + tensors(2048), 2048, 8),
    "python_plain": (PYTHON + BATCHES + instances(1) + tensors(16), ADD),
    "python_batches": (PYTHON + BATCHES + BATCHER + instances(1) + tensors(16), ADD),
    "python_four": (PYTHON + BATCHES + BATCHER + instances(4) + tensors(16), ADD),
    "python_large": (PYTHON + instances(1) + tensors(-1, -1), ADD),
    "python_imports": (PYTHON + instances(1) + tensors(16), IMPORTS),
}


def write_model(repository, model, name=None):
    """Writes one of MODELS, under another name if one is given."""
    config, *layers = MODELS[model]
    version = repository / (name or model) / "1"
    version.mkdir(parents=True)
    (version.parent / "config.pbtxt").write_text(config + "\n")
    if layers == [ADD] or layers == [IMPORTS]:
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
