# SPDX-License-Identifier: Apache-2.0
"""The module that models import, usually as pb_utils: the names and signatures of Triton's Python backend.

docs/python.md lists them.
"""

import numpy as np

import _nereid
from nereid_worker.control import is_model_ready, load_model, unload_model
from nereid_worker.errors import TritonError, TritonModelException
from nereid_worker.logger import Logger
from nereid_worker.metrics import Metric, MetricFamily, MetricKind
from nereid_worker.model_config import ModelConfig
from nereid_worker.request import MEMORY_CPU as TRITONSERVER_MEMORY_CPU
from nereid_worker.request import MEMORY_GPU as TRITONSERVER_MEMORY_GPU
from nereid_worker.request import InferenceRequest, InferenceTrace, PreferredMemory, ResponseIterator
from nereid_worker.response import InferenceResponse
from nereid_worker.sender import InferenceResponseSender
from nereid_worker.tensor import BYTES, TRITON_TO_NUMPY, Tensor

TRITONSERVER_REQUEST_FLAG_SEQUENCE_START = 1
TRITONSERVER_REQUEST_FLAG_SEQUENCE_END = 2
TRITONSERVER_RESPONSE_COMPLETE_FINAL = 1
TRITONSERVER_REQUEST_RELEASE_ALL = 1
TRITONSERVER_REQUEST_RELEASE_RESCHEDULE = 2

TRITON_STRING_TO_NUMPY = {
    "TYPE_BOOL": bool,
    "TYPE_UINT8": np.uint8,
    "TYPE_UINT16": np.uint16,
    "TYPE_UINT32": np.uint32,
    "TYPE_UINT64": np.uint64,
    "TYPE_INT8": np.int8,
    "TYPE_INT16": np.int16,
    "TYPE_INT32": np.int32,
    "TYPE_INT64": np.int64,
    "TYPE_FP16": np.float16,
    "TYPE_FP32": np.float32,
    "TYPE_FP64": np.float64,
    "TYPE_STRING": np.object_,
}

_model_dir = None

# Messages and tracebacks name these classes with their module in Triton.
for _public in (
    InferenceRequest,
    InferenceResponse,
    InferenceResponseSender,
    InferenceTrace,
    Logger,
    Metric,
    MetricFamily,
    MetricKind,
    PreferredMemory,
    ResponseIterator,
    Tensor,
    TritonError,
    TritonModelException,
):
    _public.__module__ = "c_python_backend_utils"


def get_model_dir():
    """The directory of the model's version."""
    return _model_dir


def get_input_tensor_by_name(inference_request, name):
    """The request's input with that name, or None."""
    for tensor in inference_request.inputs():
        if tensor.name() == name:
            return tensor
    return None


def get_output_tensor_by_name(inference_response, name):
    """The response's output with that name, or None."""
    for tensor in inference_response.output_tensors():
        if tensor.name() == name:
            return tensor
    return None


def _config_by_name(model_config, kind, name):
    for properties in model_config.get(kind, ()):
        if properties["name"] == name:
            return properties
    return None


def get_input_config_by_name(model_config, name):
    """The input with that name in a configuration (a dict), or None."""
    return _config_by_name(model_config, "input", name)


def get_output_config_by_name(model_config, name):
    return _config_by_name(model_config, "output", name)


def using_decoupled_model_transaction_policy(model_config):
    return model_config.get("model_transaction_policy", {}).get("decoupled", False)


def triton_to_numpy_type(data_type):
    return TRITON_TO_NUMPY.get(data_type)


def numpy_to_triton_type(data_type):
    """Triton's number for a NumPy type or dtype, or None."""
    if data_type == np.bytes_:
        return BYTES
    for code, known in TRITON_TO_NUMPY.items():
        if data_type == known:
            return code
    return None


def triton_string_to_numpy(triton_type_string):
    """The NumPy type for "TYPE_FP32" and the like."""
    return TRITON_STRING_TO_NUMPY[triton_type_string]


def serialize_byte_tensor(input_tensor):
    """The elements of an array of bytes or other objects, each preceded by its length, in one bytes object."""
    if input_tensor.size == 0:
        return ()
    if input_tensor.dtype.kind == "S":
        input_tensor = input_tensor.astype(np.object_)
    if input_tensor.dtype != np.object_:
        return None
    return _nereid.serialize(np.ascontiguousarray(input_tensor))


def deserialize_bytes_tensor(encoded_tensor):
    """The one-dimensional array of bytes objects from serialize_byte_tensor's result."""
    encoded = bytes(encoded_tensor)
    decoded = np.empty(_nereid.fill(np.empty(0, np.object_), encoded), np.object_)
    _nereid.fill(decoded, encoded)
    return decoded
