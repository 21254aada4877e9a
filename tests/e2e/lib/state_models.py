# SPDX-License-Identifier: Apache-2.0
"""Models with implicit state, for nereid and for Triton: the backend of tests/fakes/stateful_backend.c, and ONNX models."""
import numpy as np
import onnx
import tritonclient.grpc as triton
from grpc_sides import SIDES, SideStarter, client_of, stop
from onnx import TensorProto, helper
from sequence_models import controls

STRATEGIES = {"direct": "direct { }", "oldest": "oldest { max_candidate_sequences: 4 }"}
STATE = 'state [ {{ input_name: "STATE_IN" output_name: "STATE_OUT" data_type: {kind} dims: {dims} {more} }} ]'
IDLE = "max_sequence_idle_microseconds: 60000000"  # no test is that slow


def state(kind="TYPE_INT32", dims="[ 1 ]", more=""):
    return STATE.format(kind=kind, dims=dims, more=more)


def first(what="zero_data: true", kind="TYPE_INT32", dims="[ 1 ]", name="first"):
    return f'initial_state: {{ name: "{name}" data_type: {kind} dims: {dims} {what} }}'


def batching(*parts, strategy="direct { }"):
    return f"sequence_batching {{ {strategy} {IDLE} {' '.join(parts)} }}"


def make_stateful(repository, name, scheduling, kind="TYPE_INT32", max_batch_size=0, decoupled=False, files=None, kind_of_instance="KIND_CPU"):
    """Adds up INPUT in its state, as the request's parameters say."""
    directory = repository / name
    (directory / "1").mkdir(parents=True)
    more = "model_transaction_policy { decoupled: true }" if decoupled else ""
    tensors = " ".join(f'{what}put {{ name: "{what.upper()}PUT" data_type: {kind} dims: [ -1 ] }}' for what in ("in", "out"))
    text = f'backend: "stateful" max_batch_size: {max_batch_size} {tensors} {scheduling} {more} instance_group {{ count: 1 kind: {kind_of_instance} }}'
    (directory / "config.pbtxt").write_text(text)
    for path, content in (files or {}).items():
        (directory / "initial_state").mkdir(exist_ok=True)
        (directory / "initial_state" / path).write_bytes(content)
    return directory


def make_onnx(repository, name, strategy="direct { }", max_batch_size=0, grows=False, shown=False, more=""):
    """SUM = INPUT + (START ? 0 : STATE_IN), which is the next state; or INPUT behind the state. `shown`: STATE_OUT is an output, too."""
    batch, width = (["n"] if max_batch_size else []), ["w"] if grows else [1]
    directory = repository / name
    (directory / "1").mkdir(parents=True)
    tensor_of = lambda name, shape: helper.make_tensor_value_info(name, TensorProto.FLOAT, batch + shape)  # noqa: E731
    if grows:
        nodes = [helper.make_node("Concat", ["STATE_IN", "INPUT"], ["SUM"], axis=len(batch))]
        given = [tensor_of("INPUT", [1]), tensor_of("STATE_IN", ["s"])]
    else:
        nodes = [
            helper.make_node("Mul", ["START", "STATE_IN"], ["forgotten"]),
            helper.make_node("Sub", ["STATE_IN", "forgotten"], ["kept"]),
            helper.make_node("Add", ["kept", "INPUT"], ["SUM"]),
        ]
        given = [tensor_of("INPUT", [1]), tensor_of("STATE_IN", [1]), tensor_of("START", [1])]
    nodes.append(helper.make_node("Identity", ["SUM"], ["STATE_OUT"]))
    graph = helper.make_graph(nodes, name, given, [tensor_of("SUM", width), tensor_of("STATE_OUT", width)])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8), directory / "1/model.onnx")
    start = 'control_input [ { name: "START" control [ { kind: CONTROL_SEQUENCE_START fp32_false_true: [ 0, 1 ] } ] } ]'
    dims = "[ -1 ]" if grows else "[ 1 ]"
    outputs = " ".join(f'output {{ name: "{output}" data_type: TYPE_FP32 dims: {dims} }}' for output in ["SUM", *["STATE_OUT"] * shown])
    parts = [state("TYPE_FP32", dims, more), *([] if grows else [start])]
    config = ['backend: "onnxruntime"', f"max_batch_size: {max_batch_size}", 'input { name: "INPUT" data_type: TYPE_FP32 dims: [ 1 ] }', outputs]
    (directory / "config.pbtxt").write_text("\n".join([*config, batching(*parts, strategy=strategy), "instance_group { count: 1 kind: KIND_CPU }"]))
    return directory


def given(values, max_batch_size=0, datatype="INT32"):
    kind = {"INT32": np.int32, "FP32": np.float32, "BYTES": object}[datatype]
    data = np.array(values, kind).reshape((1, -1) if max_batch_size else (-1,))
    return triton.InferInput("INPUT", data.shape, datatype).set_data_from_numpy(data)


def ask(client, model, values, sequence=0, start=False, end=False, max_batch_size=0, datatype="INT32", outputs=None, **parameters):
    """One request; the answer."""
    outputs = [triton.InferRequestedOutput(name) for name in outputs] if outputs else None
    inputs = [given(values, max_batch_size, datatype)]
    return client.infer(model, inputs, outputs=outputs, sequence_id=sequence, sequence_start=start, sequence_end=end, parameters=parameters or None)


def step(client, model, values, sequence, output="OUTPUT", **options):
    """One request of a sequence; its output as a list."""
    return ask(client, model, values if isinstance(values, list) else [values], sequence, **options).as_numpy(output).reshape(-1).tolist()


def told(answer, name):
    """A parameter of a response."""
    found = answer.get_response().parameters[name]
    return getattr(found, found.WhichOneof("parameter_choice"))


def serve(side, make, tmp_path_factory, *flags):
    """A generator of a server with the models that `make` writes, for a fixture."""
    starter = SideStarter(side, side.backends(tmp_path_factory.mktemp("backends")), tmp_path_factory.mktemp("states"))
    repository = tmp_path_factory.mktemp("models")
    make(repository)
    try:
        yield starter(repository, flags=flags)
    finally:
        stop(starter)


__all__ = ["SIDES", "client_of", "controls"]
