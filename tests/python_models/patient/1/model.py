# SPDX-License-Identifier: Apache-2.0
import time

import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    """Works until its client gives up, and says so in the log."""

    def execute(self, requests):
        return [self.answer(request) for request in requests]

    def answer(self, request):
        pb_utils.Logger.log_info(f"patient: began {request.request_id()}")
        while not request.is_cancelled():
            time.sleep(0.01)
        pb_utils.Logger.log_info(f"patient: cancelled {request.request_id()}")
        return pb_utils.InferenceResponse(error=pb_utils.TritonError("given up", pb_utils.TritonError.CANCELLED))
