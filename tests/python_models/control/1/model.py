# SPDX-License-Identifier: Apache-2.0
import json

import numpy
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    """Loads and unloads other models: {"do": "load" | "unload" | "ready", "model": …, "config": …}."""

    def execute(self, requests):
        return [self.answer(request) for request in requests]

    def answer(self, request):
        parameters = json.loads(request.parameters())
        model = parameters["model"]
        if parameters["do"] == "load":
            pb_utils.load_model(model_name=model, config=parameters.get("config", ""))
        elif parameters["do"] == "unload":
            pb_utils.unload_model(model_name=model)
        ready = pb_utils.is_model_ready(model_name=model)
        return pb_utils.InferenceResponse([pb_utils.Tensor("OUTPUT0", numpy.array([ready], numpy.int32))])
