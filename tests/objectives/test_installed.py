"""Methods of other packages: a distribution with an entry point, as pip installs it, in a folder on the path."""

import os
import subprocess
import sys
import tomllib

import numpy as np
import pytest
import torch
from torch_geometric.data import Data

import gscl_scale
from gscl_scale import seeding
from gscl_scale.config.config import Config
from gscl_scale.config.objectives import OTHER_ROWS, OWN_OBJECTIVES
from gscl_scale.errors import ConfigError
from gscl_scale.io.json import read_json
from gscl_scale.run.record import open_run
from gscl_scale.runtime.console import Console
from gscl_scale.stages import train as training
from gscl_scale.stages.ingest import ingest
from gscl_scale.studies.compare import FREE, compare, measured_methods
from gscl_scale.train.objectives.methods import OBJECTIVES, build_objective
from gscl_scale.train.objectives.trainer import ObjectiveTrainer
from tests.commands import COMMAND, cli
from tests.docs.pages import ROOT, blocks
from tests.model.graphs import EDGES, NUM_NODES, graph_of, random_features
from tests.objectives.cases import case_of
from tests.test_compare import QUIET, VALUES, asked, rows_of

PAGE = {block.number: block.text for block in blocks("docs/own_method.md")}
METADATA, CODE = tomllib.loads(PAGE[1]), PAGE[2]
POINTS = METADATA["project"]["entry-points"]["gscl_scale.objectives"]
SMALL = """
from gscl_scale.train.objectives.objective import Objective
from gscl_scale.train.objectives.views import View

class Small(Objective):
    title = "small"
    paper = {}
    views = (View(),)

    def loss(self, model, views, hidden_ND, key):
        return (hidden_ND[0] ** 2).mean()
"""


def install(folder, code=CODE, name="my-methods", version="0.1.0", points=POINTS):
    """What pip leaves of a package with one module."""
    module = name.replace("-", "_")
    information = folder / f"{module}-{version}.dist-info"
    information.mkdir(parents=True)
    (folder / f"{module}.py").write_text(code)
    (information / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    (information / "entry_points.txt").write_text(
        "[gscl_scale.objectives]\n" + "".join(f"{key} = {value}\n" for key, value in points.items())
    )
    return folder


@pytest.fixture
def installed(tmp_path, monkeypatch):
    """Install a package for this process, which forgets it afterwards."""

    def add(code=CODE, name="my-methods", **other):
        folder = install(tmp_path / f"site-{name}-{other.get('version', '')}", code, name, **other)
        monkeypatch.syspath_prepend(folder)
        monkeypatch.delitem(sys.modules, name.replace("-", "_"), raising=False)
        return folder

    yield add
    for name in [name for name in sys.modules if name in ("my_methods", "other_methods")]:
        del sys.modules[name]


@pytest.mark.slow
def test_the_method_of_the_page_is_a_row_and_a_training_from_the_shell(tmp_path):
    site = install(tmp_path / "site")
    (tmp_path / "mine.yaml").write_text(Config.parse(VALUES).model_dump_json())
    settings = ["--set", "compare.settings={align: [train.epochs=3, 'baseline.options={pairs: 32}']}"]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(site), str(ROOT)])}

    def run(*words):
        command = [*COMMAND, *words]
        return subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)

    compared = run("compare", "--config", "mine.yaml", "--run", "run", "--methods", "align,gscl-listwise", *settings)
    assert compared.returncode == 0, compared.stderr
    rows = rows_of(read_json(tmp_path / "run/compare.json"))
    assert list(rows) == ["raw", "untrained", "gscl-listwise", "align"]
    assert (rows["align"]["title"], rows["align"]["steps"]) == ("alignment and uniformity", 3)
    assert rows["align"]["settings"]["baseline.options"] == {"pairs": 32}
    alone = ("run", "--config", "mine.yaml", "--run", "alone", "--set", "train.objective=align")
    trained = run(*alone, "--set", "baseline.options={spread: 0.5}")
    assert trained.returncode == 0, trained.stderr
    absent = cli(*alone, cwd=tmp_path)  # this process has no such package
    assert absent.returncode == 2
    assert "train.objective: expected one of gscl, supervised," in absent.stderr


