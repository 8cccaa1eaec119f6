"""The notation for calls in examples of clauses and in tables of counterexamples."""

import pytest

from neuroncore import machine
from neuroncore.base.errors import DefinitionError
from neuroncore.clause import counterexample, example
from neuroncore.clause.counterexample import expanded, rows
from neuroncore.clause.instruction import INSTRUCTIONS
from neuroncore.memory.geometry import View

TRN2, COPY = machine.load("trn2"), INSTRUCTIONS["tensor_copy"]


def copied(changes):
    return example.call(COPY, TRN2, changes)


@pytest.mark.parametrize(
    ("words", "shown"),
    [
        ("", "128 x 512 bfloat16 in sbuf"),
        ("float32", "128 x 512 float32 in sbuf"),
        ("psum 4 2 3", "4 x 2 x 3 float32 in psum"),
        ("4 5 hbm int8", "4 x 5 int8 in private_hbm"),
    ],
)
def test_a_tile_is_written_as_memory_format_and_shape(words, shown):
    assert str(copied(f"src={words}")["src"]) == shown


def test_a_tile_can_have_an_address():
    view = copied("src=psum 32 4 at 32 byte 2048")["src"]
    assert (view.partition, view.byte) == (32, 2048)
    assert copied("src=stepped")["src"].stepped
    assert [copied(f"src={word}")["src"].dynamic for word in ("moved", "gathered")] == [1, 2]
    assert copied("src=16 40 picked")["src"].picked_by.shape == (16, 3)


def test_later_words_replace_earlier_ones():
    assert str(copied("src=psum float32 4 5; src=int8 6 7")["src"]) == "6 x 7 int8 in psum"


def test_lists_have_two_tiles_or_one_for_each_part_between_commas():
    def srcs(text):
        made = example.call(INSTRUCTIONS["dma_compute"], TRN2, text)
        assert [n for n in made.arguments if "[" in n] == [
            f"srcs[{i}]" for i in range(len(made["srcs"]))
        ]
        return [view.shape if isinstance(view, View) else view for view in made["srcs"]]

    assert srcs("srcs=3 4") == [(3, 4), (3, 4)]
    assert srcs("srcs=3 4 alone") == [(3, 4)]
    assert srcs("srcs=3 4; srcs=float32, 5 6") == [(3, 4), (5, 6)]
    assert srcs("srcs=()") == []


@pytest.mark.parametrize("changes", ["source=psum", "src=spam", "engine=psum"])
def test_text_without_a_meaning_is_refused(changes):
    with pytest.raises((DefinitionError, ValueError)):
        copied(changes)


def test_braces_are_alternatives():
    assert [*expanded("a={1|2}; b={x|y}")] == ["a=1; b=x", "a=1; b=y", "a=2; b=x", "a=2; b=y"]


def test_a_row_applies_to_the_machines_that_it_its_table_or_its_clause_names(monkeypatch):
    table = {
        "tensor_copy trn1 trn3: dst=psum": {"src={int8|int16}": "A", "trn2: src=psum": "B a b"},
        "tensor_copy": {"src=hbm": "C"}, "memset": {"value=1": "D"},
    }  # fmt: skip
    monkeypatch.setattr(counterexample, "_tables", lambda family: table)
    assert [(str(row), row.code, row.words) for row in rows(COPY)] == [
        ("trn1 trn3: dst=psum; src=int8", "A", ""),
        ("trn1 trn3: dst=psum; src=int16", "A", ""),
        ("trn2: dst=psum; src=psum", "B", "a b"),
        ("src=hbm", "C", ""),
    ]
