# SPDX-License-Identifier: Apache-2.0
"""Broken configurations against a live server: text files and JSON overrides, mutated from good ones.

Each is taken or refused; a refusal says where: the line of a text, or the field. The server goes on, and keeps nothing of
what it refused. NEREID_CONFIG_MUTATIONS says how many of each kind (1000), NEREID_CONFIG_SECONDS instead for how long.
"""
import copy
import json
import os
import random
import re
import time

import pytest
from conftest import ROOT, make_identity, wait_for
from oracle import status_of
from safety import Client, instances, tensor

pytestmark = [pytest.mark.slow, pytest.mark.once]

MUTATIONS = int(os.environ.get("NEREID_CONFIG_MUTATIONS", "1000"))
SECONDS = float(os.environ.get("NEREID_CONFIG_SECONDS", "0"))
SEED = int(os.environ.get("NEREID_CONFIG_SEED", "33"))

GOOD = """
name: "x"
backend: "identity"
max_batch_size: 16
input [ { name: "INPUT0" data_type: TYPE_FP32 dims: [ -1 ] optional: false } ]
output [ { name: "OUTPUT0" data_type: TYPE_FP32 dims: [ -1 ] } ]
version_policy { latest { num_versions: 1 } }
dynamic_batching {
  preferred_batch_size: [ 4, 8 ]
  max_queue_delay_microseconds: 100
  preserve_ordering: false
  priority_levels: 3
  default_priority_level: 2
  default_queue_policy { timeout_action: DELAY default_timeout_microseconds: 1000 allow_timeout_override: true max_queue_size: 7 }
  priority_queue_policy { key: 1 value: { max_queue_size: 1 } }
}
instance_group [ { name: "a" kind: KIND_CPU count: 2 }, { name: "b" kind: KIND_CPU count: 1 } ]
parameters { key: "k" value: { string_value: "v \\"q\\" \\303\\244 \\t" } }
parameters { key: "execute_delay_ms" value: { string_value: "0" } }
model_transaction_policy { decoupled: false }
optimization { priority: PRIORITY_MAX input_pinned_memory { enable: false } }
response_cache { enable: false }
model_warmup [ { name: "w" batch_size: 1 inputs { key: "INPUT0" value: { data_type: TYPE_FP32 dims: [ 4 ] zero_data: true } } } ]
sequence_batching { max_sequence_idle_microseconds: 5 }
ensemble_scheduling { step [ { model_name: "m" model_version: -1 input_map { key: "a" value: "b" } output_map { key: "c" value: "d" } } ] }
metric_tags { key: "t" value: "u" }
"""
LEFT_OUT = ("model_warmup", "sequence_batching", "ensemble_scheduling")  # not with the others: mostly away
PROTO = (ROOT / "src/config/model_config.proto").read_text()
FIELDS = set(re.findall(r"\b([a-z][a-z0-9_]+) = \d+", PROTO))
NUMBERS = ["-1", "0", "1", "7", "64", "65536", "2147483647", "2147483648", "-2147483649", "4294967296", "9223372036854775807",
           "9223372036854775808", "18446744073709551615", "18446744073709551616", "1" * 400, "1e400", "-0", "0x10", "0777", "1.5", "nan", ".", "--1"]
TEXTS = ['""', '"x"', '"../x"', '"/etc/passwd"', '"\\377"', '"\\000"', '"a\\nb"', "'", '"', "TYPE_FP64", "TYPE_STRING", "TYPE_X", "KIND_GPU",
         "KIND_MODEL", "true", "maybe", "{", "}", "[", "]", "<", ">", ":", ";", ",", "# ", "\0", "\ufeff", "é", "%s%n", "A" * 5000, "[" * 500, "x {" * 500]
TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[A-Za-z_][A-Za-z0-9_]*|-?[0-9][0-9.]*|\s+|.', re.S)


def mutated_text(chance):
    lines = [line for line in GOOD.splitlines(keepends=True) if not line.startswith(LEFT_OUT) or chance.random() < 0.05]
    tokens = TOKEN.findall("".join(lines))
    words = [i for i, token in enumerate(tokens) if not token.isspace()]
    for _ in range(chance.choice([1] * 8 + [2, 3, 8])):
        i, j = chance.choice(words), chance.choice(words)
        what = chance.choice([0, 1, 2, 3, 4, 4, 4, 4, 4, 4, 5, 6, 7])
        if what == 0:
            tokens[i] = ""
        elif what == 1:
            tokens[i] += " " + tokens[i]
        elif what == 2:
            tokens[i], tokens[j] = tokens[j], tokens[i]
        elif what == 3:
            tokens[i] = chance.choice(TEXTS)
        elif what == 4:
            numbers = [k for k in words if re.fullmatch(r"-?\d+", tokens[k])]
            if numbers:
                tokens[chance.choice(numbers)] = chance.choice(NUMBERS)
        elif what == 5:
            tokens[i] = chance.choice(sorted(FIELDS))
        elif what == 6:
            tokens[i] = tokens[i] + "".join(tokens[min(i, j) : max(i, j)])
        else:
            del tokens[i:]
            words = [k for k in words if k < i] or [0]
            tokens += [""] * (not tokens)
    data = bytearray("".join(tokens).encode())
    if chance.random() < 0.1 and data:
        for _ in range(3):
            data[chance.randrange(len(data))] = chance.randrange(256)
    return bytes(data)


