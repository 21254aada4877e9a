# SPDX-License-Identifier: Apache-2.0
"""The same sequences on nereid and on Triton 2.51: the same answers, the same errors, the same counts."""
import pytest
from sequence_situations import SITUATIONS, make_models
from test_http_triton import start_both


@pytest.fixture(scope="module")
def both(tmp_path_factory):
    with start_both(tmp_path_factory, make=make_models) as servers:
        yield servers


@pytest.mark.parametrize("name", SITUATIONS)
def test_both_do_the_same(both, name):
    work, model = SITUATIONS[name]
    nereid, triton = both
    assert work(nereid, model) == work(triton, model)
