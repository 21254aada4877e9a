# SPDX-License-Identifier: Apache-2.0
import asyncio

import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    """Asks `ints` and `bls` at once; the answer is the sum of theirs."""

    async def execute(self, requests):
        return [await self.answer(request) for request in requests]

    async def answer(self, request):
        values = pb_utils.get_input_tensor_by_name(request, "INPUT0")
        asked = [
            pb_utils.InferenceRequest(
                model_name=model, requested_output_names=["OUTPUT0"], inputs=[values], parameters={"model": "ints"}
            ).async_exec()
            for model in ("ints", "bls", "ints")
        ]
        answers = await asyncio.gather(*asked)
        for answer in answers:
            if answer.has_error():
                return pb_utils.InferenceResponse(error=answer.error())
        total = sum(pb_utils.get_output_tensor_by_name(answer, "OUTPUT0").as_numpy() for answer in answers)
        return pb_utils.InferenceResponse([pb_utils.Tensor("OUTPUT0", total)])