VALUES = [None, True, False, 0, -1, 1, 7, 2**31 - 1, 2**31, 2**63, 2**64, 1.5, 1e308, "", "x", "7", "-1", "TYPE_FP32", "KIND_GPU", "../x", "a\nb", "\u0000",
          "A" * 5000, [], [[]], [1, "x", None], {}, {"": {}}, {"x": 1}]


def places(value, path=()):
    yield path
    for key in value if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ():
        yield from places(value[key], (*path, key))


def mutated_json(chance, good):
    config = json.loads(good)
    for _ in range(chance.choice([1, 1, 1, 2, 3])):
        at = config
        path = chance.choice([p for p in places(config) if p] or [("x",)])
        for key in path[:-1]:
            at = at[key]
        what = chance.randrange(6)
        if what == 0 and path[-1] != "x":
            del at[path[-1]]
        elif what == 1 and isinstance(at, dict):
            at[chance.choice(sorted(FIELDS))] = copy.deepcopy(chance.choice(VALUES))
        elif what == 2 and isinstance(at, dict):
            at["no_such_field"] = None
        elif what == 3 and isinstance(at, list):
            at.extend(copy.deepcopy(at * chance.choice([1, 3])))
        else:
            at[path[-1]] = copy.deepcopy(chance.choice(VALUES))
    text = json.dumps(config)
    if chance.random() < 0.2:
        i, j = sorted(chance.randrange(len(text)) for _ in range(2))
        text = chance.choice([text[:i], text[:i] + text[j:], text[:j] + text[i:], text[:i] + chance.choice(TEXTS) + text[i:]])
    return text


def says_where(text):
    """Line and column, the text that is not understood, or a field (Triton's messages write some of them with blanks)."""
    return (re.search(r"\d+:\d+|line \d+|has no field named|nesting depth| near '", text)
            or any(re.search(r"\b" + field.replace("_", "[_ ]"), text) for field in FIELDS))


def mutations(make):
    """Texts from `make`, by number or time; the seed is told, so that a failure can be repeated."""
    chance, end = random.Random(SEED), time.monotonic() + SECONDS
    count = 0
    while count < MUTATIONS or time.monotonic() < end:
        count += 1
        yield make(chance)


def ask_taken(client):
    """Its configuration and an inference, unless it says that requests may wait long for others."""
    config = json.loads(client.ask("/v2/models/x/config").body)
    if int(config.get("dynamic_batching", {}).get("max_queue_delay_microseconds", 0)) < 10**6:
        assert client.ask("/v2/models/x/infer", tensor()).status < 600


def survive(server, load, texts):
    """Loads each text; returns the refusals that do not say where."""
    statuses, unclear = dict.fromkeys((200, 400, 500), 0), []
    with Client(server) as client:
        for n, text in enumerate(texts):
            answer = load(client, text)
            assert server.process.poll() is None, text
            assert answer.status in statuses, (answer.status, answer.text, text)
            statuses[answer.status] += 1
            if answer.status != 200 and not says_where(json.loads(answer.body)["error"]):
                unclear.append((answer.text, text))
            if answer.status == 200:
                ask_taken(client)
            if n % 10 == 0:
                assert client.ask("/v2/models/m/infer", tensor()).status == 200
                assert client.unload("x").status == 200
        assert client.unload("x").status == 200
        wait_for("the end of what was loaded", lambda: instances(server) == ["m_0"])
        wait_for("the index", lambda: [key for key, state in client.index().items() if state == "READY"] == [("m", "1")])
    print(f"{n + 1} mutations: {statuses}")
    assert min(statuses[200], statuses[400] + statuses[500]) > len(str(n)), statuses  # both happen
    return unclear


@pytest.fixture
def server(start_server, repository):
    make_identity(repository, "m")
    (repository / "x/1").mkdir(parents=True)
    return start_server(repository, flags=["--model-control-mode=explicit", "--load-model=m"])


def test_a_mutated_text_is_taken_or_refused_with_its_place_cve_2025_23336(server, repository):
    def load(client, text):
        path.write_bytes(text)
        return client.load("x")

    path = repository / "x/config.pbtxt"
    assert survive(server, load, mutations(mutated_text)) == []


def test_a_mutated_override_is_taken_or_refused_with_its_place_cve_2025_23336(server, repository):
    text = "".join(line for line in GOOD.splitlines(keepends=True) if not line.startswith(LEFT_OUT))
    (repository / "x/config.pbtxt").write_text(text)
    with Client(server) as client:
        assert client.load("x").status == 200
        good = client.ask("/v2/models/x/config").text
        assert client.unload("x").status == 200
    assert survive(server, lambda client, text: client.load("x", text), mutations(lambda chance: mutated_json(chance, good))) == []


def test_a_huge_batch_size_takes_no_room(start_release, repository):
    make_identity(repository, "m", max_batch_size=2**31 - 1, more="instance_group { count: 4 }")
    server = start_release(repository, flags=["--model-control-mode=explicit"], variables={"MALLOC_ARENA_MAX": "1"})
    before = status_of(server, "VmSize")
    with Client(server) as client:
        assert client.load("m").status == 200
        assert client.ask("/v2/models/m/infer", tensor()).status == 200
        assert status_of(server, "VmSize") - before < 256 << 10  # KiB; four threads have 32 MiB of stacks
