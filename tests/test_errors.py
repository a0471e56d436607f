import pickle

import pytest

from gscl_scale import errors


@pytest.mark.parametrize("name", [n for n in vars(errors) if n.endswith("Error")])
def test_every_error_pickles_with_its_sentence(name):
    error = getattr(errors, name)("what, where, expected, got, what to do")
    back = pickle.loads(pickle.dumps(error))
    assert type(back) is type(error)
    assert str(back) == str(error)


def test_wrong_input_is_a_value_error_and_failed_work_is_not():
    assert issubclass(errors.UserError, ValueError)
    assert not issubclass(errors.RunError, ValueError)
