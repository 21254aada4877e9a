# SPDX-License-Identifier: Apache-2.0
"""Writes an image as one file: the OCI's layout (https://github.com/opencontainers/image-spec) in a tar, with the list that `docker load` of older versions reads.
All times are one time, all owners root, all names in order: equal files make equal images. scripts/make_image.py calls it."""
import gzip
import hashlib
import io
import json
import os
import pathlib
import tarfile

MEDIA = "application/vnd.oci.image."
COMPRESSION = 6


class Layout:
    def __init__(self, seconds, created):
        """`seconds`: the time of all files, since 1970; `created`: the same as text."""
        self.seconds, self.created, self.blobs = seconds, created, {}

    def blob(self, data, media):
        digest = hashlib.sha256(data).hexdigest()
        self.blobs[f"blobs/sha256/{digest}"] = data
        return {"mediaType": f"{MEDIA}{media}", "digest": f"sha256:{digest}", "size": len(data)}

    def document(self, content, media):
        return self.blob(json.dumps(content, separators=(",", ":"), sort_keys=True).encode(), media)

    def member(self, name, kind=tarfile.REGTYPE, mode=0o644, size=0):
        member = tarfile.TarInfo(name)
        member.type, member.mode, member.size, member.mtime = kind, mode, size, self.seconds
        return member

    def add(self, archive, name, what):
        """`what`: as in image_tree.Tree.entries."""
        if isinstance(what, tuple) and what[0] == "link":
            member = self.member(name, tarfile.SYMTYPE, 0o777)
            member.linkname = what[1]
            archive.addfile(member)
        elif isinstance(what, tuple):
            archive.addfile(self.member(name, tarfile.DIRTYPE, what[1]))
        else:
            data = what if isinstance(what, bytes) else what.read_bytes()
            executable = isinstance(what, pathlib.Path) and os.access(what, os.X_OK) and what.stat().st_mode & 0o100
            archive.addfile(self.member(name, mode=0o755 if executable else 0o644, size=len(data)), io.BytesIO(data))

    def layer(self, entries):
        """Gives the layer's descriptor, and the digest of what it is when unpacked."""
        parents = {str(parent): ("directory", 0o755) for name in entries for parent in pathlib.PurePosixPath(name).parents if str(parent) != "."}
        plain = io.BytesIO()
        with tarfile.open(fileobj=plain, mode="w", format=tarfile.GNU_FORMAT) as archive:
            for name, what in sorted((parents | entries).items()):
                self.add(archive, name, what)
        packed = io.BytesIO()
        with gzip.GzipFile(filename="", fileobj=packed, mode="wb", compresslevel=COMPRESSION, mtime=0) as file:
            file.write(plain.getvalue())
        return self.blob(packed.getvalue(), "layer.v1.tar+gzip"), f"sha256:{hashlib.sha256(plain.getvalue()).hexdigest()}"

    def write(self, path, name, architecture, config, layers):
        """Gives the digest of the image. `name`: with its tag; `layers`: what `layer` gave, the lowest first."""
        history = [{"created": self.created, "created_by": "scripts/make_image.py"}] * len(layers)
        about = self.document({"created": self.created, "architecture": architecture, "os": "linux", "config": config, "history": history,
                               "rootfs": {"type": "layers", "diff_ids": [digest for _, digest in layers]}}, "config.v1+json")
        manifest = self.document({"schemaVersion": 2, "mediaType": f"{MEDIA}manifest.v1+json", "config": about, "layers": [layer for layer, _ in layers]}, "manifest.v1+json")
        names = {"org.opencontainers.image.ref.name": name, "io.containerd.image.name": name}
        index = {"schemaVersion": 2, "mediaType": f"{MEDIA}index.v1+json",
                 "manifests": [{**manifest, "annotations": names, "platform": {"architecture": architecture, "os": "linux"}}]}

        def blob_name(descriptor):
            return f"blobs/sha256/{descriptor['digest'].partition(':')[2]}"

        used = {blob_name(descriptor): self.blobs[blob_name(descriptor)] for descriptor in (about, manifest, *(layer for layer, _ in layers))}
        older = [{"Config": blob_name(about), "RepoTags": [name], "Layers": [blob_name(layer) for layer, _ in layers]}]
        files = used | {"index.json": json.dumps(index).encode(), "manifest.json": json.dumps(older).encode(), "oci-layout": b'{"imageLayoutVersion":"1.0.0"}'}
        directories = {"blobs": ("directory", 0o755), "blobs/sha256": ("directory", 0o755)}
        with tarfile.open(path, "w", format=tarfile.GNU_FORMAT) as archive:
            for each, what in sorted((directories | files).items()):
                self.add(archive, each, what)
        return manifest["digest"]
