#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What the public headers declare, compared with what the library exports and with docs/abi.md.

    abi.py exports LIBRARY      every function of the server is exported, and nothing else
    abi.py table [--write]      docs/abi.md is what the sources say (or write it)
    abi.py signatures           print a C++ program that prints the type of every function

Run by ctest. Needs nm for `exports`, nothing else.
"""

import argparse
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
HEADERS = ("tritonserver", "tritonbackend", "tritoncache", "tritonrepoagent")
PLUGIN = {"tritonbackend": "backend", "tritoncache": "cache", "tritonrepoagent": "agent"}
EXTENSION = ROOT / "include/nereid/nereid.h"
TABLE = ROOT / "docs/abi.md"


def declarations(header):
    """(section, function, declared for: "DECLSPEC" of the server or "ISPEC" of a plug-in)."""
    text = (ROOT / f"include/triton/core/{header}.h").read_text()
    section = ""
    for part in re.split(r"(^// --- .*\n(?:// --- .*\n)*)", text, flags=re.M):
        if part.startswith("// --- "):
            section = re.split(r"[:.]", part.replace("// --- ", "").replace("\n", " "))[0].strip()
            continue
        code = re.sub(r"//.*", "", part)
        for kind, name in re.findall(
            r"TRITON\w+_(DECLSPEC|ISPEC)\s[^;(]*?\b(TRITON[A-Z]+_\w+)\s*\(", code
        ):
            yield section, name, kind


def callbacks(header):
    text = (ROOT / f"include/triton/core/{header}.h").read_text()
    return re.findall(r"^typedef [^;]*?\(\*(TRITON\w+)\)\(", text, flags=re.M)


def server_functions():
    return [
        name for header in HEADERS for _, name, kind in declarations(header) if kind == "DECLSPEC"
    ]


def extension_functions():
    """What the library offers beyond Triton's interface."""
    text = re.sub(r"//.*", "", EXTENSION.read_text())
    return re.findall(r"_DECLSPEC\s[^;(]*?\b(NEREID_\w+)\s*\(", text)


def check_exports(library):
    listing = subprocess.run(
        ["nm", "-D", "--defined-only", library], check=True, capture_output=True, text=True
    ).stdout
    exported = {line.split()[-1].split("@")[0] for line in listing.splitlines()}
    declared = set(server_functions()) | set(extension_functions())
    missing, extra = sorted(declared - exported), sorted(exported - declared)
    for name in missing:
        print(f"declared but not exported: {name}")
    for name in extra:
        print(f"exported but not declared: {name}")
    print(f"{len(declared & exported)} of {len(declared)} functions exported")
    return not (missing or extra) and len(declared) > 0


def table():
    lines = [
        "# The C ABI, function by function",
        "",
        "Made by `tests/abi/abi.py table --write` from the headers in `include/triton/core`; ctest fails",
        "when it is out of date, and when a function is not exported. *Entry point* means: the plug-in",
        "defines it and the server calls it.",
        "",
        "| header | functions of the server | entry points of plug-ins |",
        "|---|---|---|",
    ]
    rows = {header: list(declarations(header)) for header in HEADERS}
    for header, items in rows.items():
        server = [name for _, name, kind in items if kind == "DECLSPEC"]
        entries = len(items) - len(server)
        lines.append(f"| [{header}.h](#{header}h) | {len(server)} | {entries} |")
    for header, items in rows.items():
        lines += ["", f"## {header}.h"]
        current = None
        for section, name, kind in items:
            if section != current:
                current = section
                lines += ["", f"### {section or 'General'}", "", "| function | state |", "|---|---|"]
            if kind == "ISPEC":
                state = f"entry point of a {PLUGIN[header]}"
            else:
                state = "implemented"
            lines.append(f"| `{name}` | {state} |")
    return "\n".join(lines) + "\n"


def check_table(write):
    wanted = table()
    if write:
        TABLE.write_text(wanted)
        return True
    if TABLE.exists() and TABLE.read_text() == wanted:
        return True
    print(f"{TABLE.relative_to(ROOT)} is out of date: run tests/abi/abi.py table --write")
    return False


def print_signatures():
    print("#include <cstdio>\n#include <cstdlib>\n#include <cxxabi.h>\n#include <typeinfo>")
    for header in HEADERS:
        print(f'#include "triton/core/{header}.h"')
    print("static void show(const char *name, const std::type_info &type)\n{")
    print("  char *text = abi::__cxa_demangle(type.name(), nullptr, nullptr, nullptr);")
    print('  std::printf("%s: %s\\n", name, text);\n  std::free(text);\n}')
    print("int main()\n{")
    for header in HEADERS:
        for _, name, _ in declarations(header):
            print(f'  show("{name}", typeid(decltype({name})));')
        for name in callbacks(header):
            print(f'  show("{name}", typeid({name}));')
    print("}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("exports").add_argument("library")
    commands.add_parser("table").add_argument("--write", action="store_true")
    commands.add_parser("signatures")
    arguments = parser.parse_args()
    if arguments.command == "signatures":
        print_signatures()
        return 0
    if arguments.command == "exports":
        return 0 if check_exports(arguments.library) else 1
    return 0 if check_table(arguments.write) else 1


if __name__ == "__main__":
    sys.exit(main())
