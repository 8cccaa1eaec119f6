"""Many cases in one test: pytest spends more on a case of its own than most of them take."""

import pytest


def every(cases, check):
    """Check all of some cases, whichever fail; each that does says with which case."""
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
