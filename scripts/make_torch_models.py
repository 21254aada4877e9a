#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes the PyTorch models of tests/models/torch, which are committed: scripts/make_torch_models.py [directory]
With --large FILE it makes the one for bench/pytorch.py instead.

It needs all of PyTorch (pip install torch numpy: 5 GB), a C++ compiler and strip; the tests need neither. The packages (.pt2) are
compiled for any processor, and lie unpacked in one archive, without what only debuggers read: tests pack them again.
"""
import io
import os
import pathlib
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from typing import Dict, List, Tuple

os.environ["ATEN_CPU_CAPABILITY"] = "default"
os.environ["TORCHINDUCTOR_CPP_MARCH"] = ""  # or the compiler takes whatever this machine has, for the code around the kernels

import torch  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[1]


class Linear(torch.nn.Module):
    """y = x W' + b, with W = 0..11 in three rows of four and b = 0, 1, 2."""

    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(4, 3)
        with torch.no_grad():
            self.layer.weight.copy_(torch.arange(12.0).reshape(3, 4))
            self.layer.bias.copy_(torch.arange(3.0))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layer(x)


class Two(torch.nn.Module):
    def forward(self, left: torch.Tensor, right: torch.Tensor) -> Tuple[torch.Tensor, torch.Tensor]:
        return left + right, (left - right).transpose(0, 1).contiguous().transpose(0, 1)


class Dictionary(torch.nn.Module):
    def forward(self, values: Dict[str, torch.Tensor]) -> torch.Tensor:
        return values["a"] * 2 + values["b"]


class Strings(torch.nn.Module):
    def forward(self, words: List[str]) -> Tuple[List[str], torch.Tensor]:
        lengths: List[int] = []
        louder: List[str] = []
        for word in words:
            lengths.append(len(word))
            louder.append(word.upper())
        return louder, torch.tensor(lengths)


class Shapes(torch.nn.Module):
    """A scalar, a list of tensors, and an error of its own: what a response cannot have."""

    def forward(self, which: torch.Tensor) -> torch.Tensor:
        if int(which[0]) == 1:
            raise ValueError("the model does not like this")
        return which.sum()


class Tensors(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> List[torch.Tensor]:
        return [x, x]


class Number(torch.nn.Module):
    def forward(self, x: torch.Tensor, rate: int) -> torch.Tensor:
        return x * rate


class State(torch.nn.Module):
    """A running sum, whose state the sequence batcher keeps."""

    def forward(self, x: torch.Tensor, state: torch.Tensor) -> Tuple[torch.Tensor, torch.Tensor]:
        total = x + state
        return total, total


class Counter(torch.nn.Module):
    """Keeps a state of its own: each instance counts for itself, unless they share."""

    def __init__(self):
        super().__init__()
        self.register_buffer("seen", torch.zeros(1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.seen += 1
        return self.seen + 0 * x


class NoForward(torch.nn.Module):
    @torch.jit.export
    def other(self, x: torch.Tensor) -> torch.Tensor:
        return x


class Named(torch.nn.Module):
    def forward(self, pair, extra, *, scale):
        return {"sum": (pair[0] + pair[1]) * scale, "extra": (extra["k"], extra["k"] * 2)}


def leave_out_debugging(path):
    """The same file of TorchScript without the places of its source on the machine that made it."""
    with zipfile.ZipFile(path) as source:
        kept = [(name, source.read(name)) for name in source.namelist() if not name.endswith(".debug_pkl")]
    with zipfile.ZipFile(path, "w") as target:
        for name, data in kept:
            target.writestr(zipfile.ZipInfo(name), data)


def members(package):
    """The members of a package without what only debuggers and readers of the code want."""
    with zipfile.ZipFile(package) as source:
        for name in source.namelist():
            data = source.read(name)
            if name.endswith(".cpp"):
                continue
            if name.endswith(".so"):
                with tempfile.NamedTemporaryFile() as file:
                    file.write(data)
                    file.flush()
                    subprocess.run(["strip", "--strip-unneeded", file.name], check=True)
                    data = pathlib.Path(file.name).read_bytes()
                prefix = sys.prefix.encode()  # of headers, in messages: nobody else's business
                data = data.replace(prefix, b"/" + b"x" * (len(prefix) - 1))
            yield name, data


def package(model, inputs, keywords, shapes, name, archive):
    exported = torch.export.export(model.eval(), inputs, keywords, dynamic_shapes=shapes)
    with tempfile.TemporaryDirectory() as directory:
        whole = os.path.join(directory, f"{name}.pt2")
        torch._inductor.aoti_compile_and_package(exported, package_path=whole)
        for member, data in members(whole):
            info = tarfile.TarInfo(member)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))


def main():
    if len(sys.argv) > 2 and sys.argv[1] == "--large":  # for bench/pytorch.py
        layers = [layer for _ in range(8) for layer in (torch.nn.Linear(1024, 1024), torch.nn.ReLU())]
        torch.jit.script(torch.nn.Sequential(*layers).eval()).save(sys.argv[2])
        return
    to = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ROOT / "tests/models/torch")
    to.mkdir(parents=True, exist_ok=True)
    scripts = dict(linear=Linear, two=Two, dictionary=Dictionary, strings=Strings, shapes=Shapes, tensors=Tensors, number=Number, state=State,
                   counter=Counter, no_forward=NoForward)
    for name, model in scripts.items():
        torch.jit.script(model().eval()).save(to / f"{name}.pt")
        leave_out_debugging(to / f"{name}.pt")
    batch = torch.export.Dim("batch", max=1024)
    left, right, extra, scale = (torch.ones(2, 3) * i for i in range(4))  # one tensor four times would be one input
    with torch.no_grad(), tarfile.open(to / "packages.tar.xz", "w:xz", preset=9) as archive:
        package(Linear(), (torch.ones(2, 4),), {}, {"x": {0: batch}}, "linear", archive)
        package(Named(), ((left, right), {"k": extra}), {"scale": scale}, None, "named", archive)


if __name__ == "__main__":
    main()
