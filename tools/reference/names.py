"""Every public name of the package: mkdocstrings reads the docstrings when the site is built."""

import gscl_scale
from tools.reference.markdown import page

_ABOUT = """
Everything that is imported from `gscl_scale`. Other modules may change with any version. `help(gscl_scale.fit)` prints
the same in Python; the site shows it here.
""".strip()


def pages() -> dict[str, str]:
    """{name: text} of the one page."""
    return {"python.md": page("Python", _ABOUT, *(f"::: gscl_scale.{name}" for name in public_names()))}


def public_names() -> list[str]:
    """The public names, functions before classes as they are used."""
    return sorted(gscl_scale.__all__, key=lambda name: (name[0].isupper(), name))
