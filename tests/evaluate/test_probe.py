import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
import torch
from scipy import sparse
from sklearn.linear_model import LogisticRegression

from gscl_scale import seeding
from gscl_scale.config.evaluate import EvaluateConfig
from gscl_scale.evaluate import linear_probe
from gscl_scale.evaluate.linear_probe import ProbeResult, _gradient, _Labelled, probe_splits
from gscl_scale.evaluate.measures import count_right
from gscl_scale.evaluate.splits import Split
from gscl_scale.evaluate.vectors import KINDS, Scaling, fit_scaling, load_rows, rows_per_block, stays_sparse, take_parts
from gscl_scale.graph.types import SparseFeatures


def blobs(distance: float, nodes: int = 300, classes: int = 3) -> tuple[Any, Any, Any]:
    """Vectors around one centre per class, labels, and codes of a split 60/60/180."""
    draw = seeding.generator("blobs", 5)
    labels = draw.integers(0, classes, nodes)
    vectors = draw.standard_normal((nodes, 10)) + distance * np.eye(classes, 10)[labels]
    codes = np.repeat(np.array([1, 2, 3], np.int8), [60, 60, nodes - 120])
    return vectors.astype(np.float32), labels, codes


def as_sparse(dense: np.ndarray) -> SparseFeatures:
    matrix = sparse.csr_array(dense)
    return SparseFeatures(
        matrix.indptr.astype(np.int64), matrix.indices.astype(np.int32), matrix.data.astype(np.float32), dense.shape[1]
    )


def probe(vectors: Any, labels: Any, codes: Any, config: EvaluateConfig, device: str = "cpu") -> ProbeResult:
    """Probe three classes on one split."""
    return probe_splits(vectors, labels, [Split("given", None, codes)], 3, config, device)


def quick(**settings: Any) -> EvaluateConfig:
    return QUICK.model_copy(update=settings)


QUICK = EvaluateConfig(initialisations=4, probe_epochs=120, probe_learning_rate=0.05, probe_scaling="none")


def test_probe_reaches_what_scikit_learn_reaches() -> None:
    vectors, labels, codes = blobs(2.0)
    codes = np.where(codes == 2, 1, codes).astype(np.int8)  # trained to the end, with scikit-learn's penalty C = 1
    reference = LogisticRegression().fit(vectors[codes == 1], labels[codes == 1])
    expected = reference.score(vectors[codes == 3], labels[codes == 3])
    result = probe(vectors, labels, codes, quick(probe_epochs=1000, probe_weight_decay=[1 / 120]))
    np.testing.assert_allclose(result.test, expected, atol=0.006)


def test_probe_is_perfect_on_separable_data_under_every_scaling() -> None:
    vectors, labels, codes = blobs(12.0)
    for scaling in ("none", "l2", "standard"):
        result = probe(vectors, labels, codes, quick(probe_scaling=scaling))
        assert result.figures()["test_mean"] > 0.99
        assert (result.val == 1).all()


def test_probe_is_the_same_for_the_same_seed_and_initialisations_differ() -> None:
    vectors, labels, codes = blobs(1.0)
    one, two = (probe(vectors, labels, codes, QUICK) for _ in range(2))
    np.testing.assert_array_equal(one.val, two.val)
    np.testing.assert_array_equal(one.test, two.test)
    other = probe(vectors, labels, codes, quick(seed=1))
    assert not np.array_equal(one.test, other.test)
    assert len(set(one.test[0])) > 1


def test_training_many_initialisations_at_once_gives_each_its_own_gradient() -> None:
    vectors, labels, codes = blobs(1.0)
    rows = load_rows(vectors, np.flatnonzero(codes == 1), Scaling("none"), "cpu")
    part = _Labelled(rows, torch.from_numpy(labels[codes == 1]))
    weight = torch.randn(10, 4 * 3, generator=torch.Generator().manual_seed(1), requires_grad=True)
    bias = torch.zeros(12, requires_grad=True)
    logits = (rows.matrix @ weight + bias).view(60, 3, 4)
    loss = sum(torch.nn.functional.cross_entropy(logits[:, :, lane], part.target) for lane in range(4))
    expected = torch.autograd.grad(loss, [weight, bias])
    for got, wanted in zip(_gradient(part, weight.detach(), bias.detach(), 3), expected, strict=True):
        torch.testing.assert_close(got, wanted)
    assert count_right("accuracy", [(logits, part.target)]).tolist() == [
        int((logits[:, :, lane].argmax(1) == part.target).sum()) for lane in range(4)
    ]