def test_the_method_of_the_page_has_the_loss_that_it_says(installed):
    installed()
    case = case_of("align", options={"pairs": 7, "spread": 0.5})
    one, other = (rows / np.linalg.norm(rows, axis=1, keepdims=True) for rows in case.rows())
    pairs = seeding.generator("align", 5).integers(0, NUM_NODES, (2, 7)).T
    spread = np.log(np.mean([np.exp(-2 * ((one[u] - other[v]) ** 2).sum()) for u, v in pairs]))
    expected = np.mean([((a - b) ** 2).sum() for a, b in zip(one, other, strict=True)]) + 0.5 * spread
    assert case.loss(key=5) == pytest.approx(expected, abs=1e-6)


def test_the_method_of_the_page_trains_from_python(installed):
    installed()
    edges = torch.tensor([*EDGES, *((v, u) for u, v in EDGES)]).T
    names = {"gscl_scale": gscl_scale, "data": Data(x=torch.rand(NUM_NODES, 6), edge_index=edges)}
    exec(PAGE[4], names)
    assert names["embeddings"].vectors.shape[0] == NUM_NODES


def test_a_training_of_an_installed_method_that_was_cut_off_has_the_weights_of_the_undisturbed_one(
    installed, tmp_path, monkeypatch
):
    scaled = CODE.replace("(given)  #", "(given); self.scale = torch.nn.Parameter(torch.ones(4))  #")
    installed(scaled.replace("return ((one", "one = one * self.scale\n        return ((one"))
    values = {**VALUES, "model": {"width": 4}, "train": {"epochs": 6, "checkpoint_every": 2, "objective": "align"}}
    config, states = Config.parse({**values, "baseline": {"options": {"pairs": 16}}}), []
    for name, cut in (("whole", False), ("cut", True)):
        run, console = open_run(config, tmp_path / name), Console(quiet=True)
        ingest(config, run, console)
        step = ObjectiveTrainer.step

        def until_the_fifth(self, *arguments, step=step):
            if self.position.step == 4:
                raise KeyboardInterrupt
            return step(self, *arguments)

        if cut:
            with monkeypatch.context() as cutting:
                cutting.setattr(ObjectiveTrainer, "step", until_the_fifth)
                with pytest.raises(KeyboardInterrupt):
                    training.train(config, run, console)
        training.train(config, run, console)
        states.append(training.checkpoints_of(config, run).chosen()[0])
    for part in ("model", "objective"):
        assert all(torch.equal(states[0][part][key], states[1][part][key]) for key in states[0][part])
    assert states[0]["objective"].keys() == {"scale"}
    assert not torch.equal(states[0]["objective"]["scale"], torch.ones(4))


def test_another_version_of_a_package_trains_anew(installed, tmp_path):
    installed(SMALL, points={"small": "my_methods:Small"})
    config = Config.parse({**VALUES, "train": {"epochs": 1, "objective": "small"}})
    run = open_run(config, tmp_path / "run")
    ingest(config, run, Console(quiet=True))
    first = training.checkpoints_of(config, run).fingerprint
    installed(SMALL, version="0.2.0", points={"small": "my_methods:Small"})
    assert training.checkpoints_of(config, run).fingerprint != first


