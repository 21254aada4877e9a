# SPDX-License-Identifier: Apache-2.0
"""What a root gets before packages are installed in it, and what the installed server is asked."""
import json
import re
import shutil
import subprocess
import urllib.request

from roots import PATIENCE

NEWER = "0.1.0-2"
IDENTITY = """
backend: "identity"
input [ { name: "INPUT0" data_type: TYPE_FP32 dims: [ -1 ] } ]
output [ { name: "OUTPUT0" data_type: TYPE_FP32 dims: [ -1 ] } ]
"""
DOUBLED = """
import triton_python_backend_utils as pb_utils

class TritonPythonModel:
    @staticmethod
    def auto_complete_config(config):
        config.add_input({"name": "INPUT0", "data_type": "TYPE_FP32", "dims": [-1]})
        config.add_output({"name": "OUTPUT0", "data_type": "TYPE_FP32", "dims": [-1]})
        config.set_max_batch_size(0)
        return config

    def execute(self, requests):
        doubled = (2 * pb_utils.get_input_tensor_by_name(request, "INPUT0").as_numpy() for request in requests)
        return [pb_utils.InferenceResponse([pb_utils.Tensor("OUTPUT0", tensor)]) for tensor in doubled]
"""


def newer(package, scratch):
    """The package of a later version, which comes with another configuration."""
    tree = scratch / package.stem
    subprocess.run(["dpkg-deb", "-R", package, tree], check=True)
    control = tree / "DEBIAN/control"
    version = re.search(r"^Version: (.*)", control.read_text(), re.M)[1]
    control.write_text(control.read_text().replace(version, NEWER))
    if (tree / "etc/nereid/nereid.yaml").exists():
        with (tree / "etc/nereid/nereid.yaml").open("a") as file:
            file.write("# A newer package says more here.\n")
    made = scratch / "newer" / package.name
    made.parent.mkdir(exist_ok=True)
    subprocess.run(["dpkg-deb", "--root-owner-group", "-b", tree, made], check=True, stdout=subprocess.DEVNULL)
    return made


def put_models(models):
    for name, text in (("identity", IDENTITY), ("doubled", 'backend: "python"\n')):
        (models / name / "1").mkdir(parents=True)
        (models / name / "config.pbtxt").write_text(text)
    (models / "doubled/1/model.py").write_text(DOUBLED)


def put_packages(packages, scratch):
    """The packages come into /packages of the root scratch/root, later ones too, and models into /srv/models."""
    place = scratch / "root/changes/packages"
    place.mkdir(parents=True)
    for name in ("nereid", "nereid-backend-python"):
        shutil.copy(packages[name], place / f"{name}.deb")
        shutil.copy(newer(packages[name], scratch), place / f"{name}-newer.deb")
    put_models(place.parent / "srv/models")


def ask(port, path, body=None):
    with urllib.request.urlopen(f"http://localhost:{port}{path}", data=body, timeout=PATIENCE) as reply:
        return json.load(reply)


def infer(port, model):
    given = {"name": "INPUT0", "datatype": "FP32", "shape": [3], "data": [1, 2, 0.5]}
    return ask(port, f"/v2/models/{model}/infer", json.dumps({"inputs": [given]}).encode())["outputs"][0]["data"]


def check_models(port):
    assert infer(port, "identity") == [1.0, 2.0, 0.5] and infer(port, "doubled") == [2.0, 4.0, 1.0]
