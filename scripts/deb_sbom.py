# SPDX-License-Identifier: Apache-2.0
"""The bills of materials of Debian's packages, as CycloneDX 1.6: the packages whose libraries a package links, in the versions it was built with, and their
licences. scripts/make_deb.py calls it; docs/debian.md describes it. wheel_sbom.py has what it shares with that of the wheel."""
import json
import pathlib
import subprocess
import tempfile

import wheel_sbom
from built import Owner, output


def field(package, name):
    return output("dpkg-deb", "-f", str(package), name).strip()


def owner(library, architecture):
    """The package of that architecture that has the library; None for a library of nereid's own."""
    triplet = output("dpkg-architecture", "-a", architecture, "-q", "DEB_HOST_MULTIARCH", stderr=subprocess.DEVNULL).strip()
    found = subprocess.run(["dpkg-query", "-S", f"*/{triplet}/{library}", f"/lib*/{library}", f"/usr/lib*/{library}"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    packages = {line.partition(": ")[0] for line in found.stdout.splitlines() if "diversion by" not in line}
    names = {name for name in packages if name.endswith(f":{architecture}")}
    if not names:
        return None
    about = output("dpkg-query", "-W", "-f", "${Package} ${Version} ${Architecture} ${source:Package} ${source:Version}\n", sorted(names)[0])
    return Owner(*about.split())


def components(package, scratch):
    subprocess.run(["dpkg-deb", "-x", package, scratch], check=True)
    licences = wheel_sbom.expressions()
    found = {}
    for library in sorted({name for path in wheel_sbom.binaries(scratch) for name in wheel_sbom.needed(path)}):
        of = owner(library, field(package, "Architecture"))
        licence = licences.get(wheel_sbom.stem(library))
        if of is not None and licence is not None:  # the loader comes with libc6
            found[of.package] = {"type": "library", "bom-ref": of.package, "name": of.package, "version": of.version, "purl": wheel_sbom.package_url(of),
                                 "licenses": [{"expression": licence}]}
    return [found[name] for name in sorted(found)]


def bill(package, seconds, scratch):
    name, version, architecture = (field(package, name) for name in ("Package", "Version", "Architecture"))
    url = wheel_sbom.package_url(Owner(name, version, architecture, "nereid", version))
    parts = components(package, scratch)
    return wheel_sbom.document(wheel_sbom.itself(name, version, url, package), parts, [{"ref": name, "dependsOn": [part["name"] for part in parts]}], seconds)


def write(packages, seconds):
    """A bill beside each package that has binaries."""
    for package in packages:
        if field(package, "Architecture") == "all":
            continue
        with tempfile.TemporaryDirectory() as scratch:
            made = bill(package, seconds, pathlib.Path(scratch))
        if made["components"]:
            package.with_suffix(".cdx.json").write_text(json.dumps(made, indent=1) + "\n")
