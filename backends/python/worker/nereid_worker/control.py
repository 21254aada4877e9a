# SPDX-License-Identifier: Apache-2.0
"""Models that load, unload and check other models."""

import struct

from . import calls
from .errors import TritonModelException


def _ask(failed, kind, flags, control):
    try:
        return calls.ask(kind, 0, flags, control)[0]
    except TritonModelException as problem:
        raise TritonModelException(f"{failed}: {problem}") from None


def _bytes(content):
    data = content.encode() if isinstance(content, str) else bytes(content)
    return struct.pack("=I", len(data)) + data


def load_model(model_name, config="", files=None):
    """Loads a model. A configuration (JSON) and files (path → bytes) replace those of the repository."""
    if files is not None and not isinstance(files, dict):
        raise TritonModelException(
            f"failed to load model '{model_name}', files should be a dictionary of file paths and file contents"
        )
    files = files or {}
    parts = [calls.text(model_name), calls.text(config), struct.pack("=I", len(files))]
    for path, content in files.items():
        parts.append(calls.text(path))
        parts.append(_bytes(content))
    _ask("Failed to load model", calls.MODEL_LOAD, 0, b"".join(parts))


def unload_model(model_name, unload_dependents=False):
    _ask("Failed to unload model", calls.MODEL_UNLOAD, int(bool(unload_dependents)), calls.text(model_name))


def is_model_ready(model_name, model_version=""):
    control = calls.text(model_name) + calls.text(model_version)
    return _ask("Failed to check model readiness", calls.MODEL_IS_READY, 0, control) == 1
