# SPDX-License-Identifier: Apache-2.0
"""Triton's own Python backend (2.51, from PyPI's nvidia-pytriton) for nereid: how its files are laid out.

Its libraries ask for Triton's core by the name that the wheel gave it. Here nereid's library lies under that name, so that
no code of Triton but the backend is in the process.
"""
import shutil
import subprocess

from conftest import BUILD, ROOT, WITHOUT_LEAK_CHECK

TRITON = ROOT / ".deps/pytriton"
# ThreadSanitizer cannot see how that library's threads and processes share memory (boost::interprocess, compiled without it): it
# reports races in there by the dozen. The release build stands in.
PYTHON_BUILD = ROOT / "build/release" if BUILD.name == "tsan" else BUILD
# The stub embeds the system's Python and takes its libraries by the python3 that it finds first. Triton's library leaks some
# errors and metrics, and is unloaded before the check for leaks could name it.
VARIABLES = {"PATH": "/usr/bin:/bin", **WITHOUT_LEAK_CHECK}


def system_python_version():
    command = ["/usr/bin/python3", "-c", "import sys; print('%d.%d' % sys.version_info[:2])"]
    return subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout.strip()


def lay_out(directory, core=PYTHON_BUILD / "lib/libtritonserver.so"):
    """Makes a backend directory with Triton's `python` in it; the stub is the one for the system's Python."""
    version = system_python_version()
    libraries = directory / "nvidia_pytriton.libs"
    libraries.mkdir()
    for library in (TRITON / "nvidia_pytriton.libs").iterdir():
        (libraries / library.name).symlink_to(core if library.name.startswith("libtritonserver-") else library)
    backends = directory / "pytriton/tritonserver/backends"
    python = backends / "python"
    python.mkdir(parents=True)
    parts = TRITON / "pytriton/tritonserver"
    # copies: the loader looks for the libraries beside the file that a link leads to
    for part in (*(parts / "backends/python").glob("*.*"), parts / "python_backend_stubs" / version / "triton_python_backend_stub"):
        shutil.copy(part, python)
    for package in (ROOT / f".deps/numpy-1.26.4-python{version}").glob("numpy*"):
        (python / package.name).symlink_to(package)
    link = directory / "backends"  # the backend takes a directory that is not this very name for one with a model.py of its own
    link.symlink_to(backends)
    return link
