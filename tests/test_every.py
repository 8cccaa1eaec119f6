"""What stands for many cases says which of them fail."""

import pytest
from every import every


def is_even(number):
    assert number % 2 == 0


def test_all_are_checked_when_one_fails_and_that_one_is_named():
    seen = []
    with pytest.raises(AssertionError) as caught:
        every([2, 3, 4], lambda number: (seen.append(number), is_even(number)))
    assert seen == [2, 3, 4] and caught.value.__notes__ == ["with 3"]


def test_all_that_fail_are_named():
    with pytest.raises(ExceptionGroup, match="2 cases") as caught:
        every((n for n in range(4)), is_even)
    assert [error.__notes__ for error in caught.value.exceptions] == [["with 1"], ["with 3"]]


def test_so_is_what_is_not_refused():
    def refused(number):
        with pytest.raises(ZeroDivisionError):
            1 / number

    every([0], refused)
    with pytest.raises(pytest.fail.Exception) as caught:
        every([0, 1], refused)
    assert caught.value.__notes__ == ["with 1"]
