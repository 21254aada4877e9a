# SPDX-License-Identifier: Apache-2.0
"""Requests for inferences that a server must refuse: made of a good one, each with one thing wrong."""
import struct

from tritonclient.grpc import service_pb2


def request(model="t_int32", datatype="INT32", shape=(1, 2), raw=b"\1\0\0\0\2\0\0\0", name="INPUT0", **fields):
    made = service_pb2.ModelInferRequest(model_name=model, **fields)
    made.inputs.add(name=name, datatype=datatype, shape=shape)
    if raw is not None:
        made.raw_input_contents.append(raw)
    return made


def typed(field, values, more=None, **fields):
    """Contents in the field of their type, and perhaps in another."""
    made = request(raw=None, **fields)
    getattr(made.inputs[0].contents, field).extend(values)
    for other, others in (more or {}).items():
        getattr(made.inputs[0].contents, other).extend(others)
    return made


def with_parameter(name, model="t_int32", **value):
    made = request(model)
    made.parameters[name].CopyFrom(service_pb2.InferParameter(**value))
    return made


def with_input_parameters(raw=None, **values):
    made = request(raw=raw)
    for name, value in values.items():
        made.inputs[0].parameters[name].CopyFrom(service_pb2.InferParameter(**value))
    return made


def with_output(name="OUTPUT0", **values):
    made = request()
    output = made.outputs.add(name=name)
    for key, value in values.items():
        output.parameters[key].CopyFrom(service_pb2.InferParameter(**value))
    return made


def twice():
    made = request()
    made.inputs.append(made.inputs[0])
    made.raw_input_contents.append(made.raw_input_contents[0])
    return made


def output_twice():
    made = with_output()
    made.outputs.append(made.outputs[0])
    return made


def raw_and_typed():
    made = request()
    made.inputs[0].contents.int_contents.append(1)
    return made


def more_raw_than_inputs():
    made = request()
    made.raw_input_contents.append(b"\0\0\0\0")
    return made


def no_inputs():
    return service_pb2.ModelInferRequest(model_name="t_int32")


def texts(*lengths):
    """The start of strings, whose lengths may be lies; each has two bytes."""
    return request("t_bytes", "BYTES", (1, len(lengths)), b"".join(struct.pack("<I", n) + b"ab" for n in lengths))


REGION = {"shared_memory_region": dict(string_param="r")}
SIZE = {"shared_memory_byte_size": dict(int64_param=8)}

BAD = {
    "an unknown model": request("none"),
    "no model": request(""),
    "an unknown version": request(model_version="7"),
    "no version": request(model_version="x"),
    "a version below 0": request(model_version="-2"),
    "a version and more": request(model_version="1x"),
    "a version with a dot": request(model_version="1.0"),
    "a version behind a blank": request(model_version=" 1"),
    "a decoupled model": request("repeat", shape=(2,)),
    "no inputs": no_inputs(),
    "an unknown input": request(name="WHAT"),
    "an input twice": twice(),
    "an input of no name": request(name=""),
    "another type": request(datatype="FP32"),
    "an unknown type": request(datatype="INT33"),
    "no type": request(datatype=""),
    "a small type": request(datatype="int32"),
    "too few dimensions": request(shape=(2,)),
    "too many dimensions": request(shape=(1, 2, 1)),
    "no dimensions": request(shape=()),
    "a dimension below 0": request(shape=(1, -2)),
    "a dimension of -1": request(shape=(1, -1)),
    "a batch too large": request(shape=(9, 1), raw=b"\0" * 36),
    "no rows": request(shape=(0, 2), raw=b""),
    "no rows of strings": request("t_bytes", "BYTES", (0, 2), b""),
    "no rows, and bytes": request(shape=(0, 2)),
    "no rows, nothing in them": request(shape=(0, 0), raw=b""),
    "no elements": request(shape=(1, 0), raw=b""),
    "no elements, not batched": request("flat", shape=(0,), raw=b""),
    "an element count beyond 64 bits": request(shape=(1, 2**62, 8)),
    "a byte too few": request(raw=b"\0" * 7),
    "a byte too many": request(raw=b"\0" * 9),
    "no bytes": request(raw=b""),
    "no data": request(raw=None),
    "raw and typed": raw_and_typed(),
    "more raw than inputs": more_raw_than_inputs(),
    "typed, too few": typed("int_contents", [1]),
    "typed, too many": typed("int_contents", [1, 2, 3]),
    "typed, of another type": typed("fp32_contents", [1, 2]),
    "typed, of two types": typed("int_contents", [1, 2], {"fp32_contents": [1, 2]}),
    "typed FP16": typed("fp32_contents", [1, 2], model="t_fp16", datatype="FP16"),
    "typed BF16": typed("fp32_contents", [1, 2], model="t_bf16", datatype="BF16"),
    "strings of too few bytes": texts(3),
    "a string of too many bytes": texts(1),
    "fewer strings than elements": request("t_bytes", "BYTES", (1, 2), struct.pack("<I", 1) + b"a"),
    "a length cut off": request("t_bytes", "BYTES", (1, 1), b"\1\0\0"),
    "an unknown output": with_output("WHAT"),
    "an output twice": output_twice(),
    "a reserved parameter": with_parameter("triton_x", string_param="x"),
    "an empty final response of text": with_parameter("triton_enable_empty_final_response", string_param="true"),
    "a sequence id too long": with_parameter("sequence_id", string_param="s" * 129),
    "a sequence id of a boolean": with_parameter("sequence_id", bool_param=True),
    "a sequence's start of a number": with_parameter("sequence_start", int64_param=1),
    "a sequence's end of a number": with_parameter("sequence_end", int64_param=1),
    "a priority of text": with_parameter("priority", string_param="1"),
    "a priority below 0": with_parameter("priority", int64_param=-1),
    "a timeout below 0": with_parameter("timeout", int64_param=-1),
    "a timeout of text": with_parameter("timeout", string_param="1"),
    "an unsigned parameter": with_parameter("mine", uint64_param=1),
    "a parameter of nothing": with_parameter("mine"),
    "an unknown region": with_input_parameters(**REGION, **SIZE),
    "a region without its size": with_input_parameters(**REGION),
    "a region of a number": with_input_parameters(shared_memory_region=dict(int64_param=1), **SIZE),
    "a size without its region": with_input_parameters(**SIZE),
    "a region's size of text": with_input_parameters(**REGION, shared_memory_byte_size=dict(string_param="8")),
    "an unknown region for an output": with_output(**REGION, **SIZE),
    "classes in memory": with_output(**REGION, **SIZE, classification=dict(int64_param=1)),
    "classes of text": with_output(classification=dict(string_param="1")),
    "classes below 0": with_output(classification=dict(int64_param=-1)),
}
