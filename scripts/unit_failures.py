# SPDX-License-Identifier: Apache-2.0
"""Prints a row for each unit test that failed, as scripts/test wants them: hard or soft, name, the command that runs it alone.

    scripts/unit_failures.py build/asan ctest.xml ctest.log     what --output-junit and --output-log of ctest wrote
"""
import pathlib
import re
import shlex
import sys
import xml.etree.ElementTree

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "tests"))
import failures  # noqa: E402

REASON = re.compile(r"^\s+\d+ - (\S+) \(([^)]+)\)", re.MULTILINE)  # of the list at ctest's end
ORDINARY = {"Failed", "Timeout"}  # other reasons are signals
CAUGHT = "Test failed with exception"  # cmocka's words for one


def main():
    build, report, log = sys.argv[1:]
    reasons = dict(REASON.findall(pathlib.Path(log).read_text(errors="replace")))
    for case in xml.etree.ElementTree.parse(report).getroot().iter("testcase"):
        name, text = case.get("name"), case.findtext("system-out", "")
        if case.get("status") != "fail":
            continue
        hard = failures.HARD.search(text) or CAUGHT in text or reasons.get(name, "Failed") not in ORDINARY
        command = f"ctest --test-dir {build} --output-on-failure --timeout 300 -R {shlex.quote(f'^{name}$')}"
        print("hard" if hard else "soft", f"{build}: {name}", command, sep="\t")


if __name__ == "__main__":
    main()
