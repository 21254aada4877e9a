# SPDX-License-Identifier: Apache-2.0
"""The interpreters of this machine that a worker must run under, each in an environment with NumPy.

Found: pyenv's versions, /usr/bin and PATH. `scripts/setup --all` runs this file, which makes the environments, in .deps/pythons; tests only use them.
"""

import os
import pathlib
import re
import shutil
import subprocess
import sys

OLDEST = (3, 8)
PLACE = pathlib.Path(__file__).resolve().parents[2] / ".deps/pythons"


def _candidates():
    pyenv = pathlib.Path(os.environ.get("PYENV_ROOT", pathlib.Path.home() / ".pyenv"))
    yield from sorted(pyenv.glob("versions/*/bin/python3"))
    for directory in ["/usr/bin", "/usr/local/bin", *os.environ.get("PATH", "").split(os.pathsep)]:
        for path in sorted(pathlib.Path(directory).glob("python3*")):
            if re.fullmatch(r"python3(\.\d+)?", path.name):
                yield path


def _describe(path):
    """(version, flavour) or None. A build without the GIL is another flavour, for which the stable ABI does not exist."""
    code = "import sys, sysconfig; print(*sys.version_info[:3], sys.implementation.name, sysconfig.get_config_var('Py_GIL_DISABLED') or 0)"
    try:
        said = subprocess.run([path, "-c", code], capture_output=True, text=True, timeout=60).stdout.split()
    except (OSError, subprocess.TimeoutExpired):
        return None
    if len(said) != 5 or said[3] != "cpython" or said[4] != "0":
        return None
    return tuple(map(int, said[:3]))


def found():
    """{(3, 12): path}: one CPython for each minor version from 3.8 on."""
    interpreters = {}
    for path in _candidates():
        version = _describe(path)
        if version and version[:2] >= OLDEST:
            interpreters.setdefault(version[:2], path)
    return dict(sorted(interpreters.items()))


# For each the oldest NumPy that there is, and the newest (2026-11).
NUMPY = {
    (3, 8): ("1.17.3", "1.24.4"),
    (3, 9): ("1.19.3", "2.0.2"),
    (3, 10): ("1.21.3", "2.2.6"),
    (3, 11): ("1.23.2", "2.4.6"),
    (3, 12): ("1.26.0", "2.5.5"),
    (3, 13): ("2.1.0", "2.5.5"),
}
NEWEST = NUMPY[max(NUMPY)][-1:]  # for a Python that is newer than the table


def each():
    """(version, path, NumPy's version): each interpreter with the oldest and the newest NumPy."""
    for version, path in found().items():
        for numpy in NUMPY.get(version, NEWEST):
            yield version, path, numpy


def name(value):
    """How a test is called for one of them."""
    return ".".join(map(str, value)) if isinstance(value, tuple) else pathlib.Path(value).name


def _place(version, numpy):
    return PLACE / f"{name(version)}-numpy-{numpy}"


def with_numpy(version, numpy=None):
    """The python of an environment of that interpreter that has this NumPy, or the newest."""
    place = _place(version, numpy or NUMPY.get(version, NEWEST)[-1])
    assert (place / "complete").exists(), f"{place} is missing: run scripts/setup --all first"
    return place / "bin/python"


def make(version, path, numpy):
    place = _place(version, numpy)
    if (place / "complete").exists():
        return
    print(f"installing NumPy {numpy} for Python {name(version)} into {place}")
    shutil.rmtree(place, ignore_errors=True)
    subprocess.run([path, "-m", "venv", "--without-pip", place], check=True)
    # One pip for all, and nothing is compiled that no test imports: a third of the time. NumPy's own word on which Python it needs would be held against pip's.
    subprocess.run(
        [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-compile", "--no-deps", "--only-binary=:all:",
         "--ignore-requires-python", f"--python-version={name(version)}", f"--target={place}/lib/python{name(version)}/site-packages", f"numpy=={numpy}"],
        check=True,
    )
    (place / "complete").touch()


if __name__ == "__main__":
    for wanted in each():
        make(*wanted)
