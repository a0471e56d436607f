"""What becomes of the columns of a node table: kinds, values, names, and what is missing."""

import datetime
import decimal
import shlex

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from gscl_scale.config.config import Config
from gscl_scale.errors import GraphError
from gscl_scale.graph.sources import column_profile, nodetable, textfiles
from tests.graph.tables import PAIR, ingest

ROWS = 400
PEOPLE = {
    "id": [f"n{row}" for row in range(ROWS)],
    "age": [row * 37 % 61 for row in range(ROWS)],
    "plan": [("gold", "free", "basic")[row % 3] for row in range(ROWS)],
    "city": [f"town {row % 90}" for row in range(ROWS)],
    "zip": [f"{row * 7919 % 99999:05d}" for row in range(ROWS)],
    "phone": [f"+49 30 {row * 7919 + 10**6}" for row in range(ROWS)],
    "hash": [f"k{row * 7919:x}" for row in range(ROWS)],
    "row": list(range(ROWS)),
    "customer_id": [row * 3 for row in range(ROWS)],
    "since": [f"{row % 28 + 1:02d}.{row % 12 + 1:02d}.20{row % 20:02d}" for row in range(ROWS)],
    "note": [f"calls about order {row} in week {row % 50}" for row in range(ROWS)],
    "nothing": [None] * ROWS,
}
FIRST = {"source": ["n0"], "target": ["n1"]}


def made(graph):
    """What was made of each column, by its name."""
    return {one["name"]: one["made"] for one in graph.manifest["columns"]}


def column(graph, name):
    return graph.features[:, graph.feature_columns.index(name)]


@pytest.mark.parametrize("kind", [".csv", ".parquet"])
def test_each_column_is_taken_for_what_is_in_it(tmp_path, kind):
    graph = ingest(tmp_path, FIRST, PEOPLE, kind=kind)
    assert made(graph) == {
        "id": "id of the node",
        "age": "a number",
        "plan": "one column for each of 3 values",
        "city": "values hashed into 32 columns",
        "zip": "left out: leading zeros: a code",
        "phone": "left out: phone numbers",
        "hash": "left out: nearly unique: an id or a code",
        "row": "left out: numbers the rows",
        "customer_id": "left out: named like an id or a code",
        "since": "days since 1970 (day first)",
        "note": "words and letters hashed into 48 columns",
        "nothing": "left out: no values",
    }
    assert column(graph, "age").tolist() == PEOPLE["age"]
    assert [column(graph, f"plan={plan}")[:4].tolist() for plan in ("basic", "free", "gold")] == [
        [0, 0, 1, 0],
        [0, 1, 0, 0],
        [1, 0, 0, 1],
    ]
    assert column(graph, "since (days)")[0] == (datetime.date(2000, 1, 1) - datetime.date(1970, 1, 1)).days
    assert graph.num_features == 1 + 3 + 32 + 1 + 48 == len(graph.feature_columns)
    assert any(note.startswith("columns left out: zip (leading zeros: a code)") for note in graph.manifest["notes"])


