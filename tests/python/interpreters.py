# SPDX-License-Identifier: Apache-2.0
"""The interpreters of this machine that a worker must run under, each in an environment with NumPy.

Found: pyenv's versions, /usr/bin and PATH. The environments are made once, in build/pythons, with pip.
"""

import fcntl
import os
import pathlib
import re
import shutil
import subprocess
import sys

OLDEST = (3, 8)
PLACE = pathlib.Path(__file__).resolve().parents[2] / "build/pythons"


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


# The oldest NumPy that there is for each.
OLDEST_NUMPY = {
    (3, 8): "numpy==1.17.3",
    (3, 9): "numpy==1.19.3",
    (3, 10): "numpy==1.21.3",
    (3, 11): "numpy==1.23.2",
    (3, 12): "numpy==1.26.0",
    (3, 13): "numpy==2.1.0",
}


def each():
    """(version, path, what pip calls the NumPy): each interpreter with the newest and the oldest NumPy."""
    for version, path in found().items():
        yield version, path, "numpy"
        if version in OLDEST_NUMPY:
            yield version, path, OLDEST_NUMPY[version]


def name(value):
    """How a test is called for one of them."""
    return ".".join(map(str, value)) if isinstance(value, tuple) else pathlib.Path(value).name


def with_numpy(version, path, numpy="numpy"):
    """The python of an environment of that interpreter that has NumPy; made, by one process at a time, when it is not there."""
    place = PLACE / f"{version[0]}.{version[1]}-{re.sub('[^a-z0-9.]+', '-', numpy)}"
    python = place / "bin/python"
    PLACE.mkdir(parents=True, exist_ok=True)
    with open(f"{place}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (place / "complete").exists():
            shutil.rmtree(place, ignore_errors=True)
            subprocess.run([path, "-m", "venv", place], check=True)
            subprocess.run([python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", numpy], check=True)
            (place / "complete").touch()
    return python


if __name__ == "__main__":
    for version, path, numpy in each():
        print(*version, path, with_numpy(version, path, numpy), file=sys.stdout)
