"""nki.language.NKIObject: the three features that published kernels use."""

from dataclasses import dataclass

import nki.language as nl


class Free(nl.NKIObject):
    pass


class Bare(nl.NKIObject):
    width: int
    height = 3

    def __post_init__(self):
        self.done = True


@dataclass
class Section(nl.NKIObject):
    index = None
    size = 4


@dataclass
class Constants(nl.NKIObject):
    remainder: int
    total: int = 7


def test_keywords_become_attributes_of_an_object():
    free = Free(a=1, b="two")
    assert (free.a, free.b) == (1, "two")
    bare = Bare(width=2)
    assert (bare.width, bare.height, bare.done) == (2, 3, True)
    assert (Bare(5).width, Bare().width) == (5, None)


def test_a_dataclass_has_fields_without_annotations():
    assert (Section(index=2).index, Section().index, Section(size=1).size) == (2, None, 1)


def test_an_annotated_field_without_a_default_may_be_left_out():
    assert (Constants().remainder, Constants(total=1).remainder, Constants(3).total) == (
        None,
        None,
        7,
    )


def test_objects_inherit_their_fields():
    class Wider(Bare):
        depth: int = 9

    wide = Wider(width=1, depth=2)
    assert (wide.width, wide.height, wide.depth, wide.done) == (1, 3, 2, True)
