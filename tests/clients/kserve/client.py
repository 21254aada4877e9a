# SPDX-License-Identifier: Apache-2.0
"""KServe's own client for the v2 protocol, over gRPC and HTTP. Asks the server at the addresses that are its arguments and prints
the answers as one JSON object, which tests/e2e/grpc/test_grpc_languages.py judges.
"""
import asyncio
import json
import logging
import sys

import grpc
import httpx
import numpy
from kserve import InferenceGRPCClient, InferenceRESTClient, InferInput, InferRequest
from kserve.inference_client import RESTConfig
from kserve.logging import logger, trace_logger


def number(model, *values):
    return InferRequest(model, [InferInput("INPUT0", [1, len(values)], "INT32", data=list(values))], request_id="r")


def tensor(datatype, data):
    one = InferInput("INPUT0", list(data.shape), datatype)
    one.set_data_from_numpy(data, binary_data=True)
    return InferRequest(f"t_{datatype.lower()}", [one])


def values(response):
    return response.outputs[0].as_numpy().ravel().tolist()


async def over_grpc(address, out):
    async with InferenceGRPCClient(address) as client:
        out["ready"] = await client.is_server_ready() and await client.is_server_live() and await client.is_model_ready("t_int32")
        out["typed"] = values(await client.infer(number("t_int32", 1, -2, 3)))
        words = numpy.array([["ü".encode(), b"", b"three"]], object)
        out["texts"] = [text if isinstance(text, str) else text.decode() for text in values(await client.infer(tensor("BYTES", words)))]
        try:
            await client.infer(number("none", 1))
        except grpc.RpcError as error:
            out["unknown"] = {"code": error.code().value[0], "text": error.details()}


async def over_http(url, out):
    async with InferenceRESTClient(RESTConfig(protocol="v2")) as client:
        out["http ready"] = [await client.is_model_ready(url, "t_int32"), await client.is_model_ready(url, "none")]
        response = await client.infer(url, number("t_int32", 1, -2, 3), model_name="t_int32")
        out["http json"] = [response.id, values(response)]
        data = numpy.arange(1000, dtype=numpy.float32).reshape(1, -1)
        out["http binary"] = values(await client.infer(url, tensor("FP32", data), model_name="t_fp32")) == data.ravel().tolist()
        try:
            await client.infer(url, number("none", 1), model_name="none")
        except httpx.HTTPStatusError as error:
            out["http unknown"] = error.response.status_code


async def main(grpc_address, http_address):
    for noisy in (logger, trace_logger):
        noisy.setLevel(logging.CRITICAL)
    out = {}
    await over_grpc(grpc_address, out)
    await over_http(f"http://{http_address}", out)
    print(json.dumps(out))


asyncio.run(main(*sys.argv[1:]))
