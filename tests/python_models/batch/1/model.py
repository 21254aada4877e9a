# SPDX-License-Identifier: Apache-2.0
import numpy
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    """Answers how many requests its execution had."""

    def execute(self, requests):
        return [
            pb_utils.InferenceResponse([pb_utils.Tensor("OUTPUT0", numpy.array([[len(requests)]], numpy.int32))])
            for _ in requests
        ]
