#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The tensorflow backend beside TensorFlow called in-process from C: bench/tensorflow.py LIBRARY BUSY PITCH [ROUNDS]

LIBRARY is libtensorflow_cc.so.2, BUSY what scripts/make_tensorflow_models.py --busy makes, PITCH the SavedModel of basic-pitch (its folder `nmp`). See
in_process_side.py. Needs build/release.
"""
import os
import pathlib
import sys

import in_process_side
import sides

SECONDS = 4
CONFIG = """platform: "tensorflow_savedmodel"
instance_group { kind: KIND_CPU count: 2 }
parameters { key: "TF_NUM_INTRA_THREADS" value { string_value: "1" } }
parameters { key: "MAX_SESSION_SHARE_COUNT" value { string_value: "2" } }
"""
ADD = sides.ROOT / "tests/models/tensorflow/add"


def case(library, what, model, inputs, output, folder, places, place, connections, callers):
    """In the graph: a folder, `places` of inputs, of the output. One thread for each caller's operators, as the server's instances have."""
    given = [f"{name}={','.join(map(str, shape))}" for name, shape in places]
    return what, model, inputs, output, connections, lambda: in_process_side.in_process("tensorflow", library, folder, callers, 1, SECONDS, place, *given)


def main():
    library, busy, pitch = map(pathlib.Path, sys.argv[1:4])
    os.environ["TF_CPP_MIN_LOG_LEVEL"] = "2"
    folders = {"add": ADD, "busy": busy, "busy1": busy, "pitch": pitch}
    directory = in_process_side.folder(  # one execution for each request, on both sides
        [(name, "model.savedmodel", source) for name, source in folders.items()], lambda name: CONFIG + "max_batch_size: %d\n" % (32 if name == "busy" else 1))
    pair, row = [1, 4], [1, 43844, 1]
    cases = [case(library, "add, 1 client", "add", [("x", pair), ("y", pair)], "sum", ADD, [("x:0", pair), ("y:0", pair)], "add:0", 1, 1)]
    for rows in (1, 32):
        shape = [rows, 512]
        cases.append(case(library, f"busy, {rows} rows, saturated", "busy" if rows > 1 else "busy1", [("x", shape)], "y", busy, [("x:0", shape)], "y:0", 8, 2))
    cases.append(case(library, "busy, 1 client", "busy1", [("x", [1, 512])], "y", busy, [("x:0", [1, 512])], "y:0", 1, 1))
    cases.append(case(library, "pitch, saturated", "pitch", [("input_2", row)], "note", pitch, [("serving_default_input_2:0", row)],
                      "StatefulPartitionedCall:1", 8, 2))
    in_process_side.compare("tensorflow", library, directory, cases, SECONDS, int(sys.argv[4]) if len(sys.argv) > 4 else 5)


if __name__ == "__main__":
    main()
