# SPDX-License-Identifier: Apache-2.0
"""Whether what the documentation names is there: targets and headings of links, files and directories in `backquotes`, docs/*.md.
In docs/architecture.md and docs/internals also identifiers; and the layers of docs/architecture.md are those of the CMakeLists.txt."""
import pathlib
import re
import subprocess
import sys

LINK = re.compile(r"\]\((?![a-z]+:)([^)#\s]*)(?:#([^)\s]*))?\)")
FILE = re.compile(r"`([\w./-]+\.(?:c|h|py|md|sh|cmake|map|proto|lua))`")
PATH = re.compile(r"`((?:src|backends|caches|include|tests|docs|bench|scripts|cmake|deploy)/[\w./-]+)`|\b(docs/[\w/-]+\.md)")
ELSEWHERE = {"trace_summary.py", "TF_NewTensor"}  # Triton's, TensorFlow's

CODE = re.compile(r"`([^`]*)`")
IDENTIFIER = re.compile(r"(?<![\w./-])(?:struct (\w+)|([A-Za-z]\w*_\w+))(?![\w./*-])")  # one word alone may be anything
PLACE = re.compile(r"`([\w-]+(?:/[\w-]+)+)/?`")  # a directory, or a .c and .h file without its ending
SOURCES = ("src/", "backends/", "caches/", "repoagents/", "include/", "tests/", "cmake/")
TEXTS = (".c", ".h", ".cc", ".py", ".proto", ".map", ".cmake", "CMakeLists.txt")

LAYER = re.compile(r"^\s*nereid_layer\(([^)]*)\)", re.M)
LAYER_ROW = re.compile(r"^\| `(\w+)` \| `([\w/]+)` \| ([\w, –]*) \|", re.M)
ARCHITECTURE = pathlib.Path("docs/architecture.md")


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


def told_of_code(document):
    return document == ARCHITECTURE or document.parent == pathlib.Path("docs/internals")


def words_of(files):
    read = [name for name in files if name.startswith(SOURCES) and name.endswith(TEXTS)]
    return {word for name in read for word in re.findall(r"\w+", pathlib.Path(name).read_text(errors="replace"))}


def identifier_faults(document, words, files, directories):
    places = {f"/{name.rsplit('.', 1)[0]}" for name in files} | {f"/{name}" for name in directories}
    rooms = {path.split("/")[1] for path in directories if path.count("/") == 1 and path.startswith(("src/", "backends/"))}
    for number, line in enumerate(document.read_text().splitlines(), 1):
        for name in [name for code in CODE.findall(line) for pair in IDENTIFIER.findall(code) for name in pair]:
            if name and name not in words | ELSEWHERE:
                yield f"{document}:{number}: nothing is called {name}"
        for path in PLACE.findall(line):
            if path.split("/")[0] in rooms and not any(place.endswith(f"/{path}") for place in places):
                yield f"{document}:{number}: there is no {path}"


def layers_of_tree(files):
    """{name: (directory, layers that it depends on)}, from nereid_layer(NAME DIRECTORY [ROOT root] SOURCES... DEPENDS... LINK...)."""
    layers = {}
    for file in files:
        if not file.endswith("CMakeLists.txt"):
            continue
        for call in LAYER.findall(re.sub(r"#.*", "", pathlib.Path(file).read_text())):
            name, directory, *rest = call.split()
            parts, part = {"ROOT": [], "SOURCES": [], "DEPENDS": [], "LINK": []}, "SOURCES"
            for word in rest:
                if word in parts:
                    part = word
                else:
                    parts[part].append(re.sub(r"\$\{(\w+)_layer\}", r"\1", word))
            layers[name] = ("/".join([*(parts["ROOT"] or ["src"]), directory]), parts["DEPENDS"])
    return layers


def layer_faults(files):
    tree = layers_of_tree(files)
    rows = {name: (directory, re.findall(r"\w+", depends)) for name, directory, depends in LAYER_ROW.findall(ARCHITECTURE.read_text())}
    for name in sorted(tree.keys() | rows.keys()):
        if tree.get(name) != rows.get(name):
            yield f"{ARCHITECTURE}: layer {name} is {rows.get(name)}, in the tree {tree.get(name)}"


def main():
    names = subprocess.run(["git", "ls-files"], check=True, capture_output=True, text=True).stdout.split("\n")
    files = {name for name in names if name and pathlib.Path(name).exists()}
    directories = {str(parent) for name in files for parent in pathlib.Path(name).parents}
    documents = sorted(pathlib.Path(name) for name in files if name.endswith(".md"))
    found = [fault for document in documents for fault in faults(document, files, directories)]
    words = words_of(files)
    found += [fault for document in documents if told_of_code(document) for fault in identifier_faults(document, words, files, directories)]
    found += layer_faults(files)
    print(*found, sep="\n", file=sys.stderr, end="\n" if found else "")
    sys.exit(bool(found))


main()
