# SPDX-License-Identifier: Apache-2.0
"""Prints a row for each unit test that failed, as scripts/test wants them: hard or soft, name, the command that runs it alone.

    scripts/unit_failures.py build/asan build/asan/ctest.xml
"""
import pathlib
import re
import shlex
import sys
import xml.etree.ElementTree

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "tests"))
import failures  # noqa: E402

# ctest's words for a test that a signal ended, and cmocka's, which catches some.
ENDED = re.compile(r"SEGFAULT|aborted|ILLEGAL|BUS_ERROR|NUMERICAL|Exception")
CAUGHT = "Test failed with exception"


def main():
    build, report = sys.argv[1:]
    for case in xml.etree.ElementTree.parse(report).getroot().iter("testcase"):
        if case.get("status") not in ("fail", "timeout"):
            continue
        text = case.findtext("system-out", "")
        said = " ".join(failure.get("message", "") for failure in case.iter("failure"))
        hard = failures.HARD.search(text) or CAUGHT in text or ENDED.search(said)
        command = f"ctest --test-dir {build} --output-on-failure --timeout 300 -R {shlex.quote('^' + case.get('name') + '$')}"
        print("hard" if hard else "soft", f"{build}: {case.get('name')}", command, sep="\t")


if __name__ == "__main__":
    main()
