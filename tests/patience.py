# SPDX-License-Identifier: Apache-2.0
"""How long tests wait for what comes at once unless something hangs. NEREID_PATIENCE=3 makes all limits three times as long."""
import os

FACTOR = float(os.environ.get("NEREID_PATIENCE", 1))
PATIENCE = int(300 * FACTOR)  # seconds: only what hangs waits for them to pass, however loaded the machine is
