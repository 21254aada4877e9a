#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Gets frameworks and models for the tests from PyPI: of each package only the files that are needed, and no dependencies.

    scripts/framework_packages.py openvino treelite      the versions of the table below
    scripts/framework_packages.py openvino==2024.4.0     another one

A package becomes <directory>/<name>-<version> (--directory, otherwise the last of NEREID_FRAMEWORKS, or .deps), which is printed. What is there stays as it is. They are got side by side, with pip's settings
and its cache. The files are those for Python 3.11, whichever Python runs this: the libraries are the same for all.
"""
import argparse
import concurrent.futures
import fnmatch
import os
import pathlib
import platform
import shutil
import subprocess
import sys
import tempfile
import zipfile

ROOT = pathlib.Path(__file__).resolve().parents[1]
PYTHON = "3.11"
COMPLETE = ".complete"

# name: version, files
PACKAGES = {
    "onnxruntime": (None, ("onnxruntime/capi/libonnxruntime*",)),  # requirements.txt has it
    "openvino": ("2026.4.1", ("openvino/libs/*",)),
    "treelite": ("4.8.1", ("treelite/lib/*", "treelite.libs/*")),
    "tensorflow": ("2.21.0", ("tensorflow/libtensorflow_cc.so.2", "tensorflow/libtensorflow_framework.so.2")),
    # what its CUDA half needs is not there, so that half (600 MB) is not needed either; the headers are for the backend's shim
    "torch": ("2.15.0", ("torch/lib/lib[!t]*", "torch/lib/libtorch.so", "torch/lib/libtorch_cpu.so", "torch/include/*", "torch/version.py", "torch.libs/*")),
    # models that are known to be right, with their licences
    "basic-pitch": ("0.4.0", ("basic_pitch/saved_models/icassp_2022/nmp/*", "*/nmp.onnx", "*/nmp.tflite")),
    "silero-vad": ("6.2.3", ("silero_vad/data/*.onnx",)),
    "magika": ("1.0.3", ("magika/models/*", "magika/config/*")),
    "rapidocr-onnxruntime": ("1.4.4", ("rapidocr_onnxruntime/models/*",)),
}
# PyPI's tensorflow for this machine has CUDA in it, tensorflow-cpu has not and is there for no other machine
DISTRIBUTIONS = {"tensorflow": "tensorflow-cpu"} if platform.machine() == "x86_64" else {}


def version(name):
    return PACKAGES[name][0]


def get(name, wanted, directory):
    """Puts a package's files there; returns where."""
    target = directory / f"{name}-{wanted}"
    if (target / COMPLETE).exists():
        return target
    print(f"installing {name} {wanted} into {target}", file=sys.stderr)
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir(parents=True)
    with tempfile.TemporaryDirectory(dir=directory) as scratch:
        subprocess.run(
            [sys.executable, "-m", "pip", "download", "-q", "--disable-pip-version-check", "--no-deps", "--only-binary=:all:",
             f"--python-version={PYTHON}", f"--dest={scratch}", f"{DISTRIBUTIONS.get(name, name)}=={wanted}"],
            check=True,
        )
        (wheel,) = pathlib.Path(scratch).glob("*.whl")
        with zipfile.ZipFile(wheel) as archive:
            patterns = (*PACKAGES[name][1], "*.dist-info/*")  # its licence
            archive.extractall(target, [file for file in archive.namelist() if any(fnmatch.fnmatchcase(file, p) for p in patterns)])
    (target / COMPLETE).touch()
    return target


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--directory", type=pathlib.Path, default=ROOT / os.environ.get("NEREID_FRAMEWORKS", ".deps").split(":")[-1])
    parser.add_argument("package", nargs="+", help=f"one of {', '.join(PACKAGES)}, or with ==VERSION")
    arguments = parser.parse_args()
    unknown = [package for package in arguments.package if package.partition("==")[0] not in PACKAGES]
    if unknown:
        parser.error(f"{', '.join(unknown)}: not one of {', '.join(PACKAGES)}")
    wanted = [(name, given or version(name)) for name, _, given in (package.partition("==") for package in arguments.package)]
    arguments.directory.mkdir(parents=True, exist_ok=True)
    with concurrent.futures.ThreadPoolExecutor(len(wanted)) as pool:
        results = [(name, pool.submit(get, name, given, arguments.directory)) for name, given in wanted]
    for name, result in results:
        if result.exception() is None:
            print(result.result())
    failed = [f"{name} ({result.exception()})" for name, result in results if result.exception() is not None]
    if failed:
        sys.exit(f"{pathlib.Path(sys.argv[0]).name}: cannot be installed here: {', '.join(failed)}")


if __name__ == "__main__":
    main()
