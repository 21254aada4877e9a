# SPDX-License-Identifier: Apache-2.0
"""What the log says when the start is over: tables, which are as wide as the reader's terminal, and one last line."""
import re
import subprocess

from conftest import DEADLINE

SUMMARY = re.compile(r'"(Serving [^"]*|Giving up with [^"]*)"')


def row_of(log, name):
    """The row of a table that begins with `name`, its cells put together again."""
    lines = iter(log.splitlines())
    first = next(line for line in lines if line.startswith(f"| {name} "))
    cells = [cell.strip() for cell in first.strip("|").split("|")]
    for line in lines:
        more = [cell.strip() for cell in line.strip("|").split("|")]
        if not line.startswith("| ") or more[0]:
            break
        cells = [a + b for a, b in zip(cells, more)]
    return " | ".join(cells)


def tables(log):
    """The lines of all tables."""
    return [line for line in log.splitlines() if line[:1] in ("|", "+")]


def summary(log):
    """The last line's text."""
    return SUMMARY.findall(log)[-1]


def assert_refused(nereid, repository, flags, words):
    """A start with such flags fails, and standard error has these words."""
    done = subprocess.run([nereid, f"--model-repository={repository}", *flags], capture_output=True, text=True, timeout=DEADLINE)
    assert done.returncode == 1 and words in done.stderr, done.stderr
