# SPDX-License-Identifier: Apache-2.0
"""The rules of tests/config_rules/rules.txt, asked of nereid and of Triton 2.51: both refuse a configuration in the same words.

All models are loaded at the start, and each server's log says what it found.
"""
import re

import pytest
from conftest import ROOT, make_identity
from grpc_sides import NEREID, TRITON
from test_http_triton import side, start_both  # noqa: F401 - a fixture

RULES = ROOT / "tests/config_rules/rules.txt"
TENSORS = """input { name: "INPUT0" data_type: TYPE_FP32 dims: 4 }
output { name: "OUTPUT0" data_type: TYPE_FP32 dims: 4 }
"""


def cases():
    """(model, its configuration, the text that is expected) of each case that servers are asked."""
    text = "".join(line for line in RULES.read_text().splitlines(True) if not line.startswith("#"))
    for number, part in enumerate(re.split(r"^(?=\[)", text, flags=re.M)[1:]):
        title, *lines = part.rstrip().split("\n")
        if "unit" in title:
            continue
        model = f"rule{number}"
        config = "" if "own all" in title else f'backend: "identity" max_batch_size: 4\n{"" if "own tensors" in title else TENSORS}'
        config += "\n".join(line for line in lines if not line.startswith(">"))
        (wanted,) = (re.sub(r"\bM(?=\b|_\d)", model, line[2:]) for line in lines if line.startswith("> "))
        yield model, config, wanted


def make(directory):
    make_identity(directory, "canary")
    for model, config, _ in cases():
        (directory / model / "1").mkdir(parents=True)
        (directory / model / "config.pbtxt").write_text(config)
    return directory


@pytest.fixture(scope="module")
def servers(tmp_path_factory):
    flags = ("--disable-auto-complete-config", "--exit-on-error=false", "--strict-readiness=false",
             "--min-supported-compute-capability=7.5")  # 2.51 has 6.0 unless it is said
    with start_both(tmp_path_factory, *flags, make=make) as both:
        yield dict(zip((NEREID, TRITON), both))


def test_each_rule_refuses_in_the_same_words(servers, side):  # noqa: F811
    lines = servers[side].log.replace('\\"', '"').splitlines()
    differ = {}
    for model, _, wanted in cases():
        said = [line for line in lines if re.search(rf"\b{model}\b", line)]
        if not any(wanted in line for line in said):
            differ[wanted] = said
    assert not differ, "\n".join(f"{wanted}\n    {said}" for wanted, said in differ.items())
