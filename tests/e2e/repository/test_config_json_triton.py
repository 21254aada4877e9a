# SPDX-License-Identifier: Apache-2.0
"""The `config` of a load, which Triton 2.51 reads with protobuf's lenient reader of JSON: the same texts are taken and refused here.

What a taken one comes to is compared by GET …/config.
"""
import concurrent.futures
import json

import pytest
from conftest import make_identity
from grpc_sides import NEREID, TRITON
from test_http_triton import servers  # noqa: F401 - a fixture

TENSOR = '{"name": "%sPUT0", "data_type": "TYPE_INT32", "dims": [1]}'
WHOLE = f'"backend": "identity", "max_batch_size": 4, "input": [{TENSOR % "IN"}], "output": [{TENSOR % "OUT"}]'
GROUP = "instance_group: {kind: 'KIND_CPU', %s}"
BATCHING = "dynamic_batching: {%s}"

TAKEN = [
    "max_batch_size: 2", "'max_batch_size': 3,", '"max_batch_size": 2, maxBatchSize: 3, max_batch_size: null', "\v max_batch_size\f:\t2.\r",
    "max_batch_size: 2E+0", "max_batch_size: '+2'", "max_batch_size: '02'", "max_batch_size: 0.0",
    GROUP % "count: 2", "instance_group: [{kind: 'KIND_CPU', count: 2,},]", "instance_group: [null, [{kind: 2}], []], instance_group: {kind: 'kind-cpu'}",
    "instance_group: {kind: '02'}", GROUP % "passive: 'Yes'", GROUP % "passive: 'f'", "instance_group: null",
    BATCHING % "preferred_batch_size: 2", BATCHING % "preferred_batch_size: [['1'], [2, null], 3]", BATCHING % "max_queue_delay_microseconds: 1e3",
    "optimization: {priority: 'PRIORITY_MAX'}, optimization: {eager_batching: true}, optimization: null",
    "version_policy: {latest: null, all: {}}", "version_policy: {latest: {}}, version_policy: {all: {}}",
    "parameters: {a: null, 'b\"c': {string_value: 'it\\'s'}}, parameters: {a: {string_value: 'x'}}", "cc_model_filenames: {a: null}",
    'default_model_filename: "a\nb\\q\\v\\u00e4\\ud83d\\ude00"',
]
REFUSED = [
    "max_batch_size: True", "max_batch_size: +2", "max_batch_size: 02", "max_batch_size: 0x2", "max_batch_size: .2e1", "max_batch_size: 2-1",
    "max_batch_size: '2.0'", "max_batch_size: ' 2'", "max_batch_size: 2.5", "max_batch_size: [3]", "max_batch_size: true", "max_batch_size:",
    "max_batch_size 2", "max_batch_size = 2", "max-batch: 2", "5: 1", "true: 1", ", max_batch_size: 2", "nope: 1", "/* no */ max_batch_size: 2",
    GROUP % "passive: 0", GROUP % "passive: True", "instance_group: {kind: KIND_CPU}", "instance_group: {kind: ' KIND_CPU'}",
    "instance_group: {kind: '77'}", "instance_group: {kind: true}", "instance_group: 5", "instance_group: 'KIND_CPU'",
    BATCHING % "preferred_batch_size: [1,,2]", BATCHING % "preferred_batch_size: [,]", BATCHING % "preferred_batch_size: [NaN]",
    BATCHING % "max_queue_delay_microseconds: '1e3'", "dynamic_batching: []", "dynamic_batching: {}, dynamic_batching: {}",
    "dynamic_batching: {}, sequence_batching: {}", "version_policy: {latest: {}, latest: {}}", "parameters: {a: {}, a: {}}",
    "parameters: [{key: 'a'}]", "parameters: {a: 'x'}", "parameters: {a: {string_value: 5}}", "parameters: {a: [{}]}",
    'default_model_filename: "a\\ud83d"', 'default_model_filename: "a\\u00"', 'default_model_filename: "a', "default_model_filename: 5",
    "sequence_batching: {direct: {minimum_slot_utilization: 1e39}}",
]
TAKEN_WHOLE = [f"{{{WHOLE}}}", f" {{{WHOLE},}}\n", f"{{{WHOLE}}}".replace('"', "'")]
REFUSED_WHOLE = ["", "[]", '"x"', f"[{{{WHOLE}}}]", f"{{{WHOLE}}} x", f"{{{WHOLE}}}{{}}", f"{{{WHOLE}", f"\ufeff{{{WHOLE}}}"]


def make(directory):
    make_identity(directory, "m", "TYPE_INT32", max_batch_size=4)
    return directory


def load(server, text):
    return server.ask("/v2/repository/models/m/load", json.dumps({"parameters": {"config": text}}).encode())


def loaded(server, text):
    """What the model's configuration is after that load, or what was answered."""
    server.ask("/v2/repository/models/m/unload", b"{}")
    answer = load(server, text)
    return json.loads(server.ask("/v2/models/m/config").body) if answer.status == 200 else answer.text


def ask_both(servers, text):  # noqa: F811
    with concurrent.futures.ThreadPoolExecutor() as threads:
        return list(threads.map(lambda side: loaded(servers[side], text), (NEREID, TRITON)))


@pytest.mark.parametrize("text", [f"{{{WHOLE}, {more}}}" for more in TAKEN] + TAKEN_WHOLE)
def test_a_text_is_taken_and_means_the_same(servers, text):  # noqa: F811
    ours, theirs = ask_both(servers, text)
    assert isinstance(ours, dict) and ours == theirs


@pytest.mark.parametrize("text", [f"{{{WHOLE}, {more}}}" for more in REFUSED] + REFUSED_WHOLE)
def test_a_text_is_refused_by_both(servers, text):  # noqa: F811
    ours, theirs = ask_both(servers, text)
    assert isinstance(theirs, str) and "Invalid config override: " in ours
