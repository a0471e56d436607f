"""What KubeRay's own schemas say of a manifest: fields that they do not have, and values of other types."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from tests.cluster.kube import amount

VERSIONS = ("1.6", "1.7")
ROOTS = {"RayJob": "RayJobSpec", "RayCluster": "RayClusterSpec", "RayCronJob": "RayCronJobSpec"}
FIELDS: dict[str, dict[str, str]] = yaml.safe_load(Path(__file__).with_name("kuberay_fields.yaml").read_text())
TYPES = {"string": str, "integer": int, "boolean": bool, "number": (int, float)}


def flaws(manifest: dict[str, Any], version: str) -> list[str]:
    """Everything in the specification of an object that a version of KubeRay does not know, by its path."""
    return list(_flaws(manifest["spec"], ROOTS[manifest["kind"]], version, "spec"))


def _flaws(value: Any, kind: str, version: str, path: str) -> Iterator[str]:
    form, _, inner = kind.partition(" ")
    if form == "list" and isinstance(value, list):
        for number, one in enumerate(value):
            yield from _flaws(one, inner, version, f"{path}[{number}]")
    elif form == "map" and isinstance(value, dict):
        for name, one in value.items():
            yield from _flaws(one, inner, version, f"{path}.{name}")
    elif form in FIELDS and isinstance(value, dict):
        for name, one in value.items():
            known, _, only = FIELDS[form].get(name, "").partition(" @")
            if not known or (only and only != version):
                yield f"{path}.{name} is no field of {form} in KubeRay {version}"
            else:
                yield from _flaws(one, known, version, f"{path}.{name}")
    elif not _fits(value, form):
        yield f"{path}: expected {kind}, got {value!r}"


def _fits(value: Any, form: str) -> bool:
    """Whether a plain value has a type; the truth is no number."""
    if form == "any":
        return True
    if "|" in form:
        return value in form.split("|")
    if form == "quantity":
        return isinstance(value, (int, str)) and not isinstance(value, bool) and amount(str(value)) >= 0
    return form in TYPES and isinstance(value, TYPES[form]) and isinstance(value, bool) == (form == "boolean")
