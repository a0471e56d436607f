"""What a page shows and what is printed: when the two are alike."""

import pytest

from tests.docs.pages import assert_alike

SHOWN = "│ trained │ 88.40 ± 0.71 │ 0.784 │\n...\nfinished in 49 s\n"


@pytest.mark.parametrize(
    "printed",
    [
        "│ trained │ 88.40 ± 0.71 │ 0.784 │\nmore\nfinished in 12 s\n",
        "│ trained │ 89.91 ± 1.20 │ 0.752 │\nfinished in 49 s\n",
    ],
)
def test_figures_of_another_machine_are_alike(printed):
    assert_alike(SHOWN, printed)


@pytest.mark.parametrize(
    "printed",
    [
        "│ trained │ 70.00 ± 0.71 │ 0.784 │\nfinished in 49 s\n",
        "│ trained │ 88.40 ± 1.71 │ 0.784 │\nfinished in 49 s\n",
        "│ untrained │ 88.40 ± 0.71 │ 0.784 │\nfinished in 49 s\n",
        "│ trained │ 88.40 ± 0.71 │ 0.784 │\n",
    ],
)
def test_other_figures_and_words_are_not(printed):
    with pytest.raises(AssertionError):
        assert_alike(SHOWN, printed)
