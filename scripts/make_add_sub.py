#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes model_repository/add_sub as ONNX: OUTPUT0 = INPUT0 + INPUT1, OUTPUT1 = INPUT0 - INPUT1, FP32 [batch, 16].

scripts/make_add_sub.py [output]
"""
import pathlib
import sys

import onnx
from onnx import TensorProto, helper

OUTPUT = pathlib.Path(__file__).parent.parent / "model_repository/add_sub/1/model.onnx"


def tensor(name):
    return helper.make_tensor_value_info(name, TensorProto.FLOAT, ["batch", 16])


def main():
    output = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else OUTPUT
    graph = helper.make_graph(
        [
            helper.make_node("Add", ["INPUT0", "INPUT1"], ["OUTPUT0"]),
            helper.make_node("Sub", ["INPUT0", "INPUT1"], ["OUTPUT1"]),
        ],
        "add_sub",
        [tensor("INPUT0"), tensor("INPUT1")],
        [tensor("OUTPUT0"), tensor("OUTPUT1")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    onnx.checker.check_model(model)
    output.parent.mkdir(parents=True, exist_ok=True)
    onnx.save(model, output)
    print(output)


if __name__ == "__main__":
    main()
