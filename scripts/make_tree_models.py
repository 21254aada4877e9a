#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes tests/models/trees: small models of XGBoost, LightGBM and scikit-learn, and what these libraries answer themselves.

    python3 -m venv V && V/bin/pip install xgboost-cpu==3.2.0 lightgbm==4.7.0 scikit-learn==1.9.1 treelite==4.8.1 && V/bin/python scripts/make_tree_models.py
    python3 -m venv W && W/bin/pip install xgboost-cpu==2.1.4 scikit-learn==1.9.1 && W/bin/python scripts/make_tree_models.py --legacy

The second one makes xgboost_binary.model alone: newer versions do not write that format. --busy DIRECTORY makes what bench/trees.py measures.
"""
import json
import pathlib
import sys

import numpy as np
import xgboost

TARGET = pathlib.Path(__file__).resolve().parents[1] / "tests/models/trees"
FEATURES = 5


def data():
    random = np.random.default_rng(7)
    rows = random.normal(size=(300, FEATURES)).astype(np.float32)
    known = rows.copy()
    rows[random.random(rows.shape) < 0.05] = np.nan
    return rows, (known[:, 0] + known[:, 1] > 0).astype(int), np.digitize(known[:, 0] * known[:, 2], [-0.3, 0.3]), known[:, 0] - 2 * known[:, 3]


def grow(rows, target, **parameters):
    rounds = 2 if "num_class" in parameters else 4
    return xgboost.train({"max_depth": 2, "seed": 1} | parameters, xgboost.DMatrix(rows, target), rounds)


def legacy(rows, binary):
    booster = grow(rows, binary, objective="binary:logistic")
    (TARGET / "xgboost_binary.model").write_bytes(booster.save_raw("deprecated"))
    return {"xgboost_binary.model": {"type": "xgboost", "values": booster.predict(xgboost.DMatrix(rows[:20]))}}


def xgboosts(rows, binary, several, number):
    found = {}
    for name, target, parameters in (
        ("binary", binary, {"objective": "binary:logistic"}),
        ("softprob", several, {"objective": "multi:softprob", "num_class": 3}),
        ("number", number, {"objective": "reg:squarederror"}),
    ):
        booster = grow(rows, target, **parameters)
        for kind in ("json", "ubj") if name == "binary" else ("ubj",):
            (TARGET / f"xgboost_{name}.{kind}").write_bytes(booster.save_raw(kind))
            found[f"xgboost_{name}.{kind}"] = {"type": f"xgboost_{kind}", "values": booster.predict(xgboost.DMatrix(rows[:20]))}
    booster = grow(rows, several, objective="multi:softmax", num_class=3)
    (TARGET / "xgboost_softmax.json").write_bytes(booster.save_raw("json"))
    found["xgboost_softmax.json"] = {"type": "xgboost_json", "labels": booster.predict(xgboost.DMatrix(rows[:20]))}
    return found


def lightgbms(rows, binary, several, number):
    import lightgbm

    found = {}
    for objective, target in (("binary", binary), ("multiclass", several), ("multiclassova", several), ("regression", number)):
        parameters = {"objective": objective, "num_leaves": 4, "verbose": -1, "deterministic": True, "num_threads": 1}
        if objective.startswith("multi"):
            parameters["num_class"] = 3
        booster = lightgbm.train(parameters, lightgbm.Dataset(rows.astype(float), target), 2)
        booster.save_model(TARGET / f"lightgbm_{objective}.txt")
        found[f"lightgbm_{objective}.txt"] = {"type": "lightgbm", "values": booster.predict(rows[:20].astype(float))}
    return found


def checkpoints(rows, several):
    import treelite
    from sklearn.ensemble import RandomForestClassifier

    filled = np.nan_to_num(rows)
    forest = RandomForestClassifier(3, max_depth=3, random_state=1).fit(filled, several)
    model = treelite.sklearn.import_model(forest)
    model.serialize(TARGET / "forest.tl")
    tree, data = model.get_tree_accessor(0), (TARGET / "forest.tl").read_bytes()
    arrays = {name: tree.get_field(name).astype("<i4").tobytes() for name in ("cleft", "cright", "split_index")}
    places = {name: [data.index(array), len(array) // 4] for name, array in arrays.items()}  # of its nodes; it comes first
    return {"forest.tl": {"type": "treelite_checkpoint", "values": forest.predict_proba(filled[:20]), "filled": True, "places": places}}


def busy(directory):
    random = np.random.default_rng(0)
    for name, trees, depth, features in (("small", 20, 4, 16), ("large", 1000, 8, 64)):
        rows = random.normal(size=(4000, features)).astype(np.float32)
        matrix = xgboost.DMatrix(rows, rows @ random.normal(size=features))
        booster = xgboost.train({"objective": "reg:squarederror", "max_depth": depth}, matrix, trees)
        (directory / f"{name}.ubj").write_bytes(booster.save_raw("ubj"))


def as_json(value):
    return None if np.isnan(value) else round(float(value), 7)


def main():
    if "--busy" in sys.argv:
        return busy(pathlib.Path(sys.argv[2]))
    TARGET.mkdir(exist_ok=True)
    rows, binary, several, number = data()
    path = TARGET / "answers.json"
    answers = json.loads(path.read_text()) if path.exists() else {"models": {}}
    answers["rows"] = [[as_json(v) for v in row] for row in rows[:20]]
    rows[:20] = np.array([[np.nan if v is None else v for v in row] for row in answers["rows"]], np.float32)
    if "--legacy" in sys.argv:
        found = legacy(rows, binary)
    else:
        found = xgboosts(rows, binary, several, number) | lightgbms(rows, binary, several, number) | checkpoints(rows, several)
    for name, model in found.items():
        for key in ("values", "labels"):
            if key in model:
                model[key] = [[as_json(v) for v in np.atleast_1d(row)] for row in model[key]]
        answers["models"][name] = model
    path.write_text(json.dumps(answers, sort_keys=True).replace('], "', '],\n"') + "\n")


if __name__ == "__main__":
    main()
