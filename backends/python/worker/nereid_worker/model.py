# SPDX-License-Identifier: Apache-2.0
"""Finds and imports the model's code, in the same way and with the same search path as Triton's stub."""

import gc
import importlib
import importlib.machinery
import json
import os
import sys

import _nereid

_MAX_TEXT = 1 << 20  # characters of an exception
_WORKER = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep


class LoadFailed(Exception):
    """A model cannot be used; the text says why."""


def import_utils():
    """triton_python_backend_utils, which needs NumPy. What is imported here stays, so the collector never looks at it: not now, nor
    each time that the model leaves garbage."""
    gc.disable()
    try:
        import triton_python_backend_utils as utils
    except ImportError as problem:
        version = ".".join(map(str, sys.version_info[:3]))
        raise LoadFailed(
            f"numpy is needed by Python models, and '{sys.executable}' (Python {version}) cannot import it: {problem}; install it there, "
            "or name another Python with --backend-config=python,python-executable=PATH"
        ) from None
    finally:
        gc.freeze()
        gc.enable()
    _nereid.use(
        utils.Tensor,
        utils.InferenceRequest,
        utils.InferenceResponse,
        utils.TritonError,
        utils.TritonModelException,
    )
    # Some libraries look for Triton's native module, which has the same names.
    sys.modules.setdefault("c_python_backend_utils", utils)
    return utils


def keep_unchanged(directory):
    """Stops Python from writing beside the model's modules: the next load or poll would see a change and load the model again."""
    loader, below = importlib.machinery.SourceFileLoader, os.path.join(directory, "")
    write = loader.set_data

    def set_data(self, path, data, **more):
        if not path.startswith(below):
            write(self, path, data, **more)

    loader.set_data = set_data


class Loaded:
    """A model's module, its class and, once it is initialized, its object."""

    def __init__(self, description):
        about = json.loads(description)
        self.instance_name = about["instance_name"]
        self.file = about["model_file"]
        self.utils = import_utils()
        self.utils._model_dir = os.path.join(about["model_path"], about["model_version"])
        keep_unchanged(about["model_path"])
        for directory in about["search"]:
            sys.path.append(directory)
        sys.path.append("")  # the server's working directory
        os.stat(self.file)  # the error names the missing file and the cause; import names only the module
        importlib.invalidate_caches()
        module = importlib.import_module(about["module"])
        self.kind = module.TritonPythonModel
        self.instance = None

    def has(self, name):
        return hasattr(self.kind, name)

    def complete(self, config):
        """The configuration (JSON) after the model's auto_complete_config."""
        described = self.utils.ModelConfig(config)
        if self.has("auto_complete_config"):
            described = self.kind.auto_complete_config(described)
        if not isinstance(described, self.utils.ModelConfig):
            raise LoadFailed(
                f"auto_complete_config function in model '{self.instance_name}' must return a valid pb.ModelConfig "
                "object."
            )
        return json.dumps(described._model_config)

    def initialize(self, arguments):
        args = json.loads(arguments)
        args.setdefault("model_instance_name", self.instance_name)
        outputs = json.loads(args["model_config"]).get("output", [])
        _nereid.set_outputs(frozenset(output["name"] for output in outputs))
        self.instance = self.kind()
        if hasattr(self.instance, "initialize"):
            self.instance.initialize(args)
            if args.get("model_instance_kind") == "GPU":
                _nereid.check_visible(int(args["model_instance_device_id"]))

    def is_ready(self):
        if not hasattr(self.instance, "is_ready"):
            return True
        return self.instance.is_ready()

    def finalize(self):
        """Drops the model's object, so that its __del__ runs: the process ends without the interpreter's own end."""
        instance, self.instance = self.instance, None
        if hasattr(instance, "finalize"):
            instance.finalize()


def _is_models(code):
    """Whether this is the model's code or a library's, neither the worker's nor the import system's."""
    file = code.co_filename
    return not file.startswith(_WORKER) and not file.startswith("<frozen importlib") and "/importlib/" not in file


def _own_frames_left_out(problem):
    """The traceback from the model's first frame on."""
    trace = problem.__traceback__
    while trace is not None and not _is_models(trace.tb_frame.f_code):
        trace = trace.tb_next
    return trace


def _said(problem):
    """str() of an exception of any kind, which may fail."""
    try:
        return str(problem)[:_MAX_TEXT]
    except BaseException as another:
        return f"<{type(another).__name__} in its __str__>"


def located(problem):
    """An exception and the model's frames that it passed, innermost first, in Triton's words. A syntax error names its file
    and line itself."""
    import traceback

    headline = f"{type(problem).__name__}: {_said(problem) or '<EMPTY MESSAGE>'}"
    text = ""
    for frame, line in reversed(list(traceback.walk_tb(problem.__traceback__))):
        if _is_models(frame.f_code):
            text += f"  {frame.f_code.co_filename}({line}): {frame.f_code.co_name}\n"
        if len(text) > _MAX_TEXT:
            break
    return f"{headline}\n\nAt:\n{text}" if text else headline


def reason_and_traceback(problem):
    """The short reason of a failed load, for the caller, and the full text for the log."""
    import traceback

    if isinstance(problem, LoadFailed):
        return str(problem), str(problem)
    lines = traceback.format_exception(type(problem), problem, _own_frames_left_out(problem))
    return located(problem).rstrip("\n"), "".join(lines)[:_MAX_TEXT]
