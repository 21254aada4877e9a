# SPDX-License-Identifier: Apache-2.0
"""The bill of materials of a wheel, as CycloneDX 1.6 (https://cyclonedx.org/docs/1.6/json/): which libraries of which packages it carries, their licences, and
which file needs which. scripts/make_wheel.py calls it; docs/pip.md describes it."""
import datetime
import hashlib
import pathlib
import re
import subprocess
import urllib.parse
import uuid
import zipfile

LICENCES = pathlib.Path(__file__).resolve().parent.parent / "docs/licenses.md"
OWN = "nereid"


def expressions():
    """The licence of each library in docs/licenses.md, as an SPDX expression."""
    rows = re.findall(r"^\| (lib[^|]*) \| ([^|]*) \|", LICENCES.read_text(), re.M)
    return {name: licence.replace(" or ", " OR ") for cell, licence in rows for name in re.findall(r"\blib[\w-]+", cell)}


def stem(name):
    """The library's name without auditwheel's digits and the version: libgnutls-0bcb5b48.so.30.34.3 is libgnutls."""
    return re.sub(r"(-[0-9a-f]{8})?\.so.*", "", name)


def needed(path):
    dynamic = subprocess.run(["readelf", "-d", path], check=True, stdout=subprocess.PIPE, text=True).stdout
    return re.findall(r"\(NEEDED\).*\[(.*)\]", dynamic)


def hashes(path):
    return [{"alg": "SHA-256", "content": hashlib.sha256(path.read_bytes()).hexdigest()}]


def distribution():
    """The name of this machine's, and its version if it has one."""
    about = dict(re.findall(r'^(ID|VERSION_ID)="?([^"\n]*)"?$', pathlib.Path("/etc/os-release").read_text(), re.M))
    return [about["ID"], *filter(None, [about.get("VERSION_ID")])]


def package_url(owner):
    """As https://github.com/package-url/purl-spec defines it for Debian."""
    about = distribution()
    where = urllib.parse.urlencode({"arch": owner.architecture, "distro": "-".join(about)})
    return f"pkg:deb/{about[0]}/{owner.package}@{urllib.parse.quote(owner.version, safe='')}?{where}"


def itself(name, version, url, path):
    return {"type": "application", "bom-ref": name, "name": name, "version": version, "purl": url, "licenses": [{"expression": "Apache-2.0"}], "hashes": hashes(path)}


def document(own, components, dependencies, seconds):
    """`seconds`: the time to name, since 1970."""
    return {"$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json", "bomFormat": "CycloneDX", "specVersion": "1.6", "version": 1,
            "serialNumber": uuid.uuid5(uuid.NAMESPACE_URL, own["hashes"][0]["content"]).urn,
            "metadata": {"timestamp": datetime.datetime.fromtimestamp(seconds, datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ"), "component": own},
            "components": components, "dependencies": dependencies}


def library(path, owner, licence):
    return {"type": "library", "bom-ref": path.name, "name": owner.package, "version": owner.version, "purl": package_url(owner),
            "licenses": [{"expression": licence}], "hashes": hashes(path), "evidence": {"occurrences": [{"location": f"nereid.libs/{path.name}"}]}}


def binaries(directory):
    return sorted(path for path in directory.rglob("*") if path.is_file() and path.open("rb").read(4) == b"\x7fELF")


def dependencies(files, libraries):
    """Of nereid's own files together, and of each library."""
    named = {path.name for path in libraries}
    own = {name for path in files if path not in libraries for name in needed(path)}
    return [{"ref": OWN, "dependsOn": sorted(own & named)},
            *({"ref": path.name, "dependsOn": sorted(named.intersection(needed(path)))} for path in libraries)]


def bill(wheel, version, owners, seconds, scratch):
    """`owners`: stem of a library -> its Debian package; `seconds`: as of document; `scratch`: an empty directory."""
    with zipfile.ZipFile(wheel) as file:
        file.extractall(scratch)
    files = binaries(scratch)
    libraries = [path for path in files if path.parent.name == "nereid.libs"]
    licences = expressions()
    parts = [library(path, owners[stem(path.name)], licences[stem(path.name)]) for path in libraries]
    return document(itself(OWN, version, f"pkg:generic/{OWN}@{version}", wheel), parts, dependencies(files, libraries), seconds)