def test_test_labels_are_never_looked_at_when_choosing() -> None:
    vectors, labels, codes = blobs(1.0)
    config = quick(probe_weight_decay=[0.0, 1e-2, 1e-1, 1.0])
    shuffled = labels.copy()
    shuffled[codes == 3] = seeding.generator("shuffle", 1).permutation(labels[codes == 3])
    honest, shuffle = (probe(vectors, each, codes, config) for each in (labels, shuffled))
    assert honest.weight_decay == shuffle.weight_decay
    assert honest.val_by_decay == shuffle.val_by_decay
    np.testing.assert_array_equal(honest.val, shuffle.val)
    np.testing.assert_array_equal(honest.best_epoch, shuffle.best_epoch)
    assert honest.test_mean > shuffle.test_mean + 0.1


def test_the_test_figure_is_taken_at_the_first_best_validation_epoch() -> None:
    vectors, labels, codes = blobs(1.0)
    no_val = np.where(codes == 2, 0, codes).astype(np.int8)

    def until(epoch: int, split: Any) -> ProbeResult:
        return probe(vectors, labels, split, quick(probe_weight_decay=[0.0], initialisations=1, probe_epochs=epoch))

    by_epochs, last = ([until(epoch, split) for epoch in range(1, 41)] for split in (codes, no_val))
    result = by_epochs[-1]
    best = int(result.best_epoch[0, 0])
    # where the best stands, training for exactly so many epochs and taking the last gives the same test figure
    assert last[best - 1].test_mean == result.test_mean
    assert by_epochs[best - 1].val_mean == result.val_mean
    assert all(run.val_mean < result.val_mean for run in by_epochs[: best - 1])


def test_the_decay_with_the_best_mean_validation_is_kept_and_the_first_on_ties() -> None:
    vectors, labels, codes = blobs(1.0)
    result = probe(vectors, labels, codes, quick(probe_weight_decay=[1.0, 0.0]))
    assert result.weight_decay == max(result.val_by_decay, key=lambda decay: result.val_by_decay[decay])
    assert result.val_mean == max(result.val_by_decay.values())
    separable, labels, codes = blobs(12.0)
    tie = probe(separable, labels, codes, quick(probe_weight_decay=[1e-4, 0.0]))
    assert tie.weight_decay == 1e-4
    assert tie.best_epoch.max() < 60  # all later epochs are as good


@pytest.mark.parametrize("logits", [1 << 26, 3 * 32768 * 4 * 3])  # all decays at once; three and one
def test_decays_side_by_side_are_fitted_as_each_alone(monkeypatch: pytest.MonkeyPatch, logits: int) -> None:
    vectors, labels, codes = blobs(1.0)
    decays = [0.0, 1e-2, 0.1, 1.0]
    alone = [probe(vectors, labels, codes, quick(probe_weight_decay=[one])) for one in decays]
    monkeypatch.setattr(linear_probe, "_LOGITS", logits)
    together = probe(vectors, labels, codes, quick(probe_weight_decay=decays))
    assert list(together.val_by_decay.values()) == pytest.approx([one.val_mean for one in alone])
    assert len(set(together.val_by_decay.values())) > 2
    best = alone[decays.index(together.weight_decay)]
    np.testing.assert_allclose(together.test, best.test)
    np.testing.assert_array_equal(together.best_epoch, best.best_epoch)


