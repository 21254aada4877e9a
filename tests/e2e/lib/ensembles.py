# SPDX-License-Identifier: Apache-2.0
"""Ensembles, written by the tests: each step as (model, inputs, outputs), with the names of the model as keys."""

HEAD = """
platform: "ensemble"
max_batch_size: %(max_batch_size)d
%(tensors)s
ensemble_scheduling {
%(scheduling)s
%(steps)s
}
%(more)s
"""


def mapping(kind, names):
    return " ".join(f'{kind} {{ key: "{key}" value: "{value}" }}' for key, value in names.items())


def step(model, inputs, outputs, version=-1):
    return (f'step {{ model_name: "{model}" model_version: {version} '
            f'{mapping("input_map", inputs)} {mapping("output_map", outputs)} }}')


def tensor_text(field, name, kind, dims, more=""):
    return f'{field} {{ name: "{name}" data_type: {kind} dims: [ {", ".join(map(str, dims))} ] {more} }}'


def make_ensemble(repository, name, steps, inputs=("INPUT0",), outputs=("OUTPUT0",), kind="TYPE_FP32", dims=(-1,), max_batch_size=8,
                  scheduling="", more="", versions=(1,)):
    """`inputs` and `outputs` are names, or whole texts of the configuration."""
    texts = [text if "{" in text else tensor_text(field, text, kind, dims)
             for field, names in (("input", inputs), ("output", outputs)) for text in names]
    for version in versions:
        (repository / name / str(version)).mkdir(parents=True)
    config = dict(max_batch_size=max_batch_size, tensors="\n".join(texts), scheduling=scheduling, more=more,
                  steps="\n".join(step(*one) if isinstance(one, tuple) else one for one in steps))
    (repository / name / "config.pbtxt").write_text(HEAD % config)
    return repository / name


def chain(*models, first="INPUT0", last="OUTPUT0"):
    """Steps of models with INPUT0 and OUTPUT0, each after the other."""
    names = [first, *(f"between{i}" for i in range(1, len(models))), last]
    return [step(model, {"INPUT0": names[i]}, {"OUTPUT0": names[i + 1]}) for i, model in enumerate(models)]
