# SPDX-License-Identifier: Apache-2.0
"""What packages are made of: a build, the libraries of the system that it needs, and Debian's packages of these. make_wheel.py, make_image.py and make_deb.py
call it."""
import collections
import os
import pathlib
import re
import shutil
import subprocess
import sys

import wheel_sbom

ROOT = pathlib.Path(__file__).resolve().parent.parent
NOT_CARRIED = {"libc6", "zlib1g"}  # the platform of a wheel has them
Owner = collections.namedtuple("Owner", "package version architecture source source_version")


def output(*command, **options):
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, **options).stdout


def source_time():
    """The time of the last commit. Sources without commits come from `git archive`, which gives their files that time."""
    try:
        return output("git", "-C", str(ROOT), "log", "-1", "--format=%ct", stderr=subprocess.DEVNULL).strip()
    except (OSError, subprocess.CalledProcessError):
        return str(int((ROOT / "CMakeLists.txt").stat().st_mtime))


class Build:
    """A directory in which CMake has built: for this machine, or for another one, whose libraries and database of dpkg are below `root` (scripts/cross_build)."""

    def __init__(self, directory):
        self.directory = directory
        cache = dict(re.findall(r"^(\w+):\w+=(.*)$", (directory / "CMakeCache.txt").read_text(), re.M))
        self.version = cache["CMAKE_PROJECT_VERSION"]
        self.machine = cache.get("CMAKE_SYSTEM_PROCESSOR", os.uname().machine)
        self.root = cache.get("CMAKE_SYSROOT", "")
        self.objcopy = cache["CMAKE_OBJCOPY"]
        self.ldd = [cache["CMAKE_CROSSCOMPILING_EMULATOR"], "--list"] if self.root else ["ldd"]  # the loader lists

    def install(self, package):
        """As `cmake --install` lays it out, without what a package has no use for or cannot have. A build's identity depends on the directory where it was made."""
        subprocess.run(["cmake", "--install", self.directory, "--prefix", package, "--strip"], check=True, stdout=subprocess.DEVNULL)
        (package / "bin/tritonserver").unlink()  # a link
        for name in ("include", "lib/pkgconfig", "share"):
            shutil.rmtree(package / name)
        for path in wheel_sbom.binaries(package):
            subprocess.run([self.objcopy, "--remove-section=.note.gnu.build-id", path], check=True)

    def needed_libraries(self, package):
        """The libraries of the system that the installed files need, directly or through another library."""
        variables = os.environ | {"LD_LIBRARY_PATH": str(package / "lib")}
        told = "".join(output(*self.ldd, path, env=variables) for path in wheel_sbom.binaries(package))
        if "not found" in told:
            sys.exit(f"a library is not installed:\n{told}")
        found = {pathlib.Path(path).resolve() for path in re.findall(r"=> (/\S+)", told)}
        return sorted(path for path in found if package not in path.parents)

    def names(self, path):
        """What a package may call a library: those from before /lib became a link leave out /usr."""
        merged = str(path).removeprefix(str(pathlib.Path(self.root).resolve()) if self.root else "").removeprefix("/usr")
        return merged, f"/usr{merged}"

    def owners(self, libraries):
        """Debian's package of each library, by the name of the library's file."""
        packages, query = {}, ["dpkg-query", f"--admindir={self.root}/var/lib/dpkg"]
        names = [name for path in libraries for name in self.names(path)]
        told = subprocess.run([*query, "-S", *names], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True).stdout  # it fails for names that no package has
        for line in told.splitlines():
            package, _, path = line.partition(": ")
            packages[pathlib.Path(path).name] = package.split(":")[0]
        about = output(*query, "-W", "-f", "${Package} ${Version} ${Architecture} ${source:Package} ${source:Version}\n", *sorted(set(packages.values())))
        known = {line.split()[0]: Owner(*line.split()) for line in about.splitlines()}
        return {path.name: known[packages[path.name]] for path in libraries if packages[path.name] not in NOT_CARRIED}
