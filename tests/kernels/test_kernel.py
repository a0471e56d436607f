"""Where the compiled code of kernels is kept, in a small package with the same decorator."""

import ast
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import gscl_scale
from gscl_scale.kernels.kernel import kernel_sources

_PACKAGE = Path(gscl_scale.__file__).parent
_DECORATED = "from gscl_scale.kernels.kernel import kernel\n\n\n@kernel\n"
_LISTS = _DECORATED + "def merge(x):\n    return x + 1\n"
_NEW_LISTS = _LISTS.replace("x + 1", "x + 20")  # of another length: Python compares only that and the second
_EXACT = "from gscl_scale.lists import merge\n" + _DECORATED + "def search(x):\n    return merge(x)\n"


@pytest.fixture
def package(tmp_path):
    """A package of two kernels, one of which calls the other."""
    package = tmp_path / "site" / "gscl_scale"
    package.mkdir(parents=True)
    shutil.copytree(_PACKAGE / "kernels", package / "kernels", ignore=shutil.ignore_patterns("__pycache__", "sort.py"))
    for name, text in {"__init__": "", "lists": _LISTS, "exact": _EXACT, "told": "MESSAGE = 1\n"}.items():
        (package / f"{name}.py").write_text(text)
    return package


def _search(package: Path, program: str = "", **environment: str) -> tuple[int, int]:
    """What a new process finds, and how many kernels it had to compile for that."""
    program = (
        f"{program}\nfrom gscl_scale.exact import search\nprint(search(1), len(search.dispatcher.stats.cache_misses))"
    )
    others = {name: value for name, value in os.environ.items() if not name.startswith("NUMBA_")}
    told = subprocess.run(
        [sys.executable, "-c", program],
        cwd=package.parent,
        env=others | environment,
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    result, compiled = map(int, told.split())
    return result, compiled


def _folders(place: Path) -> set[Path]:
    return {path.parent for path in place.rglob("*.nbi")}


def test_a_kernel_changed_in_another_file_is_not_run_as_it_was_and_a_change_of_no_kernel_compiles_nothing(package):
    assert _search(package) == (2, 1)
    (folder,) = _folders(package.parent)
    assert folder.parent == package / "__pycache__"
    (package / "lists.py").write_text(_NEW_LISTS)
    assert _search(package) == (21, 1)
    (package / "lists.py").write_text(_LISTS)
    (package / "told.py").write_text("MESSAGE = 2\n")
    assert _search(package) == (2, 0)


def test_a_process_under_which_a_kernel_changes_keeps_nothing(package):
    update = f"import gscl_scale.kernels.kernel; open('gscl_scale/lists.py', 'w').write({_NEW_LISTS!r})"
    assert _search(package, update) == (21, 1)
    (package / "lists.py").write_text(_LISTS)
    assert _search(package) == (2, 1)


def test_compiled_code_is_kept_in_the_folder_that_the_user_names(package, tmp_path):
    assert _search(package, NUMBA_CACHE_DIR=str(tmp_path / "named")) == (2, 1)
    (folder,) = _folders(tmp_path)
    assert folder.name.startswith("kernels-")
    assert folder.parent.parent == tmp_path / "named"
    assert _search(package, NUMBA_CACHE_DIR=str(tmp_path / "named")) == (2, 0)


def test_beside_a_package_that_cannot_be_written_the_cache_of_the_user_is_taken(package, tmp_path):
    (package / "__pycache__").write_text("")  # in the way of a folder, for root too
    assert _search(package, XDG_CACHE_HOME=str(tmp_path / "cache")) == (2, 1)
    (folder,) = _folders(tmp_path)
    assert folder.is_relative_to(tmp_path / "cache" / "numba")


def test_functions_of_the_user_are_kept_where_numba_keeps_them(package, tmp_path):
    own = package.parent / "own.py"
    own.write_text("import numba\n\n\n@numba.njit(cache=True)\ndef double(x):\n    return 2 * x\n")
    _search(package, "import gscl_scale.lists, own; own.double(1)")
    assert [path.parent for path in own.parent.rglob("own.double*.nbi")] == [own.parent / "__pycache__"]


def test_numba_is_imported_at_the_first_call_and_not_before(package):
    program = "import sys, gscl_scale.exact; print('numba' in sys.modules, file=sys.stderr)"
    first = [
        sys.executable,
        "-c",
        f"{program}; gscl_scale.exact.search(1); print('numba' in sys.modules, file=sys.stderr)",
    ]
    told = subprocess.run(first, cwd=package.parent, check=True, capture_output=True, text=True).stderr.splitlines()
    assert (told[0], told[-1]) == ("False", "True")
    assert [line.startswith("Compiling kernels") for line in told] == [False, True, False]  # once, of two kernels
    again = subprocess.run(first, cwd=package.parent, check=True, capture_output=True, text=True).stderr.splitlines()
    assert again == ["False", "True"]


def test_intrinsics_and_the_decorator_are_sources_of_kernels():
    assert {"rings/kernels.py", "kernels/kernel.py", "kernels/cache.py"} <= dict(kernel_sources(_PACKAGE)).keys()


def test_numba_is_used_through_the_decorator_alone():
    numba = re.compile(rb"^\s*(import|from) numba\b", re.MULTILINE)
    users = {
        path.relative_to(_PACKAGE).as_posix() for path in _PACKAGE.rglob("*.py") if numba.search(path.read_bytes())
    }
    assert users == {"kernels/cache.py", "rings/kernels.py", "bench/compilation.py"}


def test_all_that_kernels_take_from_other_modules_is_in_their_sources():
    sources = dict(kernel_sources(_PACKAGE)).keys()
    for path in _PACKAGE.rglob("*.py"):
        taken = _taken(path.read_text())
        assert not taken or path.relative_to(_PACKAGE).as_posix() in sources
        others = {other for other in taken if not {f"{other}.py", f"{other}/__init__.py"} & sources}
        assert not others, f"kernels of {path} use constants or functions of {others}, of which no change is seen"


def test_only_kernels_have_no_annotations():
    for path in _PACKAGE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and not _is_kernel(node):
                assert _is_annotated(node), f"{path}:{node.lineno}: {node.name} has no annotations"


def _is_annotated(function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    return function.returns is not None or any(
        isinstance(node, ast.arg) and node.annotation for node in ast.walk(function.args)
    )


def _taken(source: str) -> set[str]:
    """Modules of the package that names within the kernels of a module come from, directly or by its constants."""
    body = ast.parse(source).body
    names = {name for node in body if isinstance(node, ast.FunctionDef) and _is_kernel(node) for name in _names(node)}
    for node in reversed(body):
        if isinstance(node, ast.Assign | ast.AnnAssign) and names & _names(node):
            names |= _names(node)
    modules = set()
    for node in body:
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("gscl_scale"):
            place = node.module.partition(".")[2].replace(".", "/")
            for name in (alias.name for alias in node.names if (alias.asname or alias.name) in names):
                nested = f"{place}/{name}".lstrip("/")
                modules.add(nested if (_PACKAGE / f"{nested}.py").exists() else place)
    return modules


def _is_kernel(function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    return any(_names(decorator) & {"kernel", "triton"} for decorator in function.decorator_list)


def _names(node: ast.AST) -> set[str]:
    return {each.id for each in ast.walk(node) if isinstance(each, ast.Name)}
