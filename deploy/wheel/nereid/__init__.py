# SPDX-License-Identifier: Apache-2.0
"""The command nereid: the daemon in place of this Python, told which environment this is."""
import os
import sys


def main():
    # Where frameworks are looked for first, and whose Python runs Python models.
    os.environ.setdefault("NEREID_PYTHON_ENV", sys.prefix)
    daemon = os.path.join(os.path.dirname(os.path.abspath(__file__)), "bin", "nereid")
    os.execv(daemon, sys.argv)
