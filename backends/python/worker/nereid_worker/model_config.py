# SPDX-License-Identifier: Apache-2.0
"""ModelConfig: completed by `auto_complete_config`. It only adds; the user's settings stay."""

import json

_FUNCTION = "in auto-complete-config function for model"


class ModelConfig:
    def __init__(self, model_config):
        self._model_config = json.loads(model_config)

    def as_dict(self):
        return self._model_config

    @property
    def _name(self):
        return self._model_config["name"]

    def set_max_batch_size(self, max_batch_size):
        now = self._model_config.get("max_batch_size", 0)
        if now > max_batch_size:
            raise ValueError(
                f"configuration specified max_batch_size {now}, but {_FUNCTION} '{self._name}' specified "
                f"max_batch_size {max_batch_size}"
            )
        self._model_config["max_batch_size"] = max_batch_size

    def set_dynamic_batching(self):
        for scheduler in ("sequence_batching", "ensemble_scheduling"):
            if scheduler in self._model_config:
                raise ValueError(
                    f"Configuration specified scheduling_choice as '{scheduler}', but auto-complete-config function "
                    f"for model '{self._name}' tries to set scheduling_choice as 'dynamic_batching'"
                )
        self._model_config.setdefault("dynamic_batching", {})

    def add_input(self, input):
        self._add("input", input, ("name", "data_type", "dims", "optional"), "'name', 'data_type', 'dims' and 'optional'")

    def add_output(self, output):
        self._add("output", output, ("name", "data_type", "dims"), "'name', 'data_type' and 'dims'")

    def _add(self, kind, tensor, allowed, spelled):
        named = f"{kind} '{tensor['name']}'" if "name" in tensor else kind
        if any(key not in allowed for key in tensor):
            raise ValueError(f"{named} {_FUNCTION} '{self._name}' contains property other than {spelled}.")
        for key in ("name", "data_type", "dims"):
            if key not in tensor:
                raise ValueError(f"{named} {_FUNCTION} '{self._name}' is missing '{key}' property.")
        present = self._model_config.setdefault(kind, [])
        for known in present:
            if known["name"] == tensor["name"]:
                self._check_same(kind, known, tensor)
                known.update(tensor)
                return
        present.append(tensor)

    def _check_same(self, kind, known, tensor):
        known_type = known.get("data_type", "TYPE_INVALID")
        if known_type not in ("TYPE_INVALID", tensor["data_type"]):
            raise ValueError(
                f"unable to load model '{self._name}', configuration expects datatype {known_type} for {kind} "
                f"'{tensor['name']}', model provides {tensor['data_type']}"
            )
        for key in ("dims", "optional"):
            is_set = known.get(key) if key == "dims" else key in known
            if is_set and key in tensor and known[key] != tensor[key]:
                raise ValueError(
                    f"model '{self._name}', tensor '{tensor['name']}': the model expects {key} {tensor[key]} but the "
                    f"model configuration specifies {key} {known[key]}"
                )

    def set_model_transaction_policy(self, transaction_policy_dict):
        if any(key != "decoupled" for key in transaction_policy_dict):
            raise ValueError(
                f"model transaction property {_FUNCTION} '{self._name}' contains property other than 'decoupled'."
            )
        policy = self._model_config.setdefault("model_transaction_policy", {})
        if "decoupled" not in transaction_policy_dict:
            return
        wanted = transaction_policy_dict["decoupled"]
        if policy.get("decoupled", wanted) != wanted:
            raise ValueError(
                f"trying to change decoupled property in auto-complete-config for model '{self._name}', which is already set to "
                f"'{policy['decoupled']}'."
            )
        policy["decoupled"] = wanted
