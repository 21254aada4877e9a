#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The pytorch backend beside PyTorch called in-process from C: bench/pytorch.py LIBRARY LARGE [ROUNDS]

LIBRARY is libtorch_cpu.so, LARGE what scripts/make_torch_models.py --large makes (TorchScript). See in_process_side.py.
Needs build/release, and the shim in the user's cache.
"""
import os
import pathlib
import subprocess
import sys

import in_process_side
import sides

SECONDS = 4
SMALL = sides.ROOT / "tests/models/torch/linear.pt"
CONFIG = """platform: "pytorch_libtorch"
max_batch_size: %d
instance_group { kind: KIND_CPU count: 2 }
parameters { key: "INTRA_OP_THREAD_COUNT" value { string_value: "1" } }
input { name: "x" data_type: TYPE_FP32 dims: [ %d ] }
output { name: "y" data_type: TYPE_FP32 dims: [ -1 ] }
"""


def make_stubs(directory):
    """Empty libraries for those of CUDA's that the wheel names (the backend makes its own)."""
    for name in ("libcudart.so.13", "libcupti.so.13", "libcudart.so.12", "libcupti.so.12"):
        subprocess.run(["cc", "-shared", "-o", directory / name, f"-Wl,-soname,{name}", "-xc", "/dev/null"], check=True)
    return directory


def main():
    library, large = map(pathlib.Path, sys.argv[1:3])
    sizes = {"small": (1, 4), "large1": (1, 1024), "large": (32, 1024)}  # most rows, width
    directory = in_process_side.folder([("small", "model.pt", SMALL), ("large1", "model.pt", large), ("large", "model.pt", large)], lambda name: CONFIG % sizes[name])
    (directory / "stubs").mkdir()
    variables = {"LD_LIBRARY_PATH": f"{library.parent}:{make_stubs(directory / 'stubs')}", "OMP_NUM_THREADS": "1"}  # as set_num_threads sets it, in each thread
    cache = pathlib.Path(os.environ.get("XDG_CACHE_HOME", pathlib.Path.home() / ".cache")) / "nereid"

    def case(what, model, shape, file, connections, callers):
        """One thread for each caller's operators, as the server's instances have."""
        def other():
            shim = max(cache.glob("libnereid_torch-*.so"), key=os.path.getmtime)
            return in_process_side.in_process("pytorch", shim, file, callers, 1, SECONDS, ",".join(map(str, shape)), **variables)
        return what, model, [("x", shape)], "y", connections, other

    cases = [case("small, 1 client", "small", [1, 4], SMALL, 1, 1), case("small, saturated", "small", [1, 4], SMALL, 16, 2),
             case("large, 1 client", "large1", [1, 1024], large, 1, 1), case("large, saturated", "large1", [1, 1024], large, 8, 2),
             case("large, 32 rows, saturated", "large", [32, 1024], large, 8, 2)]
    in_process_side.compare("pytorch", library, directory, cases, SECONDS, int(sys.argv[3]) if len(sys.argv) > 3 else 5)


if __name__ == "__main__":
    main()
