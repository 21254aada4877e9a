#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes the models of tests/models/tensorflow, which are committed. Needs TensorFlow (pip install tensorflow-cpu), which the tests themselves do not:
they serve what this has made.

Usage: scripts/make_tensorflow_models.py [FOLDER]
       scripts/make_tensorflow_models.py --busy FOLDER      a model for bench/tensorflow.py instead: 8 multiplications of [n, 512] with [512, 512]
"""
import os
import shutil
import sys
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")
import tensorflow as tf  # noqa: E402

v1 = tf.compat.v1
TYPES = {"BOOL": tf.bool, "UINT8": tf.uint8, "UINT16": tf.uint16, "UINT32": tf.uint32, "UINT64": tf.uint64, "INT8": tf.int8, "INT16": tf.int16,
         "INT32": tf.int32, "INT64": tf.int64, "FP16": tf.float16, "FP32": tf.float32, "FP64": tf.float64, "BYTES": tf.string}


def signature(inputs, outputs):
    info = v1.saved_model.utils.build_tensor_info
    return v1.saved_model.signature_def_utils.build_signature_def({n: info(t) for n, t in inputs.items()}, {n: info(t) for n, t in outputs.items()},
                                                                  "tensorflow/serving/predict")


def save(folder, parts):
    """`parts` is a list of (tags, function); the function builds a graph and gives {name of the signature: (inputs, outputs)}."""
    builder = v1.saved_model.builder.SavedModelBuilder(str(folder))
    for index, (tags, build) in enumerate(parts):
        with v1.Graph().as_default(), v1.Session() as session:
            signatures = {name: signature(*tensors) for name, tensors in build().items()}
            session.run([v1.global_variables_initializer(), v1.tables_initializer()])
            options = {"signature_def_map": signatures, "main_op": v1.tables_initializer(), "strip_default_attrs": True}
            if index == 0:
                builder.add_meta_graph_and_variables(session, tags, **options)
            else:
                builder.add_meta_graph(tags, **options)
    builder.save()


def placeholder(name, dtype, shape):
    return v1.placeholder(dtype, shape, name=name)


def add():
    x, y = placeholder("x", tf.float32, [None, 4]), placeholder("y", tf.float32, [None, 4])
    return {"serving_default": ({"x": x, "y": y}, {"sum": x + y, "difference": x - y})}


def types():
    inputs = {name: placeholder(name, dtype, [None, 2]) for name, dtype in TYPES.items()}
    return {"serving_default": (inputs, {f"{name}_out": tf.identity(tensor) for name, tensor in inputs.items()})}


def brain():
    x = placeholder("x", tf.bfloat16, [None, 2])
    return {"serving_default": ({"x": x}, {"y": tf.cast(x, tf.float32)})}


def strings():
    s = placeholder("s", tf.string, [None, 2])
    return {"serving_default": ({"s": s}, {"doubled": tf.strings.join([s, s]), "length": tf.strings.length(s)})}


def shapes():
    """Without a batch: fixed dimensions, a scalar, and one that names no shape."""
    fixed, scalar, any_rank = placeholder("fixed", tf.float32, [2, 3]), placeholder("scalar", tf.float32, []), placeholder("any", tf.float32, None)
    return {"serving_default": ({"fixed": fixed, "scalar": scalar, "any": any_rank},
                                {"turned": tf.transpose(fixed) * scalar, "half": scalar / 2, "any_out": any_rank + 1})}


def fails():
    index = placeholder("index", tf.int32, [None])
    return {"serving_default": ({"index": index}, {"value": tf.gather(tf.constant([10.0, 20.0, 30.0]), index)})}


def counts():
    """How often it ran: what a session remembers."""
    step = placeholder("step", tf.int64, [1])
    total = v1.get_variable("total", shape=[1], dtype=tf.int64, initializer=v1.zeros_initializer(), use_resource=True)
    return {"serving_default": ({"step": step}, {"total": total.assign_add(step).read_value()})}


def keeps():
    """Gives what the run before was given."""
    value = placeholder("value", tf.float32, [64])
    kept = v1.get_variable("kept", shape=[64], initializer=v1.zeros_initializer(), use_resource=True)
    before = tf.identity(kept.read_value() + 0)
    with tf.control_dependencies([before]):
        kept_now = kept.assign(value)
    with tf.control_dependencies([kept_now.op if hasattr(kept_now, "op") else kept_now]):
        return {"serving_default": ({"value": value}, {"before": tf.identity(before)})}


def sequence():
    """A sum over the sequence, whose state the server keeps."""
    value, state = placeholder("value", tf.float32, [None, 1]), placeholder("state", tf.float32, [None, 1])
    start = placeholder("start", tf.int32, [None, 1])
    total = value + tf.where(start > 0, tf.zeros_like(state), state)
    return {"serving_default": ({"value": value, "state": state, "start": start}, {"total": tf.identity(total), "next_state": tf.identity(total)})}


def ragged():
    values, counts = placeholder("values", tf.float32, [None]), placeholder("counts", tf.float32, [None])
    ids = tf.repeat(tf.range(tf.shape(counts)[0]), tf.cast(counts, tf.int32))
    return {"serving_default": ({"values": values, "counts": counts}, {"sums": tf.expand_dims(tf.math.segment_sum(values, ids), 1)})}


def scaled(factor):
    def build():
        x = placeholder("x", tf.float32, [None, 1])
        weight = v1.get_variable("weight", shape=[1], initializer=v1.ones_initializer(), use_resource=True)
        return {"serving_default": ({"x": x}, {"y": x * weight * factor}), "negative": ({"x": x}, {"y": -x * weight * factor})}
    return build


def table(folder):
    words = folder.parent / "words.txt"
    words.write_text("zero\none\ntwo\n")

    class Words(tf.Module):
        def __init__(self):
            self.table = tf.lookup.StaticVocabularyTable(tf.lookup.TextFileInitializer(
                tf.saved_model.Asset(str(words)), tf.string, tf.lookup.TextFileIndex.WHOLE_LINE, tf.int64, tf.lookup.TextFileIndex.LINE_NUMBER), 1)

        @tf.function(input_signature=[tf.TensorSpec([None, 1], tf.string, "word")])
        def number(self, word):
            return {"number": self.table.lookup(word)}

    module = Words()
    tf.saved_model.save(module, str(folder), signatures=module.number)
    words.unlink()


def graph():
    with v1.Graph().as_default() as made:
        x, y = placeholder("INPUT0", tf.int32, [None, 4]), placeholder("INPUT1", tf.int32, [None, 4])
        placeholder("UNUSED", tf.int32, [None, 4])
        tf.add(x, y, name="OUTPUT0")
        tf.subtract(x, y, name="OUTPUT1")
    return made.as_graph_def().SerializeToString()


def graph_with_variable():
    with v1.Graph().as_default() as made:
        x = placeholder("INPUT", tf.float32, [None, 1])
        weight = v1.get_variable("weight", shape=[], initializer=v1.constant_initializer(3.0), use_resource=True)
        v1.global_variables_initializer()
        tf.identity(x * weight, name="OUTPUT")
    return made.as_graph_def().SerializeToString()


def busy():
    x = y = placeholder("x", tf.float32, [None, 512])
    for layer in range(8):
        y = tf.matmul(y, v1.get_variable(f"weight{layer}", shape=[512, 512], initializer=v1.random_normal_initializer(0, 512**-0.5), use_resource=True))
    return {"serving_default": ({"x": x}, {"y": tf.identity(y, name="y")})}


def main():
    if sys.argv[1:2] == ["--busy"]:
        return save(Path(sys.argv[2]), [(["serve"], busy)])
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else Path(__file__).resolve().parents[1] / "tests" / "models" / "tensorflow")
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    for build in (add, types, brain, strings, shapes, fails, counts, keeps, sequence, ragged):
        save(folder / build.__name__, [(["serve"], build)])
    save(folder / "tags", [(["serve"], scaled(2)), (["other"], scaled(10))])
    table(folder / "table")
    (folder / "graph.graphdef").write_bytes(graph())
    (folder / "variable.graphdef").write_bytes(graph_with_variable())
    print(sum(p.stat().st_size for p in folder.rglob("*") if p.is_file()), "bytes in", folder)


if __name__ == "__main__":
    main()
