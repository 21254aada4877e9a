# SPDX-License-Identifier: Apache-2.0
"""Where the libraries are that the backends of frameworks open: scripts/setup puts them below .deps.

NEREID_FRAMEWORKS may name directories (a:b) that come first. In each, a package of the version that scripts/framework_packages.py names is taken, otherwise the only one.
"""
import os
import sys

import pytest
from conftest import ROOT, environment

sys.path.insert(0, str(ROOT / "scripts"))
import framework_packages  # noqa: E402

# backend: package, its library
LIBRARIES = {
    "onnxruntime": ("onnxruntime", "onnxruntime/capi/libonnxruntime.so*"),  # another than .venv's
    "openvino": ("openvino", "openvino/libs/libopenvino_c.so*"),
    "tensorflow": ("tensorflow", "tensorflow/libtensorflow_cc.so.2"),
    "pytorch": ("torch", "torch/lib/libtorch_cpu.so"),
    "fil": ("treelite", "treelite/lib/libtreelite.so"),
}


def package(name):
    """The directory of a package, or None."""
    wanted = f"{name}-{framework_packages.version(name)}"
    for directory in filter(None, os.environ.get("NEREID_FRAMEWORKS", "").split(":")):
        own = ROOT / directory
        found = [own / wanted] if (own / wanted).is_dir() else sorted(own.glob(f"{name}-[0-9]*"))
        if found:
            assert len(found) == 1, f"which of {found}?"
            return found[0]
    path = ROOT / ".deps" / wanted
    return path if (path / framework_packages.COMPLETE).exists() else None


def library(backend):
    """The library that a backend opens, or None."""
    name, pattern = LIBRARIES[backend]
    directory = package(name)
    return next(directory.glob(pattern), None) if directory else None


def others(backend, version):
    """The library of another version, in a list; an empty one where nobody put it."""
    name, pattern = LIBRARIES[backend]
    places = [*filter(None, os.environ.get("NEREID_FRAMEWORKS", "").split(":")), ".deps"]
    return [found for place in places for found in (ROOT / place / f"{name}-{version}").glob(pattern)][:1]


def version(backend):
    """Of that, as 2026.4.1; None where it is not there."""
    name = LIBRARIES[backend][0]
    directory = package(name)
    return directory.name.removeprefix(f"{name}-") if directory else None


def settings(*backends):
    """Flags with which the server finds those that are there; what PyTorch's backend compiles is kept with the builds, once for all."""
    flags = [f"--backend-config={backend},library={library(backend)}" for backend in backends if library(backend)]
    once = {"cache-dir": ROOT / "build/torch-shims", "compiler": ROOT / "tests/e2e/lib/compile_once"} if "pytorch" in backends else {}
    return flags + [f"--backend-config=pytorch,{name}={value}" for name, value in once.items()]


def variables():
    """For a server that gives OpenVINO a SavedModel: asked whether it is an IR, it asks for as much memory as a directory seems to have, gets none and goes on."""
    return {name: f"{value}:allocator_may_return_null=1" for name, value in environment().items() if name in ("ASAN_OPTIONS", "TSAN_OPTIONS")}


def needs(*packages_or_backends):
    """Marks a test that needs these."""
    names = [LIBRARIES[name][0] if name in LIBRARIES else name for name in packages_or_backends]
    missing = [name for name in names if package(name) is None]
    return pytest.mark.skipif(bool(missing), reason=f"without {', '.join(missing)}, which scripts/setup --all installs where PyPI has it for this machine")
