"""The table of instructions: all facts about an instruction are in its clause, and can be
printed."""

import re
from dataclasses import replace
from pathlib import Path

import pytest
from every import for_all

import neuroncore
from neuroncore import machine
from neuroncore.clause import example
from neuroncore.clause.instruction import INSTRUCTIONS, Traits
from neuroncore.clause.legality import whole_call
from neuroncore.cli import main

ROOT = Path(neuroncore.__file__).parent
MACHINES = [machine.load(name) for name in machine.names()]
DIALECTS = ("frontend",)
ALSO_WORDS = {"activation", "iota", "rng", "topk", "dropout", "exponential", "reciprocal", "memset"}

NAMED_IN = (*DIALECTS, "isa", "kernels", "plain")  # folders that may name instructions
NO_TRAITS = {  # instructions that have no traits
    *("register_move", "register_load", "register_store", "dma_transpose", "memset", "iota"),
    *("local_gather", "nc_n_gather", "quantize_mx", "topk", "nonzero_with_count"),
    *("rng", "rand2", "dropout", "set_rng_seed", "rand_set_state", "rand_get_state"),
    *("tensor_partition_reduce", "sequence_bounds"),
    *("max8", "nc_find_index8", "nc_match_replace8"),
}


def test_every_instruction_has_traits_or_is_listed_as_having_none():
    without = {name for name, one in INSTRUCTIONS.items() if one.traits == Traits()}
    assert without - NO_TRAITS == set(), "give these instructions traits, or list them in NO_TRAITS"
    assert NO_TRAITS - without == set(), "these instructions have traits"


@pytest.mark.parametrize("name", sorted(INSTRUCTIONS))
def test_isa_prints_shapes_rules_cost_and_an_example(name, capsys):
    one = INSTRUCTIONS[name]
    assert main(["isa", name]) == 0
    printed = capsys.readouterr().out
    running = " ".join(printed.split())  # lines are wrapped
    for rule in one.rules:
        assert rule.sentence and " ".join(rule.sentence.split()) in running
        assert rule.because is None or " ".join(rule.because.split()) in running
    for shape in one.shapes.values():
        assert f"[{shape[0].text}, {shape[1].text}]" in printed
    assert re.search(r"^cost +\S", printed, re.M), "its cost has no docstring"
    of = {"nki.isa": "nisa"}.get(one.module, one.module)
    assert f"example   {of}.{name}(" in printed


@for_all("name", sorted(INSTRUCTIONS))
def test_the_example_is_legal_on_every_machine_that_has_the_instruction(name):
    one = INSTRUCTIONS[name]
    with_it = [m for m in MACHINES if one.feature is None or m.has(one.feature)]
    calls = {m.name: example.call(one, m) for m in with_it}
    wrong = {m.name: [str(e) for e in whole_call(calls[m.name], m)] for m in with_it}
    assert not any(wrong.values()), wrong


@pytest.mark.parametrize(
    ("change", "why"),
    [({"example": "src=64 512"}, r".*\b64\b"), ({"feature": "wings"}, "no machine has wings")],
)
def test_why_no_example_is_legal_is_printed(change, why, monkeypatch, capsys):
    one = replace(INSTRUCTIONS["tensor_copy"], **change)
    monkeypatch.setitem(INSTRUCTIONS, one.name, one)
    assert main(["isa", one.name]) == 0
    printed = capsys.readouterr().out
    assert re.search(rf"^example   no legal example: {why}", printed, re.M)
    assert "busy for" not in printed


@pytest.mark.parametrize("name", sorted(INSTRUCTIONS))
def test_sentences_are_wrapped(name, capsys):
    main(["isa", name])
    rules = capsys.readouterr().out.partition("\nrules ")[2].partition("\ncost ")[0]
    assert max(map(len, rules.splitlines()), default=0) <= 100


def test_no_instruction_is_named_outside_the_set_and_the_dialects():
    """Code that names instructions is a list that nobody extends. Facts that it needs belong in
    fields of the clause."""
    names = "|".join(sorted(INSTRUCTIONS.keys() - ALSO_WORDS, key=len, reverse=True))
    quoted = re.compile(rf"""["'](?:{names})["']""")
    found = [
        f"{path.relative_to(ROOT)}:{number}: {line.strip()}"
        for path in sorted(ROOT.rglob("*.py"))
        if path.relative_to(ROOT).parts[0] not in NAMED_IN
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if quoted.search(line)
    ]
    assert not found


@pytest.mark.parametrize("word", sorted(ALSO_WORDS))
def test_instruction_names_that_are_also_words_are_never_compared_with(word):
    compared = re.compile(rf"""name\s*(?:==|!=|in)\s*[^\n]*["']{word}["']""")
    for path in ROOT.rglob("*.py"):
        if path.relative_to(ROOT).parts[0] not in NAMED_IN:
            assert not compared.search(path.read_text()), path
