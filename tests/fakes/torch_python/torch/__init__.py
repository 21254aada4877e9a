# SPDX-License-Identifier: Apache-2.0
"""As much of PyTorch as backends/pytorch/model.py calls, on NumPy: tests/e2e/frameworks/test_module_runtime.py. It keeps what it was told in `told`."""
import contextlib
import json
import types

import numpy

from . import nn  # noqa: F401

told = {"inference": False}


class Tensor(numpy.ndarray):
    def to(self, where):
        assert isinstance(where, device)
        return self

    def detach(self):
        return self

    def contiguous(self):
        return numpy.ascontiguousarray(self)


class device:  # noqa: N801
    def __init__(self, name):
        self.name = name


class _Capsule:
    """NumPy takes objects only."""

    def __init__(self, capsule):
        self.capsule = capsule

    def __dlpack__(self, **_):
        return self.capsule

    def __dlpack_device__(self):
        return 1, 0


def from_dlpack(capsule):
    return numpy.from_dlpack(_Capsule(capsule)).view(Tensor)


def cat(tensors):
    return numpy.concatenate(tensors).view(Tensor)


def split(tensor, rows):
    return [part.view(Tensor) for part in numpy.split(tensor, numpy.cumsum(rows)[:-1])]


def set_num_threads(count):
    told["threads"] = count


def set_num_interop_threads(count):
    told["interop"] = count


def compile(model, **options):  # noqa: A001
    told["compile"] = options
    return model


def load(path, map_location):
    assert isinstance(map_location, device)
    with open(path) as file:
        return json.load(file)


@contextlib.contextmanager
def inference_mode():
    told["inference"] = True
    yield
    told["inference"] = False


class _Script(nn.Module):
    def __init__(self, path):
        self.load_state_dict(load(path, device("cpu")))

    def forward(self, x):
        return x * self.factor


jit = types.SimpleNamespace(load=_Script)
