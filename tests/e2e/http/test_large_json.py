# SPDX-License-Identifier: Apache-2.0
"""Long arrays as JSON, both ways: several threads read and print parts of one, and memory of what is read goes back."""
import concurrent.futures
import json
import time

import numpy as np
import pytest

from conftest import make_identity, wait_for
from oracle import MIB, peak, reset_peak, rss

INFER = "/v2/models/m/infer"


def body_of(data, text=None, binary=False):
    tensor = {"name": "INPUT0", "datatype": "FP32", "shape": list(data.shape), "data": "DATA"}
    text = text or ", ".join(map(str, data.ravel().tolist()))
    request = {"inputs": [tensor], "parameters": {"binary_data_output": binary}}
    return json.dumps(request).replace('"DATA"', f"[{text}]").encode()


def random(count):
    """Quarters of whole numbers, and some that are written with an exponent."""
    data = np.random.default_rng(3).integers(-10**6, 10**6, count).astype(np.float32) / 4
    data[::1000] *= np.float32(2.0**-40)
    return data


@pytest.mark.slow
def test_clients_share_the_threads_that_read_and_print(start_server, repository):
    make_identity(repository, "m", max_batch_size=0)
    server = start_server(repository)
    arrays = [random(300_000 + 1000 * i) for i in range(4)]
    spoilt = body_of(arrays[0], ", ".join(["1.5"] * 299_999 + ["x"]))

    def infer(data):
        answer = server.ask(INFER, body_of(data))
        assert answer.status == 200, answer
        return np.array(json.loads(answer.body)["outputs"][0]["data"], np.float32)

    with concurrent.futures.ThreadPoolExecutor(5) as clients:
        refused = [clients.submit(server.ask, INFER, spoilt) for _ in range(2)]
        for data, result in zip(arrays * 2, clients.map(infer, arrays * 2)):
            np.testing.assert_array_equal(result, data)
        for answer in refused:
            text = json.loads(answer.result().body)["error"]
            assert answer.result().status == 400 and "inputs[0].data[299999]" in text and "got 'x" in text, text


def settled(server):
    """Its memory once nothing more of it goes back: the server gives back what it has kept when a few seconds are over in which nobody asks."""
    seen, since = rss(server), time.monotonic()

    def rests():
        nonlocal seen, since
        now = rss(server)
        if now != seen:
            seen, since = now, time.monotonic()
        return time.monotonic() - since > 5

    wait_for("memory that stays as it is", rests)
    return seen


def test_text_that_is_read_takes_no_memory(start_release, repository):
    """Body, tensor and output together would be 70 MiB. One bad element at the end is named as ever."""
    make_identity(repository, "m", max_batch_size=0)
    server = start_release(repository)
    data = np.full(3_500_000, 1.25, np.float32)
    text = ",".join(["1.250000000"] * len(data))
    body = body_of(data, text, binary=True)
    server.ask(INFER, body_of(data[:300_000], binary=True))  # the code's own pages, and the threads
    before = settled(server)
    reset_peak(server)
    answer = server.ask(INFER, body)
    grown = peak(server) - before
    assert answer.status == 200 and answer.body.endswith(data.tobytes())
    assert len(body) / 2 <= grown <= len(body) + 12 * MIB, (len(body) / MIB, grown / MIB)  # some of it was there before
    answer = server.ask(INFER, body_of(data, text[:-1] + "x"))
    assert answer.status == 400
    assert "in 'inputs[0].data': expected ',' or ']', got 'x]" in json.loads(answer.body)["error"], answer
