# SPDX-License-Identifier: Apache-2.0
import json

import numpy
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    """Answers what it was told, as JSON: of itself by initialize, of the request by its members."""

    def initialize(self, args):
        self.arguments = args

    def execute(self, requests):
        return [self.answer(request) for request in requests]

    def answer(self, request):
        parameters = json.loads(request.parameters())
        if "code" in parameters:
            code = getattr(pb_utils.TritonError, parameters["code"])
            return pb_utils.InferenceResponse(error=pb_utils.TritonError("as you wish", code))
        if "raise" in parameters:
            raise ValueError(parameters["raise"])
        if "log" in parameters:
            for level in ("log_info", "log_warn", "log_error", "log_verbose"):
                getattr(pb_utils.Logger, level)(f"{level}: {parameters['log']}")
        told = {
            "arguments": self.arguments,
            "request_id": request.request_id(),
            "correlation_id": request.correlation_id(),
            "requested_output_names": list(request.requested_output_names()),
            "flags": request.flags(),
            "timeout": request.timeout(),
            "parameters": parameters,
        }
        text = numpy.array([json.dumps(told).encode()], numpy.object_)
        return pb_utils.InferenceResponse([pb_utils.Tensor("OUTPUT0", text)])
