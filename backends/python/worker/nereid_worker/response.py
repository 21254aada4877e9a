# SPDX-License-Identifier: Apache-2.0
"""InferenceResponse, and parameters, which requests and responses have in common."""

import json

from .errors import TritonError, TritonModelException
from .tensor import Tensor


def _check(key, what, text):
    """Raises unless the server can hold this parameter's text."""
    if "\0" in text:
        raise TritonModelException(f"{what} cannot contain NUL: {key!r:.200}")
    try:
        text.encode()
    except UnicodeEncodeError:
        raise TritonModelException(f"{what} cannot contain surrogates: {key!r:.200}") from None


def parameters_text(parameters):
    """A dict of parameters as JSON; empty for none."""
    if not parameters:
        return ""
    if not isinstance(parameters, dict):
        raise TypeError(f"parameters must be a dict, not {type(parameters).__name__}")
    for key, value in parameters.items():
        if not isinstance(key, str):
            raise TritonModelException(f"Expect parameters keys to have type str, found type {type(key)}")
        if not isinstance(value, (bool, int, str)):
            raise TritonModelException(
                f"Expect parameters values to have type bool/int/str, found type {type(value)}"
            )
        _check(key, "the name of a parameter", key)
        if isinstance(value, str):
            _check(key, "the value of a parameter", value)
        elif not -(1 << 63) <= value < 1 << 63:
            bits = value.bit_length() + 1
            raise TritonModelException(f"parameter {key!r:.200} needs {bits} bits, an integer has 64")
    return json.dumps(parameters)


class InferenceResponse:
    """InferenceResponse(output_tensors, error, parameters): tensors or an error."""

    __slots__ = ("_tensors", "_error", "_parameters", "__weakref__")

    def __init__(self, output_tensors=(), error=None, parameters=None):
        tensors = list(output_tensors)
        for tensor in tensors:
            if not isinstance(tensor, Tensor):
                _refuse(tensor)
        if error is not None and not isinstance(error, TritonError):
            raise TypeError(f"InferenceResponse(): the error must be a TritonError, not {type(error).__name__}")
        self._tensors = tensors
        self._error = error
        self._parameters = "" if parameters is None else parameters_text(parameters)

    def output_tensors(self):
        return self._tensors[:]

    def has_error(self):
        return self._error is not None

    def error(self):
        return self._error

    def parameters(self):
        return self._parameters or "{}"


def _refuse(tensor):
    if tensor is None:
        raise TritonModelException("Output tensor for inference response should not be empty.")
    raise TypeError(f"InferenceResponse(): output_tensors must hold Tensor objects, found {type(tensor).__name__}")
