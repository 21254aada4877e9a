# SPDX-License-Identifier: Apache-2.0
"""Triton's unmodified asynchronous clients, on nereid and on Triton 2.51: tritonclient.grpc.aio, and tritonclient.http.aio beside it."""
import asyncio
import json

import numpy as np
import pytest
import tritonclient.grpc.aio as grpc_aio
import tritonclient.http.aio as http_aio
from conftest import wait_for
from grpc_sides import DEADLINE, grpc_server, grpc_side, tensor  # noqa: F401 - fixtures
from tritonclient.http import InferInput
from tritonclient.utils import InferenceServerException


def ints(*values, name="INPUT0"):
    return [tensor(np.array(values, np.int32), name=name)]


def batch(*values):
    return [tensor(np.array([values], np.int32))]


@pytest.fixture
def run(grpc_server):
    """Runs a coroutine with a client; what hangs fails."""
    def run(work):
        async def with_client():
            async with grpc_aio.InferenceServerClient(f"127.0.0.1:{grpc_server.grpc_port}") as client:
                return await asyncio.wait_for(work(client), DEADLINE)

        return asyncio.run(with_client())

    return run


def test_many_inferences_at_once(run):
    async def work(client):
        assert await client.is_server_ready() and await client.is_model_ready("t_int32")
        return await asyncio.gather(*(client.infer("t_int32", batch(i), request_id=str(i)) for i in range(200)))

    for i, result in enumerate(run(work)):
        assert result.get_response().id == str(i) and result.as_numpy("OUTPUT0").tolist() == [[i]]


def test_options_of_an_inference(run):
    async def work(client):
        return await client.infer("tell", ints(1), request_id="r", timeout=7, headers={"x": "y"}, compression_algorithm="deflate",
                                  parameters={"text": "t"})

    got = json.loads(run(work).as_numpy("OUTPUT0")[0])
    assert (got["request_id"], got["timeout"], got["parameters"]["text"]) == ("r", 7, "t")


@pytest.mark.parametrize("model, options, status", [
    ("none", {}, "NOT_FOUND"), ("tell", {"parameters": {"code": "UNAVAILABLE"}}, "UNAVAILABLE"),
    ("slow", {"client_timeout": 0.1}, "DEADLINE_EXCEEDED"),
])
def test_errors(run, model, options, status):
    source = batch(1) if model == "slow" else ints(1)
    with pytest.raises(InferenceServerException) as raised:
        run(lambda client: client.infer(model, source, **options))
    assert raised.value.status() == f"StatusCode.{status}"


def test_a_task_that_is_cancelled_cancels(run, grpc_server):
    async def work(client):
        task = asyncio.create_task(client.infer("patient", ints(1), request_id="aio"))
        await asyncio.to_thread(wait_for, "the model's start", lambda: "patient: began aio" in grpc_server.log)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await asyncio.to_thread(wait_for, "what the model sees", lambda: "patient: cancelled aio" in grpc_server.log)

    run(work)


def test_streams(run):
    """Requests are made as answers come: neither side waits for the other's end."""
    async def work(client):
        answered = asyncio.Semaphore(1)

        async def requests():
            for i in range(20):
                await answered.acquire()
                yield {"model_name": "t_int32", "inputs": batch(i), "request_id": str(i)}

        got = []
        async for result, error in client.stream_infer(requests()):
            assert error is None
            got.append((result.get_response().id, result.as_numpy("OUTPUT0").tolist()))
            answered.release()
        return got

    assert run(work) == [(str(i), [[i]]) for i in range(20)]


def test_decoupled_streams(run):
    async def work(client):
        async def requests():
            for values in ((1, 2, 3), (), (4,)):
                yield {"model_name": "repeat", "inputs": ints(*values)}
            yield {"model_name": "repeat", "inputs": ints(-1)}

        return [(error.message() if error else int(result.as_numpy("OUTPUT0")[0]))
                async for result, error in client.stream_infer(requests())]

    got = run(work)
    assert sorted(map(str, got)) == ["-1 is negative", "1", "2", "3", "4"]
    assert [value for value in got if value in (1, 2, 3)] == [1, 2, 3]


def test_a_stream_is_cancelled(run, grpc_server):
    before = grpc_server.log.count("endless: given up")

    async def work(client):
        async def requests():
            yield {"model_name": "endless", "inputs": ints(1)}
            await asyncio.Event().wait()  # the client says no end

        stream = client.stream_infer(requests())
        for value in range(3):
            result, error = await anext(stream)
            assert error is None and result.as_numpy("OUTPUT0").tolist() == [value]
        assert stream.cancel()
        await asyncio.to_thread(wait_for, "what the model sees", lambda: grpc_server.log.count("endless: given up") == before + 1)

    run(work)


# ---- over HTTP ----

def http(grpc_server, work):
    async def with_client():
        async with http_aio.InferenceServerClient(grpc_server.url, conn_timeout=DEADLINE) as client:
            return await work(client)

    return asyncio.run(with_client())


def http_input(*values):
    return [InferInput("INPUT0", [1, len(values)], "INT32").set_data_from_numpy(np.array([values], np.int32))]


@pytest.mark.parametrize("request_packing", [None, "gzip", "deflate"])
@pytest.mark.parametrize("reply_packing", [None, "gzip", "deflate"])
def test_http_both_ways_packed(grpc_server, request_packing, reply_packing):
    async def work(client):
        return await client.infer("t_int32", http_input(*range(5000)), request_compression_algorithm=request_packing,
                                  response_compression_algorithm=reply_packing)

    assert http(grpc_server, work).as_numpy("OUTPUT0").tolist() == [list(range(5000))]


def test_http_many_at_once_and_control(grpc_server):
    async def work(client):
        results = await asyncio.gather(*(client.infer("t_int32", http_input(i), request_id=str(i)) for i in range(100)))
        assert [r.as_numpy("OUTPUT0").tolist() for r in results] == [[[i]] for i in range(100)]
        assert await client.is_server_live() and await client.is_server_ready() and await client.is_model_ready("t_int32")
        assert (await client.get_model_metadata("t_int32"))["inputs"][0]["datatype"] == "INT32"
        assert (await client.get_model_config("t_int32"))["max_batch_size"] == 8
        assert (await client.get_inference_statistics("t_int32"))["model_stats"][0]["name"] == "t_int32"
        await client.unload_model("canary")
        await client.load_model("canary")
        assert {"name": "canary", "version": "1", "state": "READY"} in await client.get_model_repository_index()
        with pytest.raises(InferenceServerException) as raised:
            await client.infer("none", http_input(1))
        assert "Request for unknown model: 'none' is not found" in raised.value.message()

    http(grpc_server, work)
