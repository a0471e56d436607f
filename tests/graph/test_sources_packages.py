"""The graph of installed packages, on packages that the tests write."""

import importlib

import numpy as np
import pytest

from gscl_scale.cli.demo import CONFIG
from gscl_scale.config.config import Config
from gscl_scale.config.graphs import PackagesGraph
from gscl_scale.errors import GraphError
from gscl_scale.graph.sources import packages
from tests.commands import cli

MODULES = {
    "shop_one/__init__.py": '"""A shop of bread."""\nimport os\nfrom . import oven, _hidden\n',
    "shop_one/oven.py": '# x\n"""Bakes bread."""\nfrom shop_two.tools import spoon as s, bowl\nclass HotOven: pass\n',
    "shop_one/_hidden/__init__.py": "import shop_two.tools.deep as d, shop_two  # both\n",
    "shop_one/_hidden/inner.py": "from ..oven import (\n    HotOven,  # hot\n)\n",
    "shop_one/tests/test_oven.py": "import shop_two.alone\n",
    "shop_one/conftest.py": "import shop_two.alone\n",
    "shop_two/__init__.py": "",
    "shop_two/tools/__init__.py": "from .deep import *\nfrom ..tools import bowl\n",
    "shop_two/tools/deep.py": "async def stir_the_soup(): pass\n\ndef _shop_two(): pass\n",
    "shop_two/alone.py": "from elsewhere import thing\n",
}


@pytest.fixture
def installed(tmp_path, monkeypatch):
    for name, text in MODULES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    importlib.invalidate_caches()
    return PackagesGraph(source="packages", packages=["shop_two", "shop_one", "no_such_package"])


def test_modules_are_nodes_and_imports_edges(installed):
    draft = packages.read(installed)
    names = ["shop_one", "shop_one.oven", "shop_two", "shop_two.tools", "shop_two.tools.deep"]
    assert draft.ids.to_pylist() == names
    assert draft.labels.tolist() == ["shop_one"] * 2 + ["shop_two"] * 3
    assert draft.notes[-1] == "modules without an edge, which are left out: 1"
    (ends,) = draft.edges
    assert {(names[a], names[b]) for a, b in zip(*ends, strict=True)} == {
        ("shop_one", "shop_one.oven"),
        ("shop_one", "shop_two"),
        ("shop_one", "shop_two.tools.deep"),  # a private module's imports are those of the public one above it
        ("shop_one.oven", "shop_two.tools"),
        ("shop_two.tools", "shop_two.tools.deep"),
    }


def test_features_are_the_words_of_a_module_without_the_names_of_packages(installed):
    draft = packages.read(installed)
    assert draft.features.shape == (5, 1024)
    rows = draft.features.toarray()
    words = {name: set(np.flatnonzero(row)) for name, row in zip(draft.ids.to_pylist(), rows, strict=True)}
    assert len(words["shop_one"] & words["shop_one.oven"]) == 1  # bread
    assert len(words["shop_one.oven"]) == 4  # bakes bread hot oven
    assert len(words["shop_two.tools.deep"]) == 3  # stir the soup
    assert not words["shop_two"]
    np.testing.assert_allclose(np.linalg.norm(rows[[0, 1, 4]], axis=1), 1, rtol=1e-6)


def test_the_name_of_a_package_with_a_number_is_no_feature_either(installed, tmp_path):
    (tmp_path / "soup2").mkdir()
    (tmp_path / "soup2/__init__.py").write_text('"""Soup of the day."""\nimport shop_one\n')
    importlib.invalidate_caches()
    draft = packages.read(installed.model_copy(update={"packages": ["soup2", "shop_one"]}))
    assert draft.features[[draft.ids.to_pylist().index("soup2")]].nnz == 2  # the day


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (["shop_one", "no_such_package"], "expected at least 2 installed packages, found shop_one; name some"),
        (["no_such_package"], "found none; name some that are installed with --set graph.packages="),
        (["shop_one", "../shop"], "'../shop' is no name of a package; expected names such as numpy"),
    ],
)
def test_packages_that_are_no_graph_are_refused(installed, names, expected):
    with pytest.raises(GraphError, match=expected):
        packages.read(installed.model_copy(update={"packages": names}))


def test_the_demo_trains_on_the_packages_and_names_the_next_command(installed, tmp_path):
    few = ["graph.packages=[shop_one,shop_two]", "train.repeats=1", "train.epochs=1", "model.width=8", "rings.width=8"]
    few += ["rings.per_ring=2", "rings.beyond=2", "evaluate.random_splits=1"]
    done = cli("demo", *(word for one in few for word in ("--set", one)), "--run", "shop", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "shop/report.html").exists()
    assert done.stdout.splitlines()[-1] == "nearest     gscl-scale neighbors shop --id torch.optim.adam"


def test_the_packages_of_the_demo_are_installed_with_this_one():
    graph = Config.load(CONFIG).graph
    assert [name for name in graph.packages if packages._folder_of(name) is None] == []
