# SPDX-License-Identifier: Apache-2.0
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    """Gives text back, whatever alphabet."""

    def execute(self, requests):
        responses = []
        for request in requests:
            text = pb_utils.get_input_tensor_by_name(request, "INPUT0").as_numpy()
            responses.append(pb_utils.InferenceResponse([pb_utils.Tensor("OUTPUT0", text[::-1].copy())]))
        return responses
