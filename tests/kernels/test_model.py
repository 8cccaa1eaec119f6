"""The small model of chapter 11, with fewer tokens, layers and hidden features."""

import importlib

import pytest

import neuroncore

chapter = importlib.import_module("neuroncore.kernels.ch11_model")


@pytest.fixture
def small(monkeypatch):
    for name, value in {"TOKENS": 256, "LAYERS": 1, "HIDDEN": 1024}.items():
        monkeypatch.setattr(chapter, name, value)


def test_the_model_agrees_with_numpy_on_one_core(small):
    run = neuroncore.run(chapter.late, *chapter.inputs())
    assert run.compare(chapter.reference) and not [
        one for one in run.findings if one.severity in ("error", "warning")
    ]


def test_each_of_eight_ranks_has_its_columns_of_the_logits(small):
    given = [chapter.rank_inputs(rank) for rank in range(chapter.RANKS)]
    run = neuroncore.run(chapter.early, per_rank=given)
    assert len(run.collectives) == 4
    for rank, one in enumerate(run.ranks):
        want = chapter.rank_reference(*given[rank], rank=rank)
        assert one.compare([want], 1e-5)
