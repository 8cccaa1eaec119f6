"""A test of many cases names the cases that fail."""

import pytest
from every import every, for_all


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


def test_a_case_that_is_not_refused_is_named():
    def refused(number):
        with pytest.raises(ZeroDivisionError):
            1 / number

    every([0], refused)
    with pytest.raises(pytest.fail.Exception) as caught:
        every([0, 1], refused)
    assert caught.value.__notes__ == ["with 1"]


@pytest.mark.parametrize("a", [1, 2])
@for_all("b", [3, 4])
@for_all(("c", "d"), [(5, 6), (7, 8)])
def test_for_all_is_parametrize_within_a_test(a, b, c, d, request):
    seen = vars(request.node).setdefault("seen", [])
    seen.append((a, b, c, d))
    assert len(seen) < 4 or seen == [(a, b, c, d) for b in (3, 4) for c, d in ((5, 6), (7, 8))]


def test_a_failed_value_of_for_all_is_named():
    @for_all("number", [2, 3])
    @for_all("other", ["x", "y"])
    def test(number, other):
        assert number == 2 or other == "x"

    with pytest.raises(AssertionError) as caught:
        test()
    assert caught.value.__notes__ == ["with {'other': 'y'}", "with {'number': 3}"]
