"""Every key of the configuration, for people to read."""

from typing import Annotated, Any, Literal, get_args, get_origin

from gscl_scale.config.config import Config
from gscl_scale.config.graphs import SOURCES, DigitsGraph
from gscl_scale.config.section import Section

_TYPES = {"NoneType": "none", "str": "text", "int": "number", "float": "number", "bool": "true | false"}


def schema_rows() -> list[tuple[str, str, str, str]]:
    """Every key as (dotted key, type, default, description)."""
    rows = []
    for kind, source in SOURCES.items():
        if kind != "memory":
            rows += section_rows(source, "graph", f" [source {kind}]")
    for name, field in Config.model_fields.items():
        if name != "graph":
            assert isinstance(field.annotation, type)
            rows += section_rows(field.annotation, name)
    return rows


def section_rows(section: type[Section], prefix: str, note: str = "") -> list[tuple[str, str, str, str]]:
    """The keys of one section, or of one source of graphs, as `schema_rows` has them."""
    rows = []
    for name, field in section.model_fields.items():
        default = "required" if field.is_required() else str(field.get_default(call_default_factory=True))
        if name == "source":
            default = "digits" if section is DigitsGraph else "-"
        rows.append((f"{prefix}.{name}{note}", _type_name(field.annotation), default, field.description or ""))
    return rows


def _type_name(annotation: Any) -> str:
    arguments = get_args(annotation)
    if get_origin(annotation) is Annotated:
        return _type_name(arguments[0])
    if get_origin(annotation) is Literal:
        return " | ".join(map(str, arguments))
    if get_origin(annotation) is dict:
        return f"map of {_type_name(arguments[0])} to {_type_name(arguments[1])}"
    if get_origin(annotation) is list:
        return f"list of {_type_name(arguments[0])}"
    if arguments:
        return " | ".join(_type_name(part) for part in arguments)
    return _TYPES.get(annotation.__name__, annotation.__name__.lower())
