# SPDX-License-Identifier: Apache-2.0
"""The bill of materials of an image, as CycloneDX 1.6: the packages of which it has files, their versions and licences, and which package needs which.
scripts/make_image.py calls it; docs/container.md describes it."""
import datetime
import os
import re
import uuid

import wheel_sbom
from image_tree import is_binary

OWN = wheel_sbom.OWN


def licences_of(package, names, copyright_text):
    """As docs/licenses.md says for the libraries that it has; else the names in Debian's record of the package."""
    known = wheel_sbom.expressions()
    found = sorted({known[stem] for stem in (wheel_sbom.stem(os.path.basename(name)) for name in names) if stem in known})
    if found:
        return [{"expression": " AND ".join(f"({each})" if " OR " in each and len(found) > 1 else each for each in found)}]
    formatted = copyright_text.startswith("Format")  # as Debian's policy describes it; other texts are for people
    listed = sorted({name.strip() for name in re.findall(r"^License:[ \t]*(\S[^\n]*)$", copyright_text, re.M)}) if formatted else []
    return [{"license": {"name": name}} for name in listed or [f"see /usr/share/doc/{package}/copyright"]]


def component(package, files, copyright_text):
    return {"type": "library", "bom-ref": package.package, "name": package.package, "version": package.version, "purl": wheel_sbom.package_url(package),
            "licenses": licences_of(package.package, files, copyright_text),
            "evidence": {"occurrences": [{"location": f"/{name}"} for name in sorted(files) if is_binary(files[name])]}}


def bill(name, version, digest, seconds, files, owner_of, copyright_of, others):
    """`files`: of all layers, by name; `owner_of(name)`: a file's package, or the `bom-ref` of one of `others`, or OWN; `copyright_of(package)`: its text;
    `others`: components that are no package of Debian's."""
    grouped, needs = {}, {}
    by_library = {os.path.basename(each): owner_of(each) for each in files}

    def reference(owner):
        return owner if isinstance(owner, str) else owner.package

    for each, what in files.items():
        owner = owner_of(each)
        grouped.setdefault(owner, {})[each] = what
        if is_binary(what):
            needed = {reference(by_library[library]) for library in wheel_sbom.needed(what) if library in by_library}
            needs.setdefault(reference(owner), set()).update(needed - {reference(owner)})
    packages = sorted((owner for owner in grouped if not isinstance(owner, str)), key=lambda owner: owner.package)
    own = {"type": "container", "bom-ref": OWN, "name": name, "version": version, "purl": f"pkg:oci/{OWN}@{digest}?tag={name.partition(':')[2]}",
           "licenses": [{"expression": "Apache-2.0"}], "hashes": [{"alg": "SHA-256", "content": digest.partition(":")[2]}]}
    references = [OWN, *(each["bom-ref"] for each in others), *(package.package for package in packages)]
    return {"$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json", "bomFormat": "CycloneDX", "specVersion": "1.6", "version": 1,
            "serialNumber": uuid.uuid5(uuid.NAMESPACE_URL, digest).urn,
            "metadata": {"timestamp": datetime.datetime.fromtimestamp(seconds, datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ"), "component": own},
            "components": [*others, *(component(package, grouped[package], copyright_of(package)) for package in packages)],
            "dependencies": [{"ref": each, "dependsOn": sorted(needs.get(each, ()))} for each in references]}
