# SPDX-License-Identifier: Apache-2.0
"""Makes a wheel from a build: make_wheel.py BUILD DIRECTORY writes the wheel and its bill of materials (wheel_sbom.py) into DIRECTORY, and prints the path of the
wheel. scripts/package builds first, for this machine or for another one.

setuptools packs. auditwheel adds the libraries and finds out which glibc the wheel needs. Two runs make the same bytes: all times are the time of the last
commit, or SOURCE_DATE_EPOCH.
"""
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
from built import ROOT, Build, source_time

OWN = "libtritonserver.so"  # stays as it is: backends of others know it by that name
COMMON = pathlib.Path("/usr/share/common-licenses")


def add_licences(stage, carried, root):
    """The licence of nereid, those of the packages whose libraries the wheel carries, and the texts that these refer to."""
    shutil.copyfile(ROOT / "LICENSE", stage / "LICENSE")  # without its mode, which depends on who has checked it out
    licences = stage / "carried"
    licences.mkdir()
    for package in sorted({owner.package for owner in carried.values()}):
        shutil.copyfile(f"{root}/usr/share/doc/{package}/copyright", licences / f"{package}.txt")
    texts = "".join(path.read_text() for path in sorted(licences.iterdir()))
    for name in sorted(set(re.findall(rf"{COMMON}/([\w.-]*\w)", texts))):
        shutil.copyfile(COMMON / name, licences / f"{name}.txt")
    lines = [f"{name}: {owner.package} {owner.version}, of the source package {owner.source} {owner.source_version}\n" for name, owner in sorted(carried.items())]
    (licences / "libraries.txt").write_text("The libraries in nereid.libs are those of these packages, unchanged except for names and search paths:\n" + "".join(lines))


def pack(stage, machine, directory):
    """Makes a wheel that still needs the system's libraries."""
    options = {"--build-option": f"--plat-name=linux_{machine}"}
    subprocess.run([sys.executable, "-c", f"from setuptools import build_meta; build_meta.build_wheel({str(directory)!r}, {options})"],
                   cwd=stage, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return next(directory.glob("*.whl"))


def repair(wheel, places, directory):
    """Adds the libraries, which lie in these places."""
    tools = str(pathlib.Path(sys.executable).parent)
    subprocess.run([sys.executable, "-m", "auditwheel", "repair", "--exclude", OWN, "--ldpaths", ":".join(sorted(map(str, places))), "-w", directory, wheel], check=True,
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
    build.install(package)
    shutil.copy(ROOT / "docs/pip.md", stage)
    metadata = stage / "pyproject.toml"
    metadata.write_text(metadata.read_text().replace("@version@", build.version))
    libraries = build.needed_libraries(package)
    carried = build.owners(libraries)
    add_licences(stage, carried, build.root)
    wheel = repair(pack(stage, build.machine, scratch), {path.parent for path in libraries}, scratch / "repaired")
    check(wheel, {wheel_sbom.stem(name) for name in carried})
    directory.mkdir(parents=True, exist_ok=True)
    write_sbom(wheel, build.version, carried, directory, scratch / "unpacked")
    return shutil.copy(wheel, directory)


def main(build, directory):
    os.umask(0o022)
    os.environ.setdefault("SOURCE_DATE_EPOCH", source_time())
    with tempfile.TemporaryDirectory() as scratch:
        print(make(Build(pathlib.Path(build)), pathlib.Path(directory), pathlib.Path(scratch).resolve()))


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit("usage: make_wheel.py BUILD DIRECTORY")
    main(*sys.argv[1:])
