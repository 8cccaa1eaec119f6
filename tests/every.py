"""Many cases in one test, because pytest spends more time on a separate case than most cases
take."""

import inspect
from functools import wraps

import pytest


def every(cases, check):
    """Check all cases even if some fail; the error names each case that failed."""
    failed = []
    for case in cases:
        try:
            check(case)
        except (Exception, pytest.fail.Exception) as error:
            error.add_note(f"with {case}")
            failed.append(error)
    if len(failed) == 1:
        raise failed[0]
    if failed:
        raise BaseExceptionGroup(f"{len(failed)} cases", failed)


def for_all(names, values):
    """A decorator like pytest.mark.parametrize, for one test of all these values, which share their
    fixtures.

    `pytest -k NAME` selects the test if a value is a text that contains NAME, because pytest also
    compares NAME with the attributes of a test's function."""
    names = names.split(", ") if isinstance(names, str) else names
    cases = [dict(zip(names, [v] if len(names) == 1 else v, strict=True)) for v in values]
    assert cases

    def decorated(test):
        signature = inspect.signature(test)
        others = [p for p in signature.parameters.values() if p.name not in names]

        @wraps(test)
        def for_each(**given):
            every(cases, lambda case: test(**given, **case))

        for_each.__signature__ = signature.replace(parameters=others)
        vars(for_each).update({v: True for case in cases for v in case.values() if type(v) is str})
        return for_each

    return decorated
