# SPDX-License-Identifier: Apache-2.0
import asyncio
import json

import numpy
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    """The sum of all responses of `repeat`, asked as often as the parameter `times` says, all at once."""

    async def execute(self, requests):
        return [await self.answer(request) for request in requests]

    async def answer(self, request):
        times = json.loads(request.parameters())["times"]
        values = pb_utils.get_input_tensor_by_name(request, "INPUT0")
        asked = [
            pb_utils.InferenceRequest(
                model_name="repeat", inputs=[values], requested_output_names=["OUTPUT0"]
            ).async_exec(decoupled=True)
            for _ in range(times)
        ]
        error, total = None, numpy.array([0])  # NumPy's integers are 64 bits wide, the configuration says 32
        for parts in await asyncio.gather(*asked):
            for part in parts:
                if part.has_error():
                    error = part.error()
                elif len(part.output_tensors()) > 0:
                    total += pb_utils.get_output_tensor_by_name(part, "OUTPUT0").as_numpy()
        if error is not None:
            return pb_utils.InferenceResponse(error=error)
        return pb_utils.InferenceResponse(output_tensors=[pb_utils.Tensor("OUTPUT0", total)])
