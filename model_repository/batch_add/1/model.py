# SPDX-License-Identifier: Apache-2.0
"""OUTPUT0 = INPUT0 + INPUT1, and a line in the log for each batch."""
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def initialize(self, args):
        self.name = args["model_name"]

    def execute(self, requests):
        rows = 0
        responses = []
        for request in requests:
            first = pb_utils.get_input_tensor_by_name(request, "INPUT0").as_numpy()
            second = pb_utils.get_input_tensor_by_name(request, "INPUT1").as_numpy()
            rows += len(first)
            total = pb_utils.Tensor("OUTPUT0", first + second)
            responses.append(pb_utils.InferenceResponse([total]))
        pb_utils.Logger.log_info(f"{self.name}: a batch of {len(requests)} requests, {rows} rows")
        return responses
