# SPDX-License-Identifier: Apache-2.0
"""Memory of clients on a GPU that is played, in nereid and in NVIDIA's server of 2.51: what is answered, word by word. nereid says more behind it."""
import json

import numpy
import pytest
from client_memory import region
from conftest import make_identity
from cuda_memory import Memory, Protocol
from gpu_sides import SIDES
from gpus import Client, fake_gpus
from python_sides import SideStarter
from tritonclient.utils import InferenceServerException

SIZE = 1 << 20
DATA = numpy.arange(64, dtype=numpy.float32).reshape(1, 64)


def said(call, *arguments, **more):
    """What the client gets; an error's status is its protocol's, and compared elsewhere."""
    try:
        call(*arguments, **more)
        return "done"
    except InferenceServerException as refused:
        return refused.message()


def calls(triton, memory, system):
    """What each call is answered, in this order."""
    def source(offset=0, size=DATA.nbytes, name="r"):
        return [triton.input(DATA.shape, "FP32", (name, size, offset))]

    def target(offset=4096, size=DATA.nbytes, name="r"):
        return [triton.output((name, size, offset))]

    yield "a status of none", said(triton.regions, "r")
    yield "a region", said(triton.register, "r", memory.handle, SIZE)
    yield "its name again", said(triton.register, "r", memory.handle, SIZE)
    yield "its name for the host's", said(triton.client.register_system_shared_memory, "r", system.key, system.size)
    yield "the host's", said(triton.client.register_system_shared_memory, "host", system.key, system.size)
    yield "the host's name", said(triton.register, "host", memory.handle, SIZE)
    yield "the host's, as a GPU's", said(triton.regions, "host")
    yield "a GPU's, as the host's", said(triton.client.get_system_shared_memory_status, "r")
    yield "regions", str(triton.regions() == {"r": (0, SIZE)})
    yield "in and out", said(triton.infer, "m", source(), target())
    yield "what is there", str(memory.read(DATA.nbytes, 4096) == DATA.tobytes())
    yield "an output on the host", str(numpy.array_equal(triton.infer("m", source()).as_numpy("OUTPUT0"), DATA))
    yield "an offset outside", said(triton.infer, "m", source(SIZE))
    yield "an end outside", said(triton.infer, "m", source(SIZE - 4))
    yield "no region", said(triton.infer, "m", source(name="none"))
    yield "no region for an output", said(triton.infer, "m", source(), target(name="none"))
    yield "an output that is too large", said(triton.infer, "m", source(), target(size=8))
    yield "one of another size", said(triton.infer, "m", source(size=DATA.nbytes - 4))
    yield "a byte too many", said(triton.register, "more", memory.handle, SIZE + 1)
    yield "a handle of nothing", said(triton.register, "more", bytes(64), SIZE)
    yield "gone", said(triton.unregister, "r")
    yield "gone again", said(triton.unregister, "r")
    yield "all gone", said(triton.unregister)
    yield "all gone of the host's", said(triton.client.unregister_system_shared_memory)
    yield "none", str(triton.regions() == {})


BODIES = {  # over HTTP alone: tritonclient sends none of them
    "no handle": {"device_id": 0, "byte_size": 1},
    "a short handle": {"raw_handle": {"b64": "QUJD"}, "device_id": 0, "byte_size": 1},
    "a handle without text": {"raw_handle": {}, "device_id": 0, "byte_size": 1},
    "no size": {"raw_handle": {"b64": "A" * 86 + "=="}, "device_id": 0},
    "no device": {"raw_handle": {"b64": "A" * 86 + "=="}, "byte_size": 1},
}


@pytest.fixture(scope="module")
def answers(tmp_path_factory):
    """By side: {(protocol, call): text}."""
    found = {}
    for name, side in SIDES.items():
        directory = tmp_path_factory.mktemp(name)
        gpus = fake_gpus(directory, 2)
        side = side(gpus)
        make_identity(directory / "models", "m", more="instance_group [ { kind: KIND_GPU gpus: [ 0 ] } ]")
        starter = SideStarter(side, side.backends(directory), directory)
        server = starter(directory / "models", flags=["--load-model=m"])
        with Client(gpus) as process, region() as system:
            memory, texts = Memory(process, SIZE), {}
            memory.write(DATA.tobytes())
            for protocol in ("http", "grpc"):
                with Protocol(protocol, server).open() as triton:
                    texts |= {(protocol, call): text for call, text in calls(triton, memory, system)}
                memory.write(bytes(DATA.nbytes), 4096)
            for case, body in BODIES.items():
                answer = server.ask("/v2/cudasharedmemory/region/new/register", json.dumps(body).encode())
                assert answer.status >= 400  # nereid's 400 is 500 in Triton for some
                texts["body", case] = json.loads(answer.body)["error"]
        found[name] = texts
        starter.stop_all()
    return found


def test_it_works(answers):
    for protocol in ("http", "grpc"):
        texts = {call: text for (of, call), text in answers["nereid"].items() if of == protocol}
        assert {texts[call] for call in ("regions", "what is there", "an output on the host", "none")} == {"True"}
        assert {texts[call] for call in ("a region", "the host's", "in and out", "gone", "gone again", "all gone", "all gone of the host's")} == {"done"}


def test_the_words_are_tritons(answers):
    ours, *others = answers.values()
    for theirs in others:
        different = {call: (text, ours[call]) for call, text in theirs.items() if not ours[call].startswith(text.rstrip())}
        assert different == {}
