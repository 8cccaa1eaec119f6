"""Values that are kept per place in code."""

import gc

from neuroncore.base.source import Sites


def codes(count):
    """Code objects that are equal, each a separate object."""
    return [compile("x = 1; y = 2", "f.py", "exec") for _ in range(count)]


def test_equal_code_objects_have_separate_values():
    sites, made = Sites(), codes(50)
    for number, code in enumerate(made):
        for instruction in range(0, len(code.co_code), 2):
            sites.keep(code, instruction, (number, instruction))
    for number, code in enumerate(made):
        assert [sites.at(code, at) for at in range(0, len(code.co_code), 2)] == [
            (number, at) for at in range(0, len(code.co_code), 2)
        ]


def test_new_code_never_gets_the_values_of_deleted_code():
    sites = Sites()
    for _ in range(200):
        (code,) = codes(1)
        assert sites.at(code, 4) is None
        sites.keep(code, 4, "seen")
        del code
        gc.collect(0)


def test_at_the_limit_all_values_and_their_code_are_dropped():
    sites, made = Sites(room=4), codes(5)
    for number, code in enumerate(made):
        assert sites.keep(code, 2, number) == number
    assert [sites.at(code, 2) for code in made] == [None] * 4 + [4]
