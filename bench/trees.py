#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The fil backend beside treelite called in-process from C: bench/trees.py LIBRARY MODELS [ROUNDS]

LIBRARY is libtreelite.so, MODELS a folder that scripts/make_tree_models.py --busy made. See in_process_side.py. Needs
build/release.
"""
import pathlib
import sys

import in_process_side

SECONDS = 3
CONFIG = """backend: "fil" max_batch_size: 32
input { name: "input__0" data_type: TYPE_FP32 dims: [ %d ] }
output { name: "output__0" data_type: TYPE_FP32 dims: [ 1 ] }
parameters { key: "model_type" value { string_value: "xgboost_ubj" } }
parameters { key: "is_classifier" value { string_value: "false" } }
parameters { key: "cpu_nthread" value { string_value: "1" } }
instance_group { kind: KIND_CPU count: 2 }
"""
FEATURES = {"small": 16, "large": 64}
# what, model, rows, connections, callers in-process
CASES = [("small, 1 row, 1 client", "small", 1, 1, 1), ("small, 32 rows, 1 client", "small", 32, 1, 1), ("large, 1 row, 1 client", "large", 1, 1, 1),
         ("large, 1 row, saturated", "large", 1, 8, 2), ("large, 32 rows, saturated", "large", 32, 8, 2)]


def main():
    library, models = map(pathlib.Path, sys.argv[1:3])
    directory = in_process_side.folder([(name, "xgboost.ubj", models / f"{name}.ubj") for name in FEATURES], lambda name: CONFIG % FEATURES[name])

    def case(what, model, rows, connections, callers):
        return (what, model, [("input__0", [rows, FEATURES[model]])], "output__0", connections,
                lambda: in_process_side.in_process("fil", library, models / f"{model}.ubj", callers, 1, SECONDS, rows))

    in_process_side.compare("fil", library, directory, [case(*row) for row in CASES], SECONDS, int(sys.argv[3]) if len(sys.argv) > 3 else 5)


if __name__ == "__main__":
    main()
