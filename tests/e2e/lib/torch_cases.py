# SPDX-License-Identifier: Apache-2.0
"""Repositories of PyTorch models for the tests: the files of tests/models/torch (scripts/make_torch_models.py) and configurations for them."""
import json
import pathlib
import re
import tarfile
import zipfile

FILES = pathlib.Path(__file__).resolve().parents[2] / "models/torch"
LINEAR = [[20, 61, 102], [44, 149, 254]]  # of [1, 2, 3, 4] and [5, 6, 7, 8]


def tensors(kind, *tensors):
    return "\n".join(f'{kind} {{ name: "{name}" data_type: TYPE_{type} dims: {list(dims)} }}' for name, type, dims in tensors)


def config(inputs, outputs, platform="pytorch_libtorch", batch=0, more=""):
    return f'backend: "pytorch"\nplatform: "{platform}"\nmax_batch_size: {batch}\n{tensors("input", *inputs)}\n{tensors("output", *outputs)}\n{more}'


def parameter(key, value):
    return f'parameters {{ key: "{key}" value {{ string_value: "{value}" }} }}\n'


def package(name, path, edit=lambda member, data: data, more=(), compression=zipfile.ZIP_STORED):
    """Packs one of the compiled models, whose members `edit` may change (None: leaves out)."""
    with tarfile.open(FILES / "packages.tar.xz") as archive, zipfile.ZipFile(path, "w", compression) as made:
        for member in archive.getmembers():
            if member.name.startswith(f"{name}/"):
                data = edit(member.name, archive.extractfile(member).read())
                if data is not None:
                    made.writestr(member.name, data)
        for member, data in more:
            made.writestr(f"{name}/data/aotinductor/model/{member}", data)
    return path


def with_metadata(**changed):
    """For `package`: other values of what it says it was made for."""
    def edit(member, data):
        return json.dumps(json.loads(data) | changed).encode() if member.endswith("_metadata.json") else data
    return edit


def with_code(script, path, code):
    """One of TorchScript's models with another body of its forward, which gives a tensor."""
    with zipfile.ZipFile(FILES / f"{script}.pt") as archive, zipfile.ZipFile(path, "w") as made:
        for member in archive.namelist():
            data = archive.read(member)
            made.writestr(member, re.sub(rb"(?s)-> .*", f"-> Tensor:\n    {code}\n".encode(), data) if member.endswith(".py") else data)


def save(repository, name, text, script=None, compiled=None, code=None, **how):
    """A model: of TorchScript, perhaps with other code, or compiled."""
    version = repository / name / "1"
    version.mkdir(parents=True)
    (repository / name / "config.pbtxt").write_text(text)
    if code is not None:
        with_code(script, version / "model.pt", code)
    elif script is not None:
        (version / "model.pt").write_bytes((FILES / f"{script}.pt").read_bytes())
    if compiled is not None:
        package(compiled, version / "model.pt2", **how)
    return version


X = ("x", "FP32", [4])
Y = ("y", "FP32", [3])
COMPILED = ("INPUT__0", "FP32", [4])
RESULT = ("OUTPUT__0", "FP32", [3])
