# SPDX-License-Identifier: Apache-2.0
"""Makes images from a build: make_image.py BUILD DIRECTORY [VARIANT...] writes each image and its bill of materials (image_sbom.py) into DIRECTORY, and prints the
paths of the images. A variant is slim, onnx, python or onnx+python; the first three unless given. scripts/package --image builds first; docs/container.md says what is inside.

No root is needed. The packages of Debian come by apt (image_packages.py), ONNX Runtime from the environment that runs this. Two runs make the same bytes: all
times are the time of the last commit, or SOURCE_DATE_EPOCH.
"""
import datetime
import importlib.metadata
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

import image_sbom
import wheel_sbom
from built import NOT_CARRIED, ROOT, Build, output, source_time
from image_layout import Layout
from image_packages import installed_owner, make_pool
from image_tree import LIBRARIES, Tree

PREFIX = "opt/tritonserver"  # where Triton is in NVIDIA's images
ONNX_BACKEND = f"{PREFIX}/lib/nereid/backends/onnxruntime"
PARTS = ("slim", "onnx", "python")  # a layer each; every image has the first
# Backends of slim: they need no framework, and no library of C++.
PLAIN_BACKENDS = ("identity", "isolated")
# What is opened at run time.
OPENED = {"slim": (), "onnx": ("libcurl.so.4",), "python": ("libcurl.so.4", "libarchive.so.13")}
PACKAGES = {"slim": ("base-files", "ca-certificates"), "onnx": ("libstdc++6",), "python": ("python3", "python3-numpy")}
MODULES = r"usr/lib/python3"  # the standard library, and packages
UNUSED = r"/(tests?|idlelib|lib2to3|ensurepip|pydoc_data|turtledemo|pkg_resources|f2py|numpy/distutils|python3[.]\d+/dist-packages)/|/(turtle[.]py|_(ctypes_|xx)?test[^/]*[.]so)$|[.](a|h|pyi|pyx|pxd|f|f90)$"


def has(variant, part):
    return part == "slim" or part in variant.split("+")


def own_files(stage, part):
    """Those of nereid's files that belong to the part, as `cmake --install` lays them out."""
    found = {}
    for path in sorted(path for path in stage.rglob("*") if path.is_file()):
        backend = re.search(r"/backends/(\w+)/", str(path))
        belongs = "slim" if backend is None or backend[1] in PLAIN_BACKENDS else "python" if backend[1] == "python" else "onnx"
        if belongs == part:
            found[f"{PREFIX}/{path.relative_to(stage)}"] = path
    return found


def add_system(tree):
    """What programs look for in /etc, names of NVIDIA's images, and directories to mount on."""
    for path in sorted((ROOT / "deploy/container/root").rglob("*")):
        if path.is_file():
            tree.put(str(path.relative_to(ROOT / "deploy/container/root")), path.read_bytes())
    for name in ("dev", "proc", "sys", "run", "models"):
        tree.put(name, ("directory", 0o755))
    for name in ("tmp", "var/tmp"):
        tree.put(name, ("directory", 0o1777))
    for name in ("backends", "caches", "repoagents"):
        tree.put(f"{PREFIX}/{name}", ("link", f"lib/nereid/{name}"))
    tree.put(f"{PREFIX}/bin/tritonserver", ("link", "nereid"))
    for name in ("bin", "sbin", "lib", "lib64"):
        tree.put(name, ("link", f"usr/{name}"))
        tree.put(f"usr/{name}", ("directory", 0o755))
    tree.add("etc/os-release")
    certificates = sorted(name for name in tree.owners if name.startswith("usr/share/ca-certificates/") and name.endswith(".crt"))
    tree.packages.update(tree.owners[name] for name in certificates)
    tree.put("etc/ssl/certs/ca-certificates.crt", b"".join((tree.pool / name).read_bytes().rstrip() + b"\n" for name in certificates))
    tree.put("usr/lib/ssl/cert.pem", ("link", "/etc/ssl/certs/ca-certificates.crt"))  # OpenSSL's, which Python asks


def add_onnx(tree):
    """ONNX Runtime's library and licence, from the package that pip installed."""
    about = importlib.metadata.distribution("onnxruntime")
    package = pathlib.Path(about.locate_file("onnxruntime"))
    library, = package.glob("capi/libonnxruntime.so.*")
    tree.put_files({f"{ONNX_BACKEND}/{library.name}": library})
    for name in ("LICENSE", "ThirdPartyNotices.txt"):
        tree.put(f"usr/share/doc/onnxruntime/{name}", (package / name).read_bytes())


