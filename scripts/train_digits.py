#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Trains the classifier of model_repository/digits and writes it as ONNX.

Data: scikit-learn's handwritten digits (1797 grey images of 8 x 8 pixels, values 0 to 16). A quarter of them, chosen by
a fixed seed, is left out of the training; tests/e2e/frameworks/test_digits.py asks the server about that quarter.

    scripts/train_digits.py [output]            (scripts/setup --all installs what it needs)
"""
import pathlib
import sys

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from sklearn.neural_network import MLPClassifier

SEED = 7
OUTPUT = pathlib.Path(__file__).parent.parent / "model_repository/digits/1/model.onnx"


def split():
    """Images [n, 64] of float32 and labels [n]: training images, test images, training labels, test labels."""
    digits = load_digits()
    return train_test_split(
        digits.data.astype(np.float32), digits.target, test_size=0.25, random_state=SEED, stratify=digits.target
    )


def train():
    images, test_images, labels, test_labels = split()
    model = MLPClassifier(hidden_layer_sizes=(48,), max_iter=800, random_state=SEED, alpha=1e-2)
    model.fit(images / 16, labels)
    return model, model.score(test_images / 16, test_labels)


def to_onnx(model):
    """image FP32 [batch, 64] -> probabilities FP32 [batch, 10], digit INT64 [batch]."""
    constants = {"scale": np.float32(1 / 16)}
    nodes = [helper.make_node("Mul", ["image", "scale"], ["layer0"])]
    last = len(model.coefs_) - 1
    for i, (weights, bias) in enumerate(zip(model.coefs_, model.intercepts_)):
        constants[f"weights{i}"] = weights.astype(np.float32)
        constants[f"bias{i}"] = bias.astype(np.float32)
        nodes.append(helper.make_node("Gemm", [f"layer{i}", f"weights{i}", f"bias{i}"], [f"sum{i}"]))
        if i < last:
            nodes.append(helper.make_node("Relu", [f"sum{i}"], [f"layer{i + 1}"]))
    nodes.append(helper.make_node("Softmax", [f"sum{last}"], ["probabilities"], axis=1))
    nodes.append(helper.make_node("ArgMax", [f"sum{last}"], ["digit"], axis=1, keepdims=0))
    graph = helper.make_graph(
        nodes,
        "digits",
        [helper.make_tensor_value_info("image", TensorProto.FLOAT, ["batch", 64])],
        [
            helper.make_tensor_value_info("probabilities", TensorProto.FLOAT, ["batch", 10]),
            helper.make_tensor_value_info("digit", TensorProto.INT64, ["batch"]),
        ],
        [numpy_helper.from_array(np.asarray(value), name) for name, value in constants.items()],
    )
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    onnx.checker.check_model(made)
    return made


def main():
    output = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else OUTPUT
    model, accuracy = train()
    output.parent.mkdir(parents=True, exist_ok=True)
    onnx.save(to_onnx(model), output)
    print(f"{output}: accuracy {accuracy:.4f} on the images left out")


if __name__ == "__main__":
    main()
