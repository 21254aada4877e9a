"""Certificates for tests, made by openssl: an authority, a server and a client of it, and strangers."""
import subprocess

EXTENSIONS = {
    "server": "subjectAltName=DNS:localhost,IP:127.0.0.1\nextendedKeyUsage=serverAuth",
    "client": "extendedKeyUsage=clientAuth",
}
NEW_KEY = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]


def openssl(folder, *arguments):
    subprocess.run(["openssl", *arguments], cwd=folder, check=True, capture_output=True)


def make_authority(folder, name):
    openssl(folder, "req", "-x509", *NEW_KEY, "-keyout", f"{name}.key", "-out", f"{name}.pem", "-subj", f"/CN={name}")


def make_certificate(folder, name, authority, usage, days="30"):
    """`name`.pem and `name`.key"""
    (folder / f"{name}.ext").write_text(EXTENSIONS[usage])
    openssl(folder, "req", *NEW_KEY, "-keyout", f"{name}.key", "-out", f"{name}.csr", "-subj", f"/CN={name}")
    openssl(folder, "x509", "-req", "-in", f"{name}.csr", "-CA", f"{authority}.pem", "-CAkey", f"{authority}.key",
            "-CAcreateserial", "-days", days, "-extfile", f"{name}.ext", "-out", f"{name}.pem")


def make_certificates(folder):
    make_authority(folder, "ca")
    make_authority(folder, "other_ca")
    make_certificate(folder, "server", "ca", "server")
    make_certificate(folder, "client", "ca", "client")
    make_certificate(folder, "stranger", "other_ca", "client")
    return folder


def tls_flags(folder, mutual=False, protocol="http"):
    flags = [f"--{protocol}-server-cert={folder}/server.pem", f"--{protocol}-server-key={folder}/server.key"]
    if mutual:
        return [*flags, f"--{protocol}-use-ssl-mutual=true", f"--{protocol}-root-cert={folder}/ca.pem"]
    return [*flags, f"--{protocol}-use-ssl=true"]