def test_the_scaling_with_the_best_validation_is_kept_if_asked_for() -> None:
    vectors, labels, codes = blobs(1.0)
    vectors = vectors * np.linspace(0.01, 30, vectors.shape[0], dtype=np.float32)[:, None]  # lengths say nothing
    tried = {kind: probe(vectors, labels, codes, quick(probe_scaling=kind)) for kind in KINDS}
    auto = probe(vectors, labels, codes, quick(probe_scaling="auto"))
    assert len({result.val_mean for result in tried.values()}) > 1
    assert auto.scaling == max(tried, key=lambda kind: tried[kind].val_mean)
    np.testing.assert_array_equal(auto.test, tried[auto.scaling].test)


def test_a_split_without_validation_nodes_uses_the_last_epoch_and_has_no_validation_figure() -> None:
    vectors, labels, codes = blobs(3.0)
    result = probe(vectors, labels, np.where(codes == 2, 0, codes).astype(np.int8), QUICK)
    assert set(result.best_epoch[0]) == {120}
    assert result.figures()["val_mean"] is None
    assert result.figures()["test_mean"] > 0.8
    assert result.weight_decay == 0.0


@pytest.mark.parametrize("scaling", ["none", "l2", "standard"])
def test_sparse_vectors_give_what_the_same_dense_ones_give(scaling: Any) -> None:
    draw = seeding.generator("sparse", 2)
    dense = (draw.random((300, 120)) * (draw.random((300, 120)) < 0.05)).astype(np.float32)
    dense[7] = 0
    vectors, nodes, scale = as_sparse(dense), np.array([5, 7, 299, 0]), fit_scaling(dense, scaling)
    assert stays_sparse(vectors)
    one, other = load_rows(dense, nodes, scale, "cpu"), load_rows(vectors, nodes, fit_scaling(vectors, scaling), "cpu")
    weight, error = torch.randn(120, 6), torch.randn(4, 6)
    torch.testing.assert_close(one.times(weight), other.times(weight), atol=1e-4, rtol=1e-4)
    torch.testing.assert_close(one.transposed_times(error), other.transposed_times(error), atol=1e-4, rtol=1e-4)


def test_large_splits_are_worked_off_in_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    vectors, labels, codes = blobs(3.0)
    whole = probe(vectors, labels, codes, QUICK)
    monkeypatch.setattr("gscl_scale.evaluate.linear_probe._BLOCK_ROWS", 17)
    parts = probe(vectors, labels, codes, QUICK)
    assert parts.rows_per_step == 17
    assert parts.test_mean == pytest.approx(whole.test_mean, abs=0.05)
    assert parts.val.shape == whole.val.shape


