# SPDX-License-Identifier: Apache-2.0
"""Whether what the documentation names is there: targets and headings of links, files and directories in `backquotes`, docs/*.md."""
import pathlib
import re
import subprocess
import sys

LINK = re.compile(r"\]\((?![a-z]+:)([^)#\s]*)(?:#([^)\s]*))?\)")
FILE = re.compile(r"`([\w./-]+\.(?:c|h|py|md|sh|cmake|map|proto|lua))`")
PATH = re.compile(r"`((?:src|backends|caches|include|tests|docs|bench|scripts|cmake|deploy)/[\w./-]+)`|\b(docs/[\w/-]+\.md)")
ELSEWHERE = {"trace_summary.py"}  # Triton's


def anchors(document):
    headings = re.findall(r"^#+ (.*)$", document.read_text(), re.M)
    return {re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-") for heading in headings}


def faults(document, files, directories):
    for number, line in enumerate(document.read_text().splitlines(), 1):
        for target, anchor in LINK.findall(line):
            linked = document.parent / target if target else document
            if not linked.exists():
                yield f"{document}:{number}: the link leads to {target}, which is not there"
            elif anchor and anchor not in anchors(linked):
                yield f"{document}:{number}: {linked} has no heading #{anchor}"
        for name in FILE.findall(line):
            if name not in ELSEWHERE and not any(f"/{file}".endswith(f"/{name}") for file in files):
                yield f"{document}:{number}: no file is called {name}"
        for quoted, plain in PATH.findall(line):
            name = quoted or plain
            if name.rstrip("/") not in files | directories:
                yield f"{document}:{number}: there is no {name}"


def main():
    names = subprocess.run(["git", "ls-files"], check=True, capture_output=True, text=True).stdout.split("\n")
    files = {name for name in names if name and pathlib.Path(name).exists()}
    directories = {str(parent) for name in files for parent in pathlib.Path(name).parents}
    documents = sorted(pathlib.Path(name) for name in files if name.endswith(".md"))
    found = [fault for document in documents for fault in faults(document, files, directories)]
    print(*found, sep="\n", file=sys.stderr, end="\n" if found else "")
    sys.exit(bool(found))


main()
