# SPDX-License-Identifier: Apache-2.0
"""One small model of each framework, what it is asked, and what that costs."""
import pathlib
import re
import shutil
import tempfile
from dataclasses import dataclass, field

import frameworks
import numpy as np
import proc
import tritonclient.http as triton
from conftest import BUILD, ROOT, Starter, link_backends, make_identity
from tritonclient.utils import np_to_triton_dtype

MODELS = ROOT / "tests/models"


@dataclass
class Small:
    source: pathlib.Path  # a file or a directory
    name: str             # of it in the version's directory
    inputs: dict
    outputs: dict         # as answered
    config: str           # besides what is read off the model
    completes: bool = True  # the backend reads tensors off the model
    cut: str = ""         # of a directory: the file that matters in it
    others: list = field(default_factory=list)  # what lies beside it, as (source, name)


TYPES = {"float32": "TYPE_FP32", "int32": "TYPE_INT32", "int64": "TYPE_INT64"}
ONE_TO_16 = np.arange(1, 17, dtype=np.float32)[None]
SUM = dict(inputs={"INPUT0": ONE_TO_16, "INPUT1": ONE_TO_16 * 2}, outputs={"OUTPUT0": ONE_TO_16 * 3, "OUTPUT1": -ONE_TO_16})
FOUR = np.array([[1, 2, 3, 4]], np.float32)

SMALL = {
    "onnxruntime": Small(ROOT / "model_repository/add_sub/1/model.onnx", "model.onnx", config='backend: "onnxruntime"', **SUM),
    "openvino": Small(ROOT / "model_repository/add_sub/1/model.onnx", "model.onnx", config='backend: "openvino" default_model_filename: "model.onnx"', **SUM),
    "tensorflow": Small(MODELS / "tensorflow/add", "model.savedmodel", {"x": FOUR, "y": FOUR * 2}, {"sum": FOUR * 3, "difference": -FOUR},
                        config='platform: "tensorflow_savedmodel"', cut="saved_model.pb"),
    # linear.pt: row n of its weights is 4n, 4n + 1, …, its bias n
    "pytorch": Small(ROOT / "tests/models/torch/linear.pt", "model.pt", {"x": FOUR}, {"y__0": np.array([[20, 61, 102]], np.float32)},
                     config='platform: "pytorch_libtorch"', completes=False),
    # answers.json has what XGBoost itself says of that row
    "fil": Small(ROOT / "tests/models/trees/xgboost_number.ubj", "xgboost.ubj",
                 {"input__0": np.array([[0.0012302, 0.2987455, -0.2741379, -0.8905919, -0.4546708]], np.float32)},
                 {"output__0": np.array([1.0834894], np.float32)}, completes=False,
                 config='backend: "fil" parameters { key: "model_type" value { string_value: "xgboost_ubj" } } '
                        'parameters { key: "is_classifier" value { string_value: "false" } }'),
}


def library_of(backend):
    return frameworks.LIBRARIES[backend][1]


def config_of(backend, **changes):
    """The whole configuration of a small model; `input` and `output` change their first tensor, `file` names another, `more` comes last."""
    small = SMALL[backend]
    lines = [small.config, "max_batch_size: 4"]
    if "file" in changes:
        lines[0] = re.sub("default_model_filename:.*", "", small.config) + f' default_model_filename: "{changes["file"]}"'
    for key, arrays in (("input", small.inputs), ("output", small.outputs)):
        for i, (name, array) in enumerate(arrays.items()):
            row = {"name": name, "type": TYPES[array.dtype.name], "dims": list(array.shape[1:]) or [1]} | (changes.get(key, {}) if i == 0 else {})
            lines.append(f'{key} {{ name: "{row["name"]}" data_type: {row["type"]} dims: {row["dims"]} }}')
    return "\n".join([*lines, changes.get("more", "")])


def add(repository, backend, name=None, config=None):
    """The small model of a framework; returns its version's directory."""
    small, model = SMALL[backend], repository / (name or f"small_{backend}")
    version = model / "1"
    version.mkdir(parents=True)
    for source, target in ((small.source, small.name), *small.others):
        (shutil.copytree if source.is_dir() else shutil.copy)(source, version / target)
    (model / "config.pbtxt").write_text(config or (small.config if small.completes else config_of(backend)))
    return version


def ask(server, backend, name=None):
    """One request to it; its answer is the right one."""
    small = SMALL[backend]
    with triton.InferenceServerClient(server.url) as client:
        inputs = [triton.InferInput(key, value.shape, np_to_triton_dtype(value.dtype)).set_data_from_numpy(value) for key, value in small.inputs.items()]
        result = client.infer(name or f"small_{backend}", inputs)
    for key, value in small.outputs.items():
        np.testing.assert_allclose(result.as_numpy(key), value, rtol=1e-5)


def resident(server):
    """MiB."""
    return proc.status(server.process.pid, "VmRSS") / 1024


def opened(server):
    """Seconds that it took to open the library of each backend."""
    text = server.ask("/metrics", port=server.metrics_port).text
    return {backend: float(value) for backend, value in re.findall(r'nereid_framework_open_seconds\{.*?backend="(\w+)".*?\} (\S+)', text)}


def measure(backend, library):
    """Of one library: seconds to open it, and the MiB that it and its model cost a server."""
    with tempfile.TemporaryDirectory() as directory:
        directory = pathlib.Path(directory)
        repository = directory / "models"
        (directory / "backends").mkdir()
        make_identity(repository, "identity")
        add(repository, backend)
        starter = Starter(BUILD / "bin/nereid", link_backends(directory / "backends", BUILD), directory)
        try:
            server = starter(repository, flags=["--model-control-mode=explicit", "--load-model=identity", f"--backend-config={backend},library={library}",
                                                    *(frameworks.settings("pytorch")[1:] if backend == "pytorch" else [])])
            before = resident(server)
            assert server.ask(f"/v2/repository/models/small_{backend}/load", b"{}").status == 200, server.log
            ask(server, backend)
            return opened(server)[backend], resident(server) - before
        finally:
            starter.stop_all()