def test_freed_logits_of_many_parts_do_not_stay_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    trimmed: list[int] = []
    counted: list[int] = []

    def counts(measure: Any, parts: Any) -> torch.Tensor:
        counted.append(len(found := list(parts)))
        return count_right(measure, iter(found))

    monkeypatch.setattr(linear_probe, "_BLOCK_ROWS", 17)
    monkeypatch.setattr(linear_probe, "_PARTS_TRIMMED", 3)
    monkeypatch.setattr(linear_probe, "count_right", counts)
    monkeypatch.setattr(linear_probe, "trim_heap", lambda: trimmed.append(1))
    probe(*blobs(3.0), quick(probe_epochs=2))
    assert max(counted) == 11  # parts of 180 test nodes
    assert len(trimmed) == sum(number // 3 for number in counted)


class _Recorded(np.ndarray):
    """Rows that note which of them are read."""

    read: list[np.ndarray]

    def __getitem__(self, nodes: Any) -> Any:
        self.read.append(nodes)
        return np.asarray(self)[nodes]


def test_the_rows_of_many_parts_are_read_once_in_the_order_of_nodes() -> None:
    dense = np.random.default_rng(0).standard_normal((40_000, 3)).astype(np.float32)
    parts = [*np.array_split(np.random.default_rng(1).permutation(40_000)[:35_000], 7), np.empty(0, np.int64)]
    recorded = dense.view(_Recorded)
    recorded.read = []
    for rows, nodes in zip(take_parts(recorded, parts), parts, strict=True):
        np.testing.assert_array_equal(rows, dense[nodes])
    assert (np.diff(np.concatenate(recorded.read)) > 0).all()
    assert max(map(len, recorded.read)) <= rows_per_block(dense)
    few = [np.array([3, 1]), np.array([2])]
    for few_rows, nodes in zip(take_parts(as_sparse(np.eye(30, dtype=np.float32)), few), few, strict=True):
        np.testing.assert_array_equal(few_rows.toarray(), np.eye(30)[nodes])


def test_no_step_is_taken_on_a_few_rows_that_are_left_over(monkeypatch: pytest.MonkeyPatch) -> None:
    steps, fit = [], linear_probe._fit

    def watched(task: Any, train: Any, val: Any, decays: list[float]) -> Any:
        steps.append([part.target.numel() for part in train])
        return fit(task, train, val, decays)

    monkeypatch.setattr(linear_probe, "_fit", watched)
    monkeypatch.setattr(linear_probe, "_BLOCK_ROWS", 59)
    probe(*blobs(3.0), QUICK)
    assert all(sizes == [30, 30] for sizes in steps)


def test_figures_over_several_splits_carry_a_standard_error() -> None:
    vectors, labels, codes = blobs(1.0)
    splits = [Split("a", None, codes), Split("b", None, codes[::-1].copy())]
    result = probe_splits(vectors, labels, splits, 3, QUICK)
    assert result.test.shape == (2, 4)
    figures = result.figures()
    assert figures["test_std"] == pytest.approx(result.test.std(ddof=1))
    assert figures["test_se"] == pytest.approx(abs(np.diff(result.test.mean(axis=1))[0]) / 2)
    assert "test_se" not in probe(vectors, labels, codes, QUICK).figures()


def test_small_splits_are_probed_side_by_side_each_on_one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    vectors, labels, codes = blobs(1.0)
    splits = [Split(str(number), None, np.roll(codes, 60 * number)) for number in range(4)]
    before, fit, ran = torch.get_num_threads(), linear_probe._fit, []

    def noted(*arguments: Any) -> Any:
        ran.append((threading.get_ident(), torch.get_num_threads()))
        return fit(*arguments)

    def probed(threads: int) -> ProbeResult:
        torch.set_num_threads(threads)
        return probe_splits(vectors, labels, splits, 3, QUICK)

    monkeypatch.setattr(linear_probe, "_fit", noted)
    try:
        found = probed(3)
        with ThreadPoolExecutor(1) as pool:  # a thread that begins later
            assert (torch.get_num_threads(), pool.submit(torch.get_num_threads).result()) == (3, 3)
        monkeypatch.setattr(linear_probe, "_SMALL_TASK", 0)
        monkeypatch.setattr(linear_probe, "_TINY_TASK", 0)
        expected = probed(1)
    finally:
        torch.set_num_threads(before)
    assert found.val.tolist() == expected.val.tolist()
    assert found.test.tolist() == expected.test.tolist()
    assert [thread == threading.get_ident() for thread, _ in ran] == [False] * 4 + [True] * 4
    assert {number for _, number in ran} == {1}


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="torch sees no GPU")
def test_probe_agrees_on_a_gpu() -> None:
    vectors, labels, codes = blobs(2.0)
    on_cpu, on_gpu = (probe(vectors, labels, codes, QUICK, device) for device in ("cpu", "cuda"))
    assert on_gpu.test_mean == pytest.approx(on_cpu.test_mean, abs=0.02)


@pytest.mark.parametrize("factor", [1e-30, 1e-15, 1e15, 1e30])
@pytest.mark.parametrize("form", [np.asarray, as_sparse])
@pytest.mark.parametrize("scaling", KINDS)
def test_tiny_and_huge_vectors_are_probed_as_those_near_one(scaling: Any, form: Any, factor: float) -> None:
    vectors, labels, codes = blobs(6.0)
    vectors = np.pad(vectors, ((0, 0), (0, 110)))  # few values are stored, and the last columns are constant
    settings = quick(probe_scaling=scaling)
    expected = probe(form(vectors), labels, codes, settings).test_mean
    assert expected > 0.9
    far = form((vectors * np.float64(factor)).astype(np.float32))
    assert probe(far, labels, codes, settings).test_mean == pytest.approx(expected, abs=0.02)
