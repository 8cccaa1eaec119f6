"""Data classes of ours are as the library's, however much later their methods are written."""

import copy
import dataclasses
import pickle
from inspect import signature

import pytest

from neuroncore import machine
from neuroncore.base.structs import dataclass as ours

BOTH = pytest.mark.parametrize("dataclass", [ours, dataclasses.dataclass])
KINDS = pytest.mark.parametrize("frozen", [True, False])


def example(dataclass, **options):
    @dataclass(**options)
    class Example:
        first: int
        second: str = "two"
        third: list = dataclasses.field(default_factory=list)
        hidden: int = dataclasses.field(default=4, repr=False, compare=False)
        own: dict = dataclasses.field(default_factory=dict, init=False, compare=False)

        def __post_init__(self):
            self.own["first"] = self.first

    return Example


@BOTH
@KINDS
def test_arguments_go_to_fields(dataclass, frozen):
    cls = example(dataclass, frozen=frozen)
    one, other = cls(1), cls(1, "2", third=[3], hidden=5)
    assert dataclasses.astuple(one) == (1, "two", [], 4, {"first": 1})
    assert dataclasses.astuple(other) == (1, "2", [3], 5, {"first": 1})
    assert one.third is not cls(1).third
    for wrong in ({}, {"first": 1, "own": {}}, {"first": 1, "fourth": 2}):
        with pytest.raises(TypeError, match=r"__init__\(\)"):
            cls(**wrong)


@KINDS
def test_the_signature_is_that_of_the_library(frozen):
    cls, library = (example(one, frozen=frozen) for one in (ours, dataclasses.dataclass))
    cls(1)
    assert [*signature(cls).parameters] == [*signature(library).parameters]
    assert signature(cls).parameters["second"].default == "two"


@BOTH
def test_equal_fields_make_equal_instances(dataclass):
    cls, same = (example(dataclass, frozen=True) for _ in range(2))
    assert cls(1, hidden=5) == cls(1) != cls(2)
    assert cls(1) != same(1)
    assert cls(1) != (1, "two", [])
    assert hash(cls(1, third=())) == hash(cls(1, third=(), hidden=5))
    assert len({cls(n % 3, third=()) for n in range(9)}) == 3


@BOTH
def test_what_can_change_has_no_hash(dataclass):
    with pytest.raises(TypeError, match="unhashable"):
        hash(example(dataclass)(1))


@BOTH
def test_identity_does_where_equality_is_not_wanted(dataclass):
    cls = example(dataclass, frozen=True, eq=False)
    one = cls(1)
    assert one == one != cls(1)
    assert hash(one) == hash(one)


@BOTH
def test_methods_of_a_class_stay(dataclass):
    @dataclass(frozen=True)
    class Own:
        text: str

        def __eq__(self, other):
            return self.text.lower() == other.text.lower()

        def __repr__(self):
            return "own"

    assert Own("A") == Own("a")
    assert repr(Own("a")) == "own"


@BOTH
def test_fields_are_shown_in_their_order(dataclass):
    shown = repr(example(dataclass)(1))
    assert shown.endswith("Example(first=1, second='two', third=[], own={'first': 1})")


@BOTH
def test_what_is_frozen_does_not_change(dataclass):
    one = example(dataclass, frozen=True)(1)
    with pytest.raises(dataclasses.FrozenInstanceError, match="first"):
        one.first = 2
    with pytest.raises(dataclasses.FrozenInstanceError, match="first"):
        del one.first
    assert dataclasses.replace(one, first=2).first == 2


@BOTH
def test_arguments_may_be_named_only(dataclass):
    @dataclass(frozen=True, kw_only=True)
    class Named:
        first: int
        second: int = 2

    assert dataclasses.astuple(Named(first=1)) == (1, 2)
    with pytest.raises(TypeError, match=r"__init__\(\)"):
        Named(1)


@BOTH
def test_a_class_may_have_no_fields(dataclass):
    @dataclass(frozen=True)
    class Nothing:
        pass

    assert Nothing() == Nothing()
    assert len({Nothing(), Nothing()}) == 1


def test_instances_may_be_made_without_a_call():
    """As copying and pickling make them, before a class has been called."""
    untouched = example(ours, frozen=True)
    twins = [object.__new__(untouched) for _ in range(2)]
    for twin in twins:
        vars(twin).update(first=1, second="two", third=())
    assert twins[0] == twins[1]
    assert hash(twins[0]) == hash(twins[1])
    limits = machine.load("trn2").limits
    for kept in (copy.copy(limits), pickle.loads(pickle.dumps(limits))):
        assert kept == limits
