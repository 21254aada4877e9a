# SPDX-License-Identifier: Apache-2.0
"""Memory that runs out and system calls that fail, one site after another, while a server answers (test_faults_loads.py: while it loads;
test_faults_life.py: while it starts and stops).
"""
import pytest
from fault_scenarios import LOADS, SCENARIOS
from fault_torture import Torture
from faults import Faults

pytestmark = [pytest.mark.slow, pytest.mark.long]


@pytest.mark.parametrize("scenario", [name for name in SCENARIOS if name not in LOADS])
def test_a_server_outlives_each_failure(start_server, repository, tmp_path, scenario):
    Torture(start_server, repository, Faults(tmp_path / "faults"), scenario).fail_all()
