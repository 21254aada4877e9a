#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The openvino backend beside OpenVINO called in-process from C: bench/openvino.py LIBRARY [ROUNDS]

LIBRARY is libopenvino_c.so. The models are matrix multiplications: small has two of 64 by 64, large eight of 1024 by 1024. See in_process_side.py. Needs
build/release.
"""
import pathlib
import sys
import tempfile

import in_process_side
import models

SECONDS = 3
CONFIG = """backend: "openvino" max_batch_size: 32
input { name: "INPUT0" data_type: TYPE_FP32 dims: [ %d ] }
output { name: "OUTPUT0" data_type: TYPE_FP32 dims: [ %d ] }
instance_group { kind: KIND_CPU count: %d }
parameters { key: "INFERENCE_NUM_THREADS" value { string_value: "%d" } }
"""
LAYERS = {"small": (64, 2), "large": (1024, 8)}
# what, model, rows, connections; callers, threads and streams in-process are as many as the server's instances
CASES = [("small, 1 client", "small", 1, 1, 1), ("large, 1 client", "large", 1, 1, 1), ("small, saturated", "small", 1, 8, 2),
         ("large, saturated", "large", 1, 8, 2), ("large, 32 rows, saturated", "large", 32, 8, 2)]


def main():
    with tempfile.TemporaryDirectory(prefix="nereid-bench-") as scratch:
        measure(pathlib.Path(sys.argv[1]), pathlib.Path(scratch))


def measure(library, scratch):
    for name, (width, layers) in LAYERS.items():
        models.write_onnx(scratch / f"{name}.onnx", width, layers)
    served = {f"{name}_{count}": name for name in LAYERS for count in (1, 2)}

    def config(name):
        width, count = LAYERS[served[name]][0], int(name[-1])
        return CONFIG % (width, width, count, count)

    directory = in_process_side.folder([(name, "model.onnx", scratch / f"{file}.onnx") for name, file in served.items()], config)

    def case(what, model, rows, connections, callers):
        shape = [rows, LAYERS[model][0]]
        return (what, f"{model}_{callers}", [("INPUT0", shape)], "OUTPUT0", connections,
                lambda: in_process_side.in_process("openvino", library, scratch / f"{model}.onnx", callers, callers, callers, SECONDS, ",".join(map(str, shape))))

    in_process_side.compare("openvino", library, directory, [case(*row) for row in CASES], SECONDS, int(sys.argv[2]) if len(sys.argv) > 2 else 5)


if __name__ == "__main__":
    main()
