"""Random numbers keyed by purpose and identity."""

import numpy as np
import pyarrow as pa
import pytest
from scipy import stats

from gscl_scale import seeding

MANY = np.arange(200_000, dtype=np.uint64)


def test_the_same_purpose_and_identity_give_the_same_key():
    assert seeding.key("priority", 1, 2) == seeding.key("priority", 1, 2)
    assert seeding.key("priority", np.int32(1), np.int64(2)) == seeding.key("priority", 1, 2)
    assert seeding.key("priority", 0, 1) == 6174832381508808537  # the draws of a seed never change


def test_another_purpose_or_identity_gives_another_key():
    keys = [seeding.key(*k) for k in [("a",), ("b",), ("a", 0), ("a", 1), ("a", 0, 1), ("a", 1, 0), ("a", 0, 0)]]
    assert len(set(keys)) == len(keys)


def test_a_generator_draws_the_same_again_and_another_one_differs():
    first, again, other = (seeding.generator("plan", number).random(5) for number in (1, 1, 2))
    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first, other)


def test_an_integer_seed_fits_63_bits():
    assert all(0 <= seeding.integer("x", number) < 2**63 for number in range(100))


def test_draws_are_standard_exponential():
    draws = seeding.exponentials(seeding.key("priority", 0, 0), MANY)
    assert draws.mean() == pytest.approx(1.0, abs=0.01)
    assert stats.kstest(draws, "expon").pvalue > 1e-3
    assert (draws > 0).all()
    assert np.isfinite(draws).all()


def test_draws_of_different_rounds_are_different_and_not_related():
    first, second = (seeding.exponentials(seeding.key("priority", 0, number), MANY) for number in (0, 1))
    assert not (first == second).any()
    assert abs(np.corrcoef(first, second)[0, 1]) < 0.01


def test_a_draw_depends_on_its_identity_and_not_on_its_row():
    key = seeding.key("priority", 3)
    order = np.random.default_rng(0).permutation(MANY.size)
    np.testing.assert_array_equal(seeding.exponentials(key, MANY[order]), seeding.exponentials(key, MANY)[order])


@pytest.mark.parametrize("kind", [pa.int32(), pa.int64(), pa.uint64(), pa.string(), pa.large_string()])
def test_the_identity_of_an_id_does_not_depend_on_its_row(kind):
    ids = pa.array([5, 17, 3, 0]).cast(kind)
    order = pa.array([2, 0, 3, 1])
    np.testing.assert_array_equal(seeding.identities_of(ids.take(order)), seeding.identities_of(ids)[order.to_numpy()])
    np.testing.assert_array_equal(seeding.identities_of(ids[1:3]), seeding.identities_of(ids)[1:3])
    assert np.unique(seeding.identities_of(ids)).size == 4


def test_the_width_of_ids_does_not_change_their_identity():
    for narrow, wide in [(pa.int32(), pa.int64()), (pa.string(), pa.large_string())]:
        ids = pa.array([5, 17, 3])
        np.testing.assert_array_equal(seeding.identities_of(ids.cast(narrow)), seeding.identities_of(ids.cast(wide)))


def test_texts_that_are_alike_have_identities_that_are_not():
    texts = [f"n{number}" for number in range(10_000)] + ["", "é", "e\u0301"]
    identities = seeding.identities_of(pa.array(texts))
    assert np.unique(identities).size == len(texts)
    assert abs((identities >> np.uint64(63)).mean() - 0.5) < 0.05
    assert seeding.identities_of(pa.array([], pa.string())).size == 0


@pytest.mark.parametrize(
    "ids", [pa.array(np.arange(10)), pa.array([f"n{i}" for i in range(10)]), pa.array([], "int64")]
)
def test_draws_of_ids_are_the_same_however_many_are_read_at_once(ids, monkeypatch):
    key = seeding.key("priority", 0, 0)
    monkeypatch.setattr(seeding, "_IDS_AT_ONCE", 3)
    np.testing.assert_array_equal(
        seeding.exponentials_of(key, ids), seeding.exponentials(key, seeding.identities_of(ids))
    )
