# SPDX-License-Identifier: Apache-2.0
"""The example models in Python, as scripts/serve serves them: tritonclient and curl, pictures made by Pillow, batches in the log."""
import asyncio
import io
import json
import re
import subprocess
import sys

import numpy as np
import pytest
import tritonclient.http as triton
import tritonclient.http.aio as triton_aio
from conftest import DEADLINE, ROOT, copy_model, wait_for
from PIL import Image, ImageDraw
from python_models import together
from tritonclient.utils import InferenceServerException

pytestmark = pytest.mark.gpu_host


def operands(first, second):
    pairs = (("INPUT0", first), ("INPUT1", second))
    return [triton.InferInput(name, data.shape, "FP32").set_data_from_numpy(data) for name, data in pairs]


def rows(*values):
    return np.array(values, np.float32)


def oval(kind="PNG", paper="white", ink="black"):
    """A file with a picture of a nought."""
    picture = Image.new("L", (80, 80), paper)
    ImageDraw.Draw(picture).ellipse((20, 5, 60, 75), outline=ink, width=10)
    file = io.BytesIO()
    picture.save(file, kind)
    return file.getvalue()


def files_of(*files):
    return triton.InferInput("file", [len(files), 1], "BYTES").set_data_from_numpy(np.array([[file] for file in files], np.object_))


@pytest.fixture
def client(server):
    with triton.InferenceServerClient(server.url, network_timeout=DEADLINE) as client:
        yield client


def test_batch_add_adds(client):
    total = client.infer("batch_add", operands(rows([1, 2, 3], [4, 5, 6]), rows([10, 20, 30], [0.5, 0, -6]))).as_numpy("OUTPUT0")
    assert total.tolist() == [[11, 22, 33], [4.5, 5, 0]]


def test_batch_add_answers_many_clients_on_one_loop(server):
    async def ask(client, number):
        return (await client.infer("batch_add", operands(rows([number]), rows([1])))).as_numpy("OUTPUT0").tolist()

    async def ask_all():
        async with triton_aio.InferenceServerClient(server.url) as client:
            return await asyncio.gather(*(ask(client, number) for number in range(50)))

    assert asyncio.run(ask_all()) == [[[number + 1]] for number in range(50)]


def test_curl_gets_the_sum(server):
    inputs = [{"name": name, "datatype": "FP32", "shape": [1, 3], "data": [n, 2 * n, 3 * n]} for name, n in (("INPUT0", 1), ("INPUT1", 10))]
    command = ["curl", "-sS", "-d", json.dumps({"inputs": inputs}), f"{server.url}/v2/models/batch_add/infer"]
    reply = subprocess.run(command, stdout=subprocess.PIPE, check=True, timeout=DEADLINE)
    assert json.loads(reply.stdout)["outputs"] == [{"name": "OUTPUT0", "datatype": "FP32", "shape": [1, 3], "data": [11, 22, 33]}]


def test_three_requests_that_arrive_together_are_one_list(start_server, repository):
    config = copy_model(repository, "batch_add") / "config.pbtxt"
    text, count = re.subn("max_queue_delay_microseconds: 500 ", "preferred_batch_size: [ 4 ] max_queue_delay_microseconds: 600000000 ",
                          config.read_text())
    assert count == 1  # the batch below has four rows: who comes first waits for the others
    config.write_text(text)
    server = start_server(repository)

    def ask(number):
        first = rows([number]) if number < 2 else rows([number], [number])
        with triton.InferenceServerClient(server.url, network_timeout=DEADLINE) as client:
            return client.infer("batch_add", operands(first, first)).as_numpy("OUTPUT0").tolist()

    assert together(3, ask) == [[[0]], [[2]], [[4], [4]]]
    wait_for("the log", lambda: "batch_add: a batch of 3 requests, 4 rows" in server.log)
    statistics = json.loads(server.ask("/v2/models/batch_add/stats").body)["model_stats"][0]
    assert (statistics["inference_count"], statistics["execution_count"]) == (4, 1)


def test_a_picture_goes_through_preprocess_into_digits(client):
    image = client.infer("preprocess", [files_of(oval())]).as_numpy("image")
    assert image.shape == (1, 64)
    assert image.min() == 0 and image.max() <= 16
    digits = client.infer("digits", [triton.InferInput("image", [1, 64], "FP32").set_data_from_numpy(image)])
    assert digits.as_numpy("digit").tolist() == [[0]]


def test_a_picture_goes_through_the_ensemble_of_both(client):
    assert client.infer("read_digit", [files_of(oval(), oval("GIF"))]).as_numpy("digit").tolist() == [[0], [0]]
    with pytest.raises(InferenceServerException, match="in ensemble 'read_digit', 'file' is no image: cannot identify image file") as raised:
        client.infer("read_digit", [files_of(b"not a picture")])
    assert raised.value.status() == "400"


def test_the_readmes_program_prints_what_it_says(server):
    programs = [text for text in re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.S) if "PIL" in text]
    assert len(programs) == 1
    program = programs[0].replace("localhost:8000", server.url)
    run = subprocess.run([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True, check=True, timeout=5 * DEADLINE)
    assert run.stdout == "[[0]]\n"


def test_pictures_of_other_kinds_are_the_same_picture(client):
    files = [oval(), oval("GIF"), oval("BMP"), oval(paper="black", ink="white")]
    images = client.infer("preprocess", [files_of(*files)]).as_numpy("image")
    assert images.shape == (4, 64)
    for image in images[1:]:
        assert np.abs(image - images[0]).max() < 1.5 * 16 / 255  # averages are rounded to a level of grey


def test_a_file_that_is_no_picture_is_its_clients_error(client):
    with pytest.raises(InferenceServerException, match="'file' is no image: cannot identify image file") as raised:
        client.infer("preprocess", [files_of(b"not a picture")])
    assert raised.value.status() == "400"
    assert client.infer("preprocess", [files_of(oval())]).as_numpy("image").shape == (1, 64)
