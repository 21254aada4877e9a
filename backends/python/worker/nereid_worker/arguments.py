"""What models pass for a text: str, or bytes in UTF-8, such as the element of a TYPE_STRING input that names a model."""


def as_text(value, what):
    """`value` as a str; `what` names it in the TypeError for anything else."""
    if isinstance(value, str):
        return value
    if isinstance(value, (bytes, bytearray)):
        return value.decode("utf-8", "surrogateescape")
    raise TypeError(f"{what} must be a str, not {type(value).__name__}")
