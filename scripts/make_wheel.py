# SPDX-License-Identifier: Apache-2.0
"""Makes a wheel from a build: make_wheel.py BUILD DIRECTORY writes the wheel and its bill of materials (wheel_sbom.py) into DIRECTORY, and prints the path of the
wheel. scripts/package builds first.

setuptools packs. auditwheel adds the libraries and finds out which glibc the wheel needs. Two runs make the same bytes: all times are the time of the last
commit, or SOURCE_DATE_EPOCH.
"""
import collections
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile

import wheel_sbom

ROOT = pathlib.Path(__file__).resolve().parent.parent
OWN = "libtritonserver.so"  # stays as it is: backends of others know it by that name
NOT_CARRIED = {"libc6", "zlib1g"}  # the wheel's platform has them
COMMON = pathlib.Path("/usr/share/common-licenses")
Owner = collections.namedtuple("Owner", "package version architecture source source_version")


def output(*command, **options):
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, **options).stdout


def source_time():
    """The time of the last commit. Sources without commits come from `git archive`, which gives their files that time."""
    try:
        return output("git", "-C", str(ROOT), "log", "-1", "--format=%ct", stderr=subprocess.DEVNULL).strip()
    except (OSError, subprocess.CalledProcessError):
        return str(int((ROOT / "CMakeLists.txt").stat().st_mtime))


def version(build):
    return re.search(r"^CMAKE_PROJECT_VERSION:STATIC=(.*)$", (build / "CMakeCache.txt").read_text(), re.M)[1]


def install(build, package):
    """As `cmake --install` lays it out, without what a wheel has no use for or cannot have. A build's identity depends on the directory where it was made."""
    subprocess.run(["cmake", "--install", build, "--prefix", package, "--strip"], check=True, stdout=subprocess.DEVNULL)
    (package / "bin/tritonserver").unlink()  # a link
    for name in ("include", "lib/pkgconfig", "share"):
        shutil.rmtree(package / name)
    for path in wheel_sbom.binaries(package):
        subprocess.run(["objcopy", "--remove-section=.note.gnu.build-id", path], check=True)


def needed_libraries(directory):
    """The libraries of the system that the files in `directory` need, directly or through another library."""
    told = output("ldd", *wheel_sbom.binaries(directory), env=os.environ | {"LD_LIBRARY_PATH": str(directory / "lib")})
    if "not found" in told:
        sys.exit(f"make_wheel: a library is not installed:\n{told}")
    found = {pathlib.Path(path).resolve() for path in re.findall(r"=> (/\S+)", told)}
    return sorted(path for path in found if directory not in path.parents)


def owners(libraries):
    """Debian's package of each library, by the name of the library's file."""
    packages = {}
    for line in output("dpkg-query", "-S", *(f"*/{path.name}" for path in libraries)).splitlines():
        package, _, path = line.partition(": ")
        if pathlib.Path(path).resolve() in libraries:  # dpkg-query also finds the library of another architecture
            packages[pathlib.Path(path).name] = package.split(":")[0]
    about = output("dpkg-query", "-W", "-f", "${Package} ${Version} ${Architecture} ${source:Package} ${source:Version}\n", *sorted(set(packages.values())))
    known = {line.split()[0]: Owner(*line.split()) for line in about.splitlines()}
    return {path.name: known[packages[path.name]] for path in libraries if packages[path.name] not in NOT_CARRIED}


def add_licences(stage, carried):
    """The licence of nereid, those of the packages whose libraries the wheel carries, and the texts that these refer to."""
    shutil.copy(ROOT / "LICENSE", stage)
    licences = stage / "carried"
    licences.mkdir()
    for package in sorted({owner.package for owner in carried.values()}):
        shutil.copyfile(f"/usr/share/doc/{package}/copyright", licences / f"{package}.txt")
    texts = "".join(path.read_text() for path in sorted(licences.iterdir()))
    for name in sorted(set(re.findall(rf"{COMMON}/([\w.-]*\w)", texts))):
        shutil.copyfile(COMMON / name, licences / f"{name}.txt")
    lines = [f"{name}: {owner.package} {owner.version}, of the source package {owner.source} {owner.source_version}\n" for name, owner in sorted(carried.items())]
    (licences / "libraries.txt").write_text("The libraries in nereid.libs are those of these packages, unchanged except for names and search paths:\n" + "".join(lines))


def pack(stage, directory):
    """Makes a wheel that still needs the system's libraries."""
    subprocess.run([sys.executable, "-c", f"from setuptools import build_meta; build_meta.build_wheel({str(directory)!r})"],
                   cwd=stage, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return next(directory.glob("*.whl"))


def repair(wheel, directory):
    tools = str(pathlib.Path(sys.executable).parent)
    subprocess.run([sys.executable, "-m", "auditwheel", "repair", "--exclude", OWN, "-w", directory, wheel], check=True,
                   stdout=subprocess.DEVNULL, env=os.environ | {"PATH": f"{tools}:{os.environ['PATH']}"})
    return next(directory.glob("*.whl"))


def check(wheel, stems):
    """Each library that the wheel carries has a licence, and no other library has."""
    with zipfile.ZipFile(wheel) as file:
        inside = {wheel_sbom.stem(name.rpartition("/")[2]) for name in file.namelist() if re.match(r"nereid\.libs/.", name)}
    if inside != stems:
        sys.exit(f"make_wheel: {wheel.name} carries {sorted(inside)}, and there are licences for {sorted(stems)}")
    unknown = inside - wheel_sbom.expressions().keys()
    if unknown:
        sys.exit(f"make_wheel: {wheel.name} carries {sorted(unknown)}, which docs/licenses.md does not list")


def write_sbom(wheel, version, carried, directory, scratch):
    owners = {wheel_sbom.stem(name): owner for name, owner in carried.items()}
    bill = wheel_sbom.bill(wheel, version, owners, int(os.environ["SOURCE_DATE_EPOCH"]), scratch)
    (directory / wheel.name).with_suffix(".cdx.json").write_text(json.dumps(bill, indent=1) + "\n")


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
    check(wheel, {wheel_sbom.stem(name) for name in carried})
    directory.mkdir(parents=True, exist_ok=True)
    write_sbom(wheel, version(build), carried, directory, scratch / "unpacked")
    return shutil.copy(wheel, directory)


def main(build, directory):
    os.umask(0o022)
    os.environ.setdefault("SOURCE_DATE_EPOCH", source_time())
    with tempfile.TemporaryDirectory() as scratch:
        print(make(pathlib.Path(build), pathlib.Path(directory), pathlib.Path(scratch).resolve()))


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit("usage: make_wheel.py BUILD DIRECTORY")
    main(*sys.argv[1:])
