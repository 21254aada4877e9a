# SPDX-License-Identifier: Apache-2.0
import json

import numpy
import triton_python_backend_utils as pb_utils


def ask(model, values, **more):
    return pb_utils.InferenceRequest(
        model_name=model, requested_output_names=["OUTPUT0"], inputs=[pb_utils.Tensor("INPUT0", values)], **more
    )


def values_of(response):
    if response.has_error():
        raise pb_utils.TritonModelException(response.error().message())
    return pb_utils.get_output_tensor_by_name(response, "OUTPUT0").as_numpy()


class TritonPythonModel:
    """Asks the model that the request's parameter names; with `depth`, itself first, so many times."""

    def execute(self, requests):
        return [self.answer(request) for request in requests]

    def answer(self, request):
        parameters = json.loads(request.parameters())
        values = pb_utils.get_input_tensor_by_name(request, "INPUT0").as_numpy()
        depth = parameters.get("depth", 0)
        if depth > 0:
            inner = ask("bls", values, parameters={**parameters, "depth": depth - 1}).exec()
        else:
            decoupled = parameters.get("decoupled", False)
            inner = ask(parameters["model"], values).exec(decoupled=decoupled)
            if decoupled:
                parts = [values_of(part) for part in inner if len(part.output_tensors()) > 0]
                return pb_utils.InferenceResponse([pb_utils.Tensor("OUTPUT0", numpy.concatenate(parts))])
        if inner.has_error():
            return pb_utils.InferenceResponse(error=inner.error())
        return pb_utils.InferenceResponse([pb_utils.Tensor("OUTPUT0", values_of(inner) + depth)])