BAD = {
    "imports": ("import no_such_module", "cannot be imported from my_methods:Small: ModuleNotFoundError: No module"),
    "raises": (
        "raise OSError('no license here')",
        "cannot be imported from my_methods:Small: OSError: no license here",
    ),
    "no class": ("Other = 1", "cannot be imported from my_methods:Small: AttributeError"),
    "no subclass": ("class Small:\n    pass", "is not a subclass of gscl_scale.train.objectives.objective.Objective"),
    "no loss": (SMALL.replace("def loss(", "def cost("), "does not define loss"),
    "no title": (SMALL.replace('title = "small"', ""), "has no title, a text"),
    "no paper": (SMALL.replace("paper = {}", ""), "has no paper and defaults, mappings of settings"),
    "other loss": (SMALL.replace("hidden_ND, key)", "hidden_ND)"), "has a loss that does not take (self, model, views"),
    "other init": (
        SMALL + "\n    def __init__(self):\n        pass\n",
        "is not built from one argument, an ObjectiveInputs",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_a_method_that_does_not_fit_ends_the_command_with_one_sentence(installed, tmp_path, case):
    code, says = BAD[case]
    installed(code, points={"small": "my_methods:Small"})
    (tmp_path / "mine.yaml").write_text(Config.parse(VALUES).model_dump_json())
    ended = cli("compare", "--config", "mine.yaml", "--run", "run", "--methods", "small", cwd=tmp_path)
    assert ended.returncode == 2, ended.stderr
    said = " ".join(ended.stderr.split())
    assert "package my-methods 0.1.0: its method 'small'" in said
    assert says in said
    assert "Traceback" not in said
    assert not (tmp_path / "run").exists()


def test_a_method_without_views_is_refused(installed):
    installed(SMALL.replace("views = (View(),)", ""), points={"small": "my_methods:Small"})
    config = Config.parse({"train": {"objective": "small"}})
    with pytest.raises(ConfigError, match=r"train\.objective: small has no views; see docs/own_method\.md"):
        build_objective(config, graph_of(EDGES, random_features(NUM_NODES, 6)))


@pytest.mark.parametrize("name", ["dgi", "first-hop", "spectral", "raw", "gscl"])
def test_a_name_that_is_ours_is_refused_and_so_is_one_of_two_packages(installed, tmp_path, name):
    installed(SMALL, points={name: "my_methods:Small"})
    with pytest.raises(ConfigError, match=rf"package my-methods 0\.1\.0: its method '{name}' has the name of a method"):
        compare(asked(), tmp_path / "run", ["dgi"], QUIET)
    with pytest.raises(ConfigError, match=r"train\.objective: package my-methods 0\.1\.0: its method"):
        Config.parse({"train": {"objective": "dgi"}})


def test_a_name_in_two_packages_is_refused(installed):
    installed(SMALL, points={"small": "my_methods:Small"})
    installed(SMALL, "other-methods", points={"small": "other_methods:Small"})
    with pytest.raises(ConfigError, match=r"'small' is in two packages, package my-methods 0\.1\.0 and package other-"):
        Config.parse({"train": {"objective": "small"}})


@pytest.mark.parametrize(
    ("setting", "says"),
    [
        ({"options": {"alpha": 1}}, r"baseline\.options\.alpha: align reads no such setting, it reads edges, features"),
        (
            {"options": {"pairs": "many"}},
            r"baseline\.options\.pairs: expected a value like 4096, its default, got 'many'",
        ),
        ({"momentum": 0.5}, r"baseline\.momentum: align reads no such setting"),
    ],
)
def test_options_that_a_method_does_not_read_are_refused(installed, setting, says):
    installed()
    config = Config.parse({"train": {"objective": "align"}, "baseline": setting})
    with pytest.raises(ConfigError, match=says):
        build_objective(config, graph_of(EDGES, random_features(NUM_NODES, 6)))


def test_options_are_for_methods_of_other_packages():
    config = Config.parse({"train": {"objective": "dgi"}, "baseline": {"options": {"alpha": 1}}})
    with pytest.raises(ConfigError, match=r"baseline\.options\.alpha: dgi reads no such setting"):
        build_objective(config, graph_of(EDGES, random_features(NUM_NODES, 6)))


def test_names_that_are_known_without_torch_are_those_that_there_are():
    assert ("gscl", *OBJECTIVES) == OWN_OBJECTIVES
    assert {*OTHER_ROWS, *OBJECTIVES} == {*FREE, *measured_methods()}
