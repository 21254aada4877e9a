# SPDX-License-Identifier: Apache-2.0
"""All frameworks in one process: loaded in several orders, and all at once, each answers; they are unloaded and come again."""
import frameworks
import pytest
import small_models as small

ALL = list(small.SMALL)
ORDERS = {"as listed": ALL, "the other way round": ALL[::-1], "from the middle": [*ALL[2:], *ALL[:2]]}
pytestmark = [frameworks.needs(*(backend for backend in ALL if backend != "onnxruntime")), pytest.mark.slow]


def load(server, what, backend):
    answer = server.ask(f"/v2/repository/models/small_{backend}/{what}", b"{}")
    assert answer.status == 200, answer.text


@pytest.fixture
def models(repository):
    for backend in ALL:
        small.add(repository, backend)
    return repository


@pytest.mark.parametrize("order", ORDERS)
def test_all_frameworks_serve_in_one_process(start_server, models, order):
    server = start_server(models, flags=["--model-control-mode=explicit", *frameworks.settings(*ALL)])
    memory = [f"{small.resident(server):.0f} MiB"]
    for backend in ORDERS[order]:
        load(server, "load", backend)
        small.ask(server, backend)
        memory.append(f"{backend} {small.resident(server):.0f}")
    for backend in ORDERS[order]:  # each beside all others
        small.ask(server, backend)
    for backend in ORDERS[order][::2]:
        load(server, "unload", backend)
        load(server, "load", backend)
        small.ask(server, backend)
    assert set(small.opened(server)) == set(ALL)
    print(f"memory, {order}: {', '.join(memory)}")


def test_all_frameworks_open_at_once(start_server, models):
    server = start_server(models, flags=frameworks.settings(*ALL))
    for backend in ALL:
        small.ask(server, backend)