def onnx_component():
    number = importlib.metadata.version("onnxruntime")
    return {"type": "library", "bom-ref": "onnxruntime", "name": "onnxruntime", "version": number, "purl": f"pkg:pypi/onnxruntime@{number}", "licenses": [{"expression": "MIT"}]}


def add_python(tree):
    tree.add("usr/bin/python3")
    tree.add_all(MODULES, UNUSED)
    tree.compile_python("usr/bin/python3")


def make_trees(stage, pool, known, parts):
    """A tree for each part. Those of onnx and python are on top of slim, and know nothing of each other."""
    slim = Tree(pool, known)
    trees = {part: slim if part == "slim" else Tree(pool, known, slim) for part in parts}
    for part, tree in trees.items():
        tree.put_files(own_files(stage, part))
        {"slim": add_system, "onnx": add_onnx, "python": add_python}[part](tree)
        for library in OPENED[part]:
            tree.add_library(library)
        tree.add_licences()
    slim.put("usr/share/doc/nereid/copyright", (ROOT / "LICENSE").read_bytes())
    return trees


def image_config(build, variant, created):
    config = json.loads((ROOT / "deploy/container/config.json").read_text())
    labels = {"version": f"{build.version}-{variant}", "created": created}
    try:
        labels["revision"] = output("git", "-C", str(ROOT), "rev-parse", "HEAD", stderr=subprocess.DEVNULL).strip()
    except (OSError, subprocess.CalledProcessError):
        pass  # sources without commits
    config["Labels"] |= {f"org.opencontainers.image.{name}": value for name, value in labels.items()}
    return config


def bill_of(name, build, digest, seconds, trees):
    files = {each: what for tree in trees for each, what in tree.entries.items()}
    packages = set().union(*(tree.packages for tree in trees))

    def owner_of(each):
        owner = trees[0].owners.get(each)
        return "onnxruntime" if each.startswith(f"{ONNX_BACKEND}/libonnxruntime") else owner if owner in packages else image_sbom.OWN

    def copyright_of(package):
        return (trees[0].pool / "usr/share/doc" / package.package / "copyright").read_text(errors="replace")

    others = [onnx_component()] if any(owner_of(each) == "onnxruntime" for each in files) else []
    return image_sbom.bill(name, build.version, digest, seconds, files, owner_of, copyright_of, others)


def make(build, directory, variants, scratch):
    seconds = int(os.environ["SOURCE_DATE_EPOCH"])
    created = datetime.datetime.fromtimestamp(seconds, datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
    stage, pool = scratch / "stage", scratch / "pool"
    pool.mkdir()
    build.install(stage)
    needed = {owner.package for owner in build.owners(build.needed_libraries(stage)).values()}
    parts = [part for part in PARTS if any(has(variant, part) for variant in variants)]
    opened = {installed_owner(f"/{LIBRARIES}/{name}") for part in parts for name in OPENED[part]}
    known = make_pool({*needed, *NOT_CARRIED, *opened, *(name for part in parts for name in PACKAGES[part])}, ROOT / "build/image-packages", pool)
    trees = make_trees(stage, pool, known, parts)
    layout = Layout(seconds, created)
    layers = {part: layout.layer(tree.entries) for part, tree in trees.items()}
    directory.mkdir(parents=True, exist_ok=True)
    architecture = output("dpkg", "--print-architecture").strip()
    for variant in variants:
        inside = [part for part in parts if has(variant, part)]
        tag = f"{build.version}-{variant.replace('+', '-')}"
        path = directory / f"nereid-{tag}.tar"
        digest = layout.write(path, f"nereid:{tag}", architecture, image_config(build, variant, created), [layers[part] for part in inside])
        bill = bill_of(f"nereid:{tag}", build, digest, seconds, [trees[part] for part in inside])
        (directory / f"nereid-{tag}.cdx.json").write_text(json.dumps(bill, indent=1) + "\n")
        print(path)


def main(build, directory, *variants):
    variants = variants or PARTS
    unknown = [variant for variant in variants if not set(variant.split("+")) <= set(PARTS)]
    if unknown:
        sys.exit(f"make_image: there is no variant {unknown[0]!r}: slim, onnx, python or onnx+python")
    os.umask(0o022)
    os.environ.setdefault("SOURCE_DATE_EPOCH", source_time())
    with tempfile.TemporaryDirectory() as scratch:
        make(Build(pathlib.Path(build)), pathlib.Path(directory), variants, pathlib.Path(scratch).resolve())


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit("usage: make_image.py BUILD DIRECTORY [VARIANT...]")
    main(*sys.argv[1:])
