# SPDX-License-Identifier: Apache-2.0
"""NVIDIA's server of 2.51 with GPUs that are played: its CUDA runtime is ours (tests/fakes/gpu/cudart.c), on the same driver as nereid's.

    side = TritonWithGPUs(gpus)       # or NereidWithGPUs(gpus)
    server = SideStarter(side, side.backends(directory), directory)(repository, flags=["--load-model=m"])

It has devices, pools, instances of KIND_GPU, CUDA shared memory. Kernels and managed memory are refused, and DCGM does not start.
"""
from conftest import BUILD
from grpc_sides import NereidOverGrpc, TritonOverGrpc

RUNTIME = BUILD / "tests/fakes/gpu/runtime"


class NereidWithGPUs(NereidOverGrpc):
    def __init__(self, gpus):
        self.variables = NereidOverGrpc.variables | gpus.variables


class TritonWithGPUs(TritonOverGrpc):
    def __init__(self, gpus):
        own = TritonOverGrpc.variables
        path = f"{gpus.variables['LD_LIBRARY_PATH']}:{RUNTIME}:{own['LD_LIBRARY_PATH']}"
        self.variables = own | gpus.variables | {"LD_LIBRARY_PATH": path, "LD_PRELOAD": str(RUNTIME / "libcudart.so.12")}


SIDES = {"nereid": NereidWithGPUs} if BUILD.name == "tsan" else {"nereid": NereidWithGPUs, "triton": TritonWithGPUs}
