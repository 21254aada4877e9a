# SPDX-License-Identifier: Apache-2.0
"""Makes the wheel of what is built: make_wheel.py BUILD DIRECTORY puts it into DIRECTORY and prints its path. scripts/package builds first.

setuptools packs, auditwheel puts the libraries in and finds out which glibc is needed. Two runs make the same bytes: times are that of the last
commit, or SOURCE_DATE_EPOCH.
"""
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
OWN = "libtritonserver.so"  # stays as it is: backends of others know it by that name
NOT_CARRIED = {"libc6", "zlib1g"}  # the wheel's platform has them
COMMON = pathlib.Path("/usr/share/common-licenses")


def output(*command, **options):
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, **options).stdout


def commit_time():
    return output("git", "-C", str(ROOT), "log", "-1", "--format=%ct").strip()


def version(build):
    return re.search(r"^CMAKE_PROJECT_VERSION:STATIC=(.*)$", (build / "CMakeCache.txt").read_text(), re.M)[1]


def binaries(directory):
    return sorted(path for path in directory.rglob("*") if path.is_file() and path.open("rb").read(4) == b"\x7fELF")


def install(build, package):
    """As `cmake --install` lays it out, less what a wheel has no use for or cannot have. The identity of a build tells the directory where it was made."""
    subprocess.run(["cmake", "--install", build, "--prefix", package, "--strip"], check=True, stdout=subprocess.DEVNULL)
    (package / "bin/tritonserver").unlink()  # a link
    shutil.rmtree(package / "include")
    for path in binaries(package):
        subprocess.run(["objcopy", "--remove-section=.note.gnu.build-id", path], check=True)


def needed_libraries(directory):
    """The libraries of the system that files there need, and those that these need."""
    told = output("ldd", *binaries(directory), env=os.environ | {"LD_LIBRARY_PATH": str(directory / "lib")})
    if "not found" in told:
        sys.exit(f"make_wheel: a library is not installed:\n{told}")
    found = {pathlib.Path(path).resolve() for path in re.findall(r"=> (/\S+)", told)}
    return sorted(path for path in found if directory not in path.parents)


def owners(libraries):
    """Debian's package of each library: name -> (package, its version, source package, its version)."""
    packages = {}
    for line in output("dpkg-query", "-S", *(f"*/{path.name}" for path in libraries)).splitlines():
        package, _, path = line.partition(": ")
        if pathlib.Path(path).resolve() in libraries:  # not of another kind of machine
            packages[pathlib.Path(path).name] = package.split(":")[0]
    about = output("dpkg-query", "-W", "-f", "${Package} ${Version} ${source:Package} ${source:Version}\n", *sorted(set(packages.values())))
    known = {line.split()[0]: line.split() for line in about.splitlines()}
    return {path.name: known[packages[path.name]] for path in libraries if packages[path.name] not in NOT_CARRIED}


def add_licences(stage, carried):
    """nereid's, those of the packages whose libraries are carried, and the texts that these refer to."""
    shutil.copy(ROOT / "LICENSE", stage)
    licences = stage / "carried"
    licences.mkdir()
    for package in sorted({row[0] for row in carried.values()}):
        shutil.copyfile(f"/usr/share/doc/{package}/copyright", licences / f"{package}.txt")
    texts = "".join(path.read_text() for path in sorted(licences.iterdir()))
    for name in sorted(set(re.findall(rf"{COMMON}/([\w.-]*\w)", texts))):
        shutil.copyfile(COMMON / name, licences / f"{name}.txt")
    lines = [f"{name}: {row[0]} {row[1]}, of the source package {row[2]} {row[3]}\n" for name, row in sorted(carried.items())]
    (licences / "libraries.txt").write_text("The libraries in nereid.libs are Debian's, unchanged but for names and search paths:\n" + "".join(lines))


def pack(stage, directory):
    """The wheel as setuptools makes it, which still needs the system's libraries."""
    subprocess.run([sys.executable, "-c", f"from setuptools import build_meta; build_meta.build_wheel({str(directory)!r})"],
                   cwd=stage, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return next(directory.glob("*.whl"))


def repair(wheel, directory):
    tools = str(pathlib.Path(sys.executable).parent)
    subprocess.run([sys.executable, "-m", "auditwheel", "repair", "--exclude", OWN, "-w", directory, wheel], check=True,
                   stdout=subprocess.DEVNULL, env=os.environ | {"PATH": f"{tools}:{os.environ['PATH']}"})
    return next(directory.glob("*.whl"))


def check(wheel, carried):
    """That licences are there for what is carried, and for nothing else."""
    with zipfile.ZipFile(wheel) as file:
        inside = {name.rpartition("/")[2] for name in file.namelist() if re.match(r"nereid\.libs/.", name)}
    stem = re.compile(r"(-[0-9a-f]{8})?\.so.*")
    if {stem.sub("", name) for name in inside} != {stem.sub("", name) for name in carried}:
        sys.exit(f"make_wheel: {wheel.name} carries {sorted(inside)}, and there are licences for {sorted(carried)}")


def make(build, directory, scratch):
    stage = scratch / "stage"
    shutil.copytree(ROOT / "deploy/wheel", stage, ignore=shutil.ignore_patterns("__pycache__"))
    package = stage / "nereid"
    install(build, package)
    shutil.copy(ROOT / "docs/pip.md", stage)
    metadata = stage / "pyproject.toml"
    metadata.write_text(metadata.read_text().replace("@version@", version(build)))
    carried = owners(needed_libraries(package))
    add_licences(stage, carried)
    wheel = repair(pack(stage, scratch), scratch / "repaired")
    check(wheel, carried)
    directory.mkdir(parents=True, exist_ok=True)
    return shutil.copy(wheel, directory)


def main(build, directory):
    os.umask(0o022)
    os.environ.setdefault("SOURCE_DATE_EPOCH", commit_time())
    with tempfile.TemporaryDirectory() as scratch:
        print(make(pathlib.Path(build), pathlib.Path(directory), pathlib.Path(scratch).resolve()))


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit("usage: make_wheel.py BUILD DIRECTORY")
    main(*sys.argv[1:])