@pytest.mark.parametrize("name", ["__index_level_0__", "Unnamed: 0", ""])
@pytest.mark.parametrize("kind", [".csv", ".parquet"])
def test_the_row_index_of_a_data_frame_is_no_feature_unless_it_is_named(tmp_path, name, kind):
    nodes = {name: [row * 7919 % 601 // 2 for row in range(ROWS)], "id": PEOPLE["id"], "age": PEOPLE["age"]}
    graph = ingest(tmp_path / "left", FIRST, nodes, kind=kind)
    assert made(graph)[name] == "left out: the row index of a data frame"
    assert graph.feature_columns == ["age"]
    assert ingest(tmp_path / "named", FIRST, nodes, kind=kind, feature_columns=[name]).feature_columns == [name]


def test_a_summary_counts_types_missing_and_distinct_values(tmp_path):
    nodes = PEOPLE | {
        "age": [None, *PEOPLE["age"][1:]],
        "share": [row / 7 for row in range(ROWS)],
        "yes": [True] * ROWS,
    }
    found = {one["name"]: one for one in ingest(tmp_path, FIRST, nodes).manifest["columns"]}
    assert {name: (one["type"], one["missing"], one["distinct"]) for name, one in found.items()} == {
        "id": ("text", 0, ROWS),
        "age": ("integer", 1, 61),
        "plan": ("text", 0, 3),
        "city": ("text", 0, 90),
        "zip": ("text", 0, ROWS),
        "phone": ("text", 0, ROWS),
        "hash": ("text", 0, ROWS),
        "row": ("integer", 0, ROWS),
        "customer_id": ("integer", 0, ROWS),
        "since": ("date", 0, ROWS),
        "note": ("text", 0, ROWS),
        "nothing": ("no values", ROWS, 0),
        "share": ("number", 0, ROWS),
        "yes": ("true or false", 0, 1),
    }


@pytest.mark.parametrize("kind", [".csv", ".parquet"])
@pytest.mark.parametrize(("missing", "fill"), [("mean", 20), ("zero", 0)])
def test_missing_values_are_filled_and_marked(tmp_path, kind, missing, fill):
    nodes = {"id": ["a", "b", "c", "d"], "x": [10.0, None, 30.0, None], "plan": ["s", "s", None, None]}
    graph = ingest(tmp_path, PAIR, nodes, kind=kind, missing=missing, feature_columns=["x", "plan"])
    assert graph.feature_columns == ["x", "x is missing", "plan=s", "plan is missing"]
    assert graph.features.tolist() == [[10, 0, 1, 0], [fill, 1, 1, 0], [30, 0, 0, 1], [fill, 1, 0, 1]]


def test_words_for_missing_numbers_and_nan_count_as_missing(tmp_path):
    text = "id,x\n" + "".join(f"{row},{cell}\n" for row, cell in enumerate(["1", "NA", " n/a ", "?", "null", "-", "3"]))
    graph = ingest(tmp_path / "csv", {"source": [0], "target": [1]}, text.replace("0,1", "0, 1 "), kind=".csv")
    assert graph.features.tolist() == [[1, 0], *[[2, 1]] * 5, [3, 0]]
    graph = ingest(tmp_path / "nan", PAIR, {"id": ["a", "b"], "x": pa.array([float("nan"), 5.0])})
    assert graph.features.tolist() == [[5, 1], [5, 0]]


def test_lists_with_gaps_are_filled_by_position(tmp_path):
    nodes = {"id": ["a", "b", "c"], "x": [[1.0, 2.0], None, [3.0, None]]}
    graph = ingest(tmp_path, PAIR, nodes)
    assert graph.feature_columns == ["x", "x is missing"]
    assert graph.features.tolist() == [[1, 2, 0], [2, 2, 1], [3, 2, 1]]


def test_types_of_arrow_become_numbers(tmp_path):
    day = datetime.datetime(1970, 1, 2, 12)
    nodes = {
        "id": ["a", "b"],
        "yes": [True, None],
        "money": [decimal.Decimal("1.50"), decimal.Decimal("2.25")],
        "when": pa.array([day, day], pa.timestamp("ns", "Europe/Berlin")),
        "date": pa.array([1, 2], pa.date32()),
        "hour": pa.array([3600 * 6, 0], pa.time32("s")),
        "kind": pa.array(["x", "x"]).dictionary_encode(),
        "tags": [["red", "big"], ["red", "big"]],
    }
    graph = ingest(tmp_path, PAIR, nodes)
    assert graph.feature_columns == [
        "yes", "yes is missing", "money", "when (days)", "date (days)", "hour (days)", "kind=x", "tags=red big",
    ]  # fmt: skip
    assert graph.features.tolist() == [[1, 0, 1.5, 1.5, 1, 0.25, 1, 1], [1, 1, 2.25, 1.5, 2, 0, 1, 1]]


@pytest.mark.parametrize(
    ("cells", "days"),
    [
        (["1970-01-02", "1970-02-01"], [1, 31]),
        (["1970/1/2", "1970/1/3 06:00"], [1, 2.25]),
        (["1970-01-02T06:00:00Z", "1970-01-02T06:00:00+06:00"], [1.25, 1]),
        (["2.1.1970", "1.2.1970"], [1, 31]),
        (["1/2/1970", "2/1/1970"], [1, 31]),
        (["13/1/1970", "1/1/1970"], [12, 0]),
    ],
)
def test_dates_in_text_become_days(tmp_path, cells, days):
    graph = ingest(tmp_path, PAIR, {"id": ["a", "b"], "when": cells}, kind=".csv")
    assert graph.features.ravel().tolist() == days


def test_a_day_that_does_not_exist_is_no_date(tmp_path):
    cells = [f"{day:02d}.02.2024" for day in range(1, 31)]
    with pytest.raises(GraphError, match=r"line 31: feature 'when' is '30.02.2024', expected a date; correct it"):
        ingest(tmp_path, PAIR, {"id": ["a", "b", *range(28)], "when": cells}, kind=".csv")


def test_columns_that_the_config_names_are_taken_whatever_they_look_like(tmp_path):
    named = ["zip", "row", "customer_id", "plan"]
    graph = ingest(tmp_path / "a", FIRST, PEOPLE, kind=".csv", feature_columns=named)
    assert graph.num_features == 48 + 1 + 1 + 3
    assert column(graph, "row").tolist() == PEOPLE["row"]
    types = {"zip": "number", "age": "category", "note": "skip", "city": "text", "plan": "skip", "hash": "category"}
    graph = ingest(tmp_path / "b", FIRST, PEOPLE, kind=".csv", column_types=types)
    found = made(graph)
    assert column(graph, "zip")[1] == 7919
    assert found["age"] == "values hashed into 32 columns"
    assert found["city"] == "words and letters hashed into 48 columns"
    assert found["hash"] == "values hashed into 32 columns"
    assert found["note"] == found["plan"] == "left out: graph.column_types"


def test_alike_texts_have_alike_rows_and_equal_values_equal_ones(tmp_path):
    texts = [f"the invoice of order {row} was wrong" for row in range(50)] + [
        f"love this app, user {row}" for row in range(50)
    ]
    nodes = {"id": list(range(100)), "text": texts, "city": [f"c{row % 40}" for row in range(100)]}
    graph = ingest(tmp_path, {"source": [0], "target": [1]}, nodes)
    text, city = graph.features[:, :48], graph.features[:, 48:]
    cosines = text @ text.T / np.outer(*[np.linalg.norm(text, axis=1)] * 2)
    assert cosines[:50, :50].mean() > cosines[:50, 50:].mean() + 0.4
    same = city @ city.T
    assert np.allclose(np.diag(same), 1)
    assert np.allclose(same[0, 40], 1)
    assert np.unique(city, axis=0).shape[0] == 40


def test_nothing_depends_on_the_order_of_the_rows_or_on_how_many_are_read_at_once(tmp_path, monkeypatch):
    draw = np.random.default_rng(0)
    nodes = pd.DataFrame(PEOPLE).assign(
        money=np.where(draw.random(ROWS) < 0.3, np.nan, draw.lognormal(0, 9, ROWS)),
        plan=[None if row % 5 == 0 else plan for row, plan in enumerate(PEOPLE["plan"])],
    )
    whole = ingest(tmp_path / "whole", FIRST, nodes.to_dict("list"), kind=".csv")
    monkeypatch.setattr(textfiles, "_BLOCK", 1 << 10)
    monkeypatch.setattr(nodetable, "_VALUES_AT_ONCE", 1000)
    parts = ingest(tmp_path / "parts", FIRST, nodes.to_dict("list"), kind=".csv")
    assert parts.fingerprint == whole.fingerprint
    order = draw.permutation(ROWS)
    other = ingest(tmp_path / "other", FIRST, nodes.iloc[order].to_dict("list"), kind=".csv")
    assert other.manifest["encoding"] == whole.manifest["encoding"]
    assert other.manifest["columns"] == whole.manifest["columns"]
    assert (other.features == whole.features[order]).all()


def test_many_distinct_values_are_estimated(monkeypatch):
    distinct = column_profile.Distinct()
    for low in range(0, 200_000, 50_000):
        numbers = np.arange(low, low + 60_000, dtype=np.float64)
        distinct.add(column_profile._mixed(numbers.view(np.uint64)))
    assert not distinct.exact
    assert abs(distinct.count - 210_000) < 0.1 * 210_000


def test_a_mistake_among_numbers_or_dates_is_refused_with_its_place(tmp_path):
    for name, cells, expected in (("x", range(60), "a number"), ("x", PEOPLE["since"][:60], "a date")):
        text = "id,x\n" + "".join(f"{row},{'abc' if row == 41 else cell}\n" for row, cell in enumerate(cells))
        with pytest.raises(GraphError, match=f"line 43: feature '{name}' is 'abc', expected {expected}; correct it or"):
            ingest(tmp_path / expected, PAIR, text, kind=".csv")


def test_a_cell_may_have_several_lines(tmp_path):
    text = 'id,note\na,"one, ""two""\nthree"\nb,"one, ""two""\nthree"\n'
    graph = ingest(tmp_path, PAIR, text, kind=".csv")
    assert graph.feature_columns == ['note=one, "two"\nthree']


def test_numbers_and_dates_may_be_words_in_lists(tmp_path):
    nodes = {"id": ["a", "b"], "x": [["7"], ["8"]], "when": [["1970-01-02"], ["1970-01-03"]]}
    assert ingest(tmp_path, PAIR, nodes).features.tolist() == [[7, 1], [8, 2]]


def test_lists_without_numbers_and_far_days_are_read(tmp_path):
    nodes = {"id": ["a", "b"], "none": [[], []], "far": pa.array([2**31 - 1, -(2**31)], pa.date32())}
    graph = ingest(tmp_path, PAIR, nodes)
    assert made(graph)["none"] == "left out: no values"
    assert graph.features.ravel().tolist() == [2.0**31, -(2.0**31)]


@pytest.mark.parametrize("name", ["zip code", "no", "it's", "to, node", "7", "ä: b"])
def test_the_option_that_a_note_names_can_be_pasted(tmp_path, name):
    nodes = {"id": [f"n{row}" for row in range(90)], name: [f"{row:05d}" for row in range(90)]}
    note = next(note for note in ingest(tmp_path / "a", FIRST, nodes).manifest["notes"] if "left out" in note)
    setting = shlex.split(note.partition("its type: ")[2])[1]
    values = Config.load(None, [setting], {"graph": {"source": "tables", "edges": "e"}}).graph.column_types
    graph = ingest(tmp_path / "b", FIRST, nodes, column_types=values)
    assert made(graph)[name] == "values hashed into 32 columns"


def test_tiny_numbers_are_summed_exactly(tmp_path):
    nodes = {"id": ["a", "b", "c", "d"], "x": [1e16, 1.0, -1e16, None]}
    assert ingest(tmp_path, PAIR, nodes).features[3].tolist() == [np.float32(1 / 3), 1]


@pytest.mark.parametrize("kind", [".csv", ".parquet"])
@pytest.mark.parametrize(("missing", "filled"), [("mean", "the mean"), ("zero", "0")])
def test_missing_dates_are_counted_and_no_number_of_days_is_shown_for_them(tmp_path, kind, missing, filled):
    when = pd.to_datetime(["2024-01-02", None, "2024-01-04", None])
    nodes = {"id": list("abcd"), "when": pd.Series(when), "due": ["02.01.2024", "NaT", "", "04.01.2024"]}
    graph = ingest(tmp_path, PAIR, nodes, kind=kind, missing=missing)
    for name, summary in ((one["name"], one) for one in graph.manifest["columns"][1:]):
        assert (summary["type"], summary["missing"]) == ("date", 2)
        assert made(graph)[name].endswith(f"; missing ones become {filled} and are marked")
    assert graph.features[:, 1].tolist() == [0, 1, 0, 1]
