# SPDX-License-Identifier: Apache-2.0
"""Certificates for tests, made by openssl: an authority, a server and a client of it, and strangers."""
import subprocess

EXTENSIONS = {
    "server": "subjectAltName=DNS:localhost,IP:127.0.0.1\nextendedKeyUsage=serverAuth",
    "client": "extendedKeyUsage=clientAuth",
}
NEW_KEY = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]


def openssl(directory, *arguments):
    subprocess.run(["openssl", *arguments], cwd=directory, check=True, capture_output=True)


def make_authority(directory, name):
    openssl(directory, "req", "-x509", *NEW_KEY, "-keyout", f"{name}.key", "-out", f"{name}.pem", "-subj", f"/CN={name}",
            "-addext", "keyUsage=critical,keyCertSign,cRLSign")  # without it Python 3.13 does not take it for an authority


def make_certificate(directory, name, authority, usage, expired=False):
    """`name`.pem and `name`.key"""
    (directory / f"{name}.ext").write_text(EXTENSIONS[usage])
    openssl(directory, "req", *NEW_KEY, "-keyout", f"{name}.key", "-out", f"{name}.csr", "-subj", f"/CN={name}")
    if expired:
        sign_expired(directory, name, authority)
    else:
        openssl(directory, "x509", "-req", "-in", f"{name}.csr", "-CA", f"{authority}.pem", "-CAkey", f"{authority}.key",
                "-CAcreateserial", "-days", "30", "-extfile", f"{name}.ext", "-out", f"{name}.pem")


def sign_expired(directory, name, authority):
    """For a day that is over: `x509` of newer versions takes no negative days."""
    (directory / "index").touch()
    (directory / "ca.cnf").write_text("[ca]\ndefault_ca = a\n[a]\ndatabase = index\nnew_certs_dir = .\nrand_serial = yes\n"
                                      "default_md = sha256\npolicy = p\n[p]\ncommonName = supplied\n")
    openssl(directory, "ca", "-batch", "-notext", "-config", "ca.cnf", "-in", f"{name}.csr", "-cert", f"{authority}.pem", "-keyfile",
            f"{authority}.key", "-extfile", f"{name}.ext", "-startdate", "20240101000000Z", "-enddate", "20240102000000Z", "-out", f"{name}.pem")


def make_certificates(directory):
    make_authority(directory, "ca")
    make_authority(directory, "other_ca")
    make_certificate(directory, "server", "ca", "server")
    make_certificate(directory, "client", "ca", "client")
    make_certificate(directory, "stranger", "other_ca", "client")
    return directory


def tls_flags(directory, mutual=False, protocol="http"):
    flags = [f"--{protocol}-server-cert={directory}/server.pem", f"--{protocol}-server-key={directory}/server.key"]
    if mutual:
        return [*flags, f"--{protocol}-use-ssl-mutual=true", f"--{protocol}-root-cert={directory}/ca.pem"]
    return [*flags, f"--{protocol}-use-ssl=true"]
