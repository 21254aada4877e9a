# SPDX-License-Identifier: Apache-2.0
"""Whether each source file names its licence, and docs/licenses.md each library that a built file needs (build/release, where it is built)."""
import pathlib
import re
import subprocess
import sys

LINE = "SPDX-License-Identifier: Apache-2.0"
SOURCES = ["*.c", "*.h", "*.cc", "*.py", "*.go", "*.js", "*.proto", "*.cmake", "*CMakeLists.txt", "scripts/*", ".ci/*"]
C_LIBRARY = {"libc", "libm", "ld-linux-x86-64", "ld-linux-aarch64"}


def unmarked():
    names = subprocess.run(["git", "ls-files", "--", *SOURCES], check=True, capture_output=True, text=True).stdout.split()
    for name in names:
        path = pathlib.Path(name)
        if path.is_file() and LINE not in "".join(path.read_text().splitlines(keepends=True)[:3]):
            yield f"{name}: its first three lines do not say {LINE!r}"


def unlisted():
    listed = set(re.findall(r"^\| (lib[\w.+-]+) \|", pathlib.Path("docs/licenses.md").read_text(), re.M))
    built = {path.name for path in pathlib.Path("build/release").rglob("*.so")}
    for place in ("bin", "lib", "backends", "caches", "repoagents"):
        for path in pathlib.Path("build/release", place).rglob("*"):
            if path.is_symlink() or not path.is_file() or path.open("rb").read(4) != b"\x7fELF":
                continue
            dynamic = subprocess.run(["readelf", "-d", path], check=True, capture_output=True, text=True).stdout
            for needed in re.findall(r"\(NEEDED\).*\[(.*)\]", dynamic):
                name = re.sub(r"\.so(\..*)?$", "", needed)
                if needed not in built and name not in listed | C_LIBRARY and not any(re.fullmatch(re.escape(known) + r"[-.\d]*", name) for known in listed):
                    yield f"{path}: docs/licenses.md does not name {needed}"


faults = [*unmarked(), *unlisted()]
print(*faults, sep="\n", file=sys.stderr, end="\n" if faults else "")
sys.exit(bool(faults))
