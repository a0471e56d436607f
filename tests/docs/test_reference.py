"""docs/reference has every public name, key, verb and key of a file, as they are in the code today."""

import inspect
import re

import pyarrow as pa
import pyarrow.parquet
import pytest
from typer.main import get_command

import gscl_scale
from gscl_scale.cli.main import app
from gscl_scale.config.config import Config
from tests.docs.pages import ROOT
from tools.reference.__main__ import all_pages, outdated
from tools.reference.files import MARK, filled

FOLDER = ROOT / "docs" / "reference"
FILES = {path.name: path.read_text() for path in (FOLDER / "files").glob("*.md")}


def keys_of(schema):
    """Dotted keys of the configuration, by the JSON schema that editors read."""
    for name, place in schema["properties"].items():
        kinds = place.get("oneOf") or [place]
        for kind in kinds:
            section = schema["$defs"][kind["$ref"].rpartition("/")[2]]
            yield from (f"{name}.{key}" for key in section["properties"] if key != "source")


def test_the_pages_are_those_of_the_code():
    assert outdated(all_pages()) == [], "run make reference"


def test_a_page_that_differs_is_found():
    pages = all_pages()
    pages["config/rings.md"] += "more\n"
    del pages["verbs/run.md"]
    assert outdated(pages) == ["config/rings.md", "verbs/run.md"]


def test_every_public_name_is_in_it_and_has_a_docstring():
    text = (FOLDER / "python.md").read_text()
    assert len(gscl_scale.__all__) > 3
    for name in gscl_scale.__all__:
        public = getattr(gscl_scale, name)
        assert f"::: gscl_scale.{name}\n" in text
        assert inspect.getdoc(public)
        for method, member in vars(public).items() if inspect.isclass(public) else ():
            if callable(member) and not method.startswith("_") and member.__module__.startswith("gscl_scale"):
                assert inspect.getdoc(member), f"{name}.{method}"


def test_a_source_of_graphs_has_its_own_defaults():
    page = (FOLDER / "config/graph.md").read_text()
    assert re.findall(r"\| `graph\.(\w+)` \| \w+ \| required", page) == ["path", "edges", "dataset", "dataset"]
    assert re.findall(r"\| `graph\.path` \| path \| (\S+) \|", page) == ["required", "`data`", "`data`"]


def test_every_key_is_in_it_with_its_sentence():
    keys = sorted(set(keys_of(Config.model_json_schema())))
    assert len(keys) > 100
    for key in keys:
        rows = [
            line
            for line in (FOLDER / f"config/{key.partition('.')[0]}.md").read_text().splitlines()
            if line.startswith(f"| `{key}` |")
        ]
        assert rows, key
        for row in rows:
            _, kind, default, about, decides = (cell.strip() for cell in row.strip("|").split(" | "))
            assert kind, key
            assert default, key
            assert len(about) > 10, key
            assert decides, key


@pytest.mark.parametrize("verb", sorted(get_command(app).commands))
def test_every_verb_is_in_it_with_its_options(verb):
    command = get_command(app).commands[verb]
    text = (FOLDER / f"verbs/{verb}.md").read_text()
    for one in [command, *getattr(command, "commands", {}).values()]:
        for option in one.params:
            assert option.opts[-1] in text or option.param_type_name == "argument", option.opts


def test_every_mark_is_filled_and_every_typed_file_of_a_run_has_one():
    marked = [name for text in FILES.values() for name in re.findall(r"<!-- keys: ([\w.]+) -->", text)]
    assert len(marked) == sum(len(MARK.findall(text)) for text in FILES.values()) >= 9
    assert all(filled(text) == text for text in FILES.values())
    for needed in ("graph.types.Manifest", "shards.records.Manifest", "embed.store.Manifest", "schema.Metrics"):
        assert any(name.endswith(needed) for name in marked), needed


@pytest.mark.parametrize(
    ("page", "file"),
    [
        ("graph.md", "graph/indptr.arrow"),
        ("graph.md", "graph/indices.arrow"),
        ("graph.md", "graph/features.arrow"),
        ("graph.md", "graph/labels.arrow"),
        ("graph.md", "graph/ids.arrow"),
        ("samples.md", "samples/round-000/part-00000.arrow"),
        ("samples.md", "samples/round-000/priorities.arrow"),
        ("embeddings.md", "embeddings/embeddings.parquet"),
        ("embeddings.md", "map/nodes.arrow"),
    ],
)
def test_columns_of_files_are_named(page, file, worlds):
    path = worlds / "finished/runs/mine" / file
    schema = pa.parquet.read_schema(path) if path.suffix == ".parquet" else pa.ipc.open_file(path).schema
    text = re.sub(r"`ring_1` to `ring_k`", "`ring_1` `ring_2` `ring_3`", FILES[page])
    assert [name for name in schema.names if f"`{name}`" not in text] == []


def test_every_file_of_a_run_is_listed(worlds):
    text = FILES["index.md"]
    for path in (worlds / "finished/runs/mine").iterdir():
        name = f"{path.name}/" if path.is_dir() else path.name
        assert path.name.startswith(".") or f"`{name}`" in text, name
