"""Saved runs: the contents of the files, their sizes, and refusals."""

import gzip
import json
from pathlib import Path

import nki.isa as nisa
import nki.language as nl
import numpy as np
import pytest

from neuroncore.base.errors import UsageError
from neuroncore.base.options import Options
from neuroncore.frontend.launch import launch
from neuroncore.frontend.nki.tensor import NkiTensor
from neuroncore.report import perfetto, saved
from neuroncore.report.summary import bound_by, figures
from neuroncore.time.schedule import schedule


def double(x, times=1):
    out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
    for _ in range(times):
        tile = nl.load(x)
        nl.store(out, nl.multiply(tile, 2.0))
    return out


X = np.ones((3, 5), np.float32)


def run(kernel=double, *args, **options):
    return launch(kernel, (X, *args), tensor=NkiTensor, target="trn2", **options)


def timeline(finished):
    return schedule(finished.core.program, finished.machine)


@pytest.fixture
def files(tmp_path):
    neff, ntff = tmp_path / "x.neff", tmp_path / "x.ntff"
    saved.save(run(), neff, ntff)
    return neff, ntff


# --- contents -------------------------------------------------------------------------------------


def test_the_two_files_are_of_one_run(files):
    neff, ntff = saved.read(files[0], "neff"), saved.read(files[1], "ntff")
    assert neff["id"] == ntff["id"] and neff["profile"] == ntff["profile"]
    assert (ntff["kernel"], ntff["target"]) == ("double", "trn2")


def test_the_files_are_json_that_any_program_can_read(files):
    for file, name in zip(files, ("neff", "ntff")):
        document = json.loads(gzip.decompress(file.read_bytes()))
        assert document["format"] == f"neuroncore.{name}/1"


def test_the_profile_is_the_figures_and_the_timeline_of_the_run(files):
    profile = saved.read(files[1], "ntff")["profile"]
    line = timeline(run())
    assert profile["cores"] == [{"core": 0, "figures": {**figures(line), **bound_by(line)}}]
    assert profile["instructions"] == 3
    assert profile["trace"] == [*perfetto.events([line])]


def test_instructions_are_counted_by_engine(tmp_path):
    saved.save(run(double, 7), tmp_path / "x.neff", None)
    rows = saved.read(tmp_path / "x.neff", "neff")["instructions"]
    found = {(row["engine"], row["opcode"], row["name"]): row["count"] for row in rows}
    assert found == {
        ("Vector", "TENSOR_SCALAR", "tensor_scalar"): 7,
        ("DMA ring 1", "DMA_DIRECT2D", "dma_copy"): 7,
        ("DMA ring 2", "DMA_DIRECT2D", "dma_copy"): 7,
    }
    assert all(row["instruction_time"] > 0 for row in rows)


def test_lines_are_counted_with_their_text(tmp_path):
    saved.save(run(double, 7), tmp_path / "x.neff", None)
    lines = saved.read(tmp_path / "x.neff", "neff")["lines"]
    first = double.__code__.co_firstlineno
    assert {row["place"]: (row["count"], row["text"]) for row in lines} == {
        f"{__file__}:{first + 3}": (7, "tile = nl.load(x)"),
        f"{__file__}:{first + 4}": (14, "nl.store(out, nl.multiply(tile, 2.0))"),
    }
    assert [row["instruction_time"] for row in lines] == sorted(
        (row["instruction_time"] for row in lines), reverse=True
    )


def test_equal_runs_give_equal_bytes_and_different_runs_different_names(tmp_path):
    paths = [tmp_path / name for name in "abc"]
    for path, times in zip(paths, (1, 1, 2)):
        saved.save(run(double, times), path, None)
    assert paths[0].read_bytes() == paths[1].read_bytes()
    assert saved.read(paths[0], "neff")["id"] != saved.read(paths[2], "neff")["id"]


def on_two_cores(x):
    """The second core has more work."""
    out = nl.ndarray((2, *x.shape), x.dtype, buffer=nl.shared_hbm)
    for _ in range(1 + 3 * nl.program_id(0)):
        nl.store(out[nl.program_id(0)], nl.load(x))
    return out


def test_every_core_has_its_figures_and_the_slowest_comes_first(tmp_path):
    saved.save(run(on_two_cores, grid=(2,)), tmp_path / "x.neff", None)
    document = saved.read(tmp_path / "x.neff", "neff")
    found = saved.summaries(document)
    assert [*found] == [f"{document['id']}_nc1", f"{document['id']}_nc0"]
    assert [fields["dma_transfer_count"] for fields in found.values()] == [8, 2]
    first, second = (fields["total_time"] for fields in found.values())
    assert first > second
    assert [(row["core"], row["count"]) for row in document["instructions"]] == [
        *((0, 1), (0, 1), (1, 4), (1, 4))
    ]


def test_a_summary_is_named_after_the_run_and_marked_as_an_estimate(files):
    document = saved.read(files[1], "ntff")
    ((name, fields),) = saved.summaries(document).items()
    assert name == document["id"] and name.startswith("n_") and len(name) == 42
    assert fields["is_simulation"] is True and "estimates" in fields["neuroncore_estimate"]
    assert fields["kernel"] == "double" and fields["total_time"] > 0
    assert not any(isinstance(value, dict | list) for value in fields.values())


# --- how they are written -------------------------------------------------------------------------


def test_only_requested_files_are_written(tmp_path):
    saved.save(run(), None, None)
    assert [*tmp_path.iterdir()] == []
    saved.save(run(), None, tmp_path / "new" / "folder" / "x.ntff")
    assert [p.name for p in tmp_path.rglob("*.*")] == ["x.ntff"]


def many(x, count):
    tile = nl.load(x)
    for _ in range(count):
        nisa.tensor_copy(tile, tile)
    return x


def test_files_stay_small_and_without_a_timeline_where_it_would_be_long(tmp_path):
    neff = tmp_path / "x.neff"
    saved.save(run(many, saved.TRACED), neff, None)
    profile = saved.read(neff, "neff")["profile"]
    assert profile["instructions"] == saved.TRACED + 1 and profile["trace"] is None
    assert neff.stat().st_size < 10_000
    saved.save(run(many, 2000), neff, None)
    assert saved.read(neff, "neff")["profile"]["trace"] is not None
    assert neff.stat().st_size < 100_000


def test_lines_are_bounded_and_the_longest_are_kept(tmp_path, monkeypatch):
    monkeypatch.setattr(saved, "LINES", 1)
    saved.save(run(), tmp_path / "x.neff", None)
    document = saved.read(tmp_path / "x.neff", "neff")
    assert len(document["lines"]) == 1 and document["lines_left_out"] == 1


@pytest.mark.parametrize(
    ("executions", "nth", "names"),
    [
        (1, 1, ["p.ntff"]),
        (3, 1, ["p.ntff", "p_exec_2.ntff", "p_exec_3.ntff"]),
        (20, 10, ["p_exec_10.ntff", "p_exec_20.ntff"]),
        (1, 2, ["p_exec_2.ntff"]),
        (3, 3, ["p_exec_3.ntff"]),
    ],
)
def test_a_capture_has_the_names_of_the_vendors(files, executions, nth, names):
    """The documentation's, nki-samples' and nki-library's."""
    folder = files[0].parent
    made = saved.capture(files[0], folder / "p.ntff", executions, nth)
    assert made == [folder / name for name in names]
    assert all(path.read_bytes() == files[1].read_bytes() for path in made)


# --- what is refused ------------------------------------------------------------------------------

NEFFS = {  # other files
    "of the device": bytes([2, 0, 0, 0]) * 300,
    "an archive": gzip.compress(b"\0" * 100),
    "JSON": b"{}",
    "other JSON": gzip.compress(b'{"format": ["x"]}'),
    "a number": gzip.compress(b"1"),
    "nothing": b"",
    "cut off": gzip.compress(b"{}")[:-9],
}


@pytest.mark.parametrize("name", [name for name in NEFFS if name != "other JSON"])
def test_other_files_are_refused_as_saved_runs(name, tmp_path):
    (tmp_path / "x.neff").write_bytes(NEFFS[name])
    with pytest.raises(
        UsageError, match=r"x\.neff was not written by neuroncore.*`neuroncore neff"
    ):
        saved.read(tmp_path / "x.neff", "neff")


def test_files_of_another_version_are_refused(tmp_path):
    (tmp_path / "x.neff").write_bytes(gzip.compress(b'{"format": "neuroncore.neff/2"}'))
    with pytest.raises(UsageError, match=r"neuroncore\.neff/2.*neuroncore\.neff/1.*again"):
        saved.read(tmp_path / "x.neff", "neff")
    (tmp_path / "x.neff").write_bytes(NEFFS["other JSON"])
    with pytest.raises(UsageError, match="format"):
        saved.read(tmp_path / "x.neff", "neff")


@pytest.mark.parametrize("field", [*saved.FIELDS, *saved.MORE])
def test_files_without_a_field_are_damaged(files, field):
    document = saved.read(files[0], "neff")
    for left in ({k: v for k, v in document.items() if k != field}, {**document, field: None}):
        files[0].write_bytes(gzip.compress(json.dumps(left).encode()))
        with pytest.raises(UsageError, match="is damaged: run the kernel again"):
            saved.read(files[0], "neff")


def test_the_two_files_cannot_be_exchanged(files):
    for file, kind in zip(files, ("ntff", "neff")):
        with pytest.raises(UsageError, match=f"not the {kind} of a run but its {file.suffix[1:]}"):
            saved.read(file, kind)


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(UsageError, match=r"there is no file .*none\.neff"):
        saved.read(tmp_path / "none.neff", "neff")
    with pytest.raises(UsageError, match="can't be read: Is a directory"):
        saved.read(tmp_path, "neff")
    with pytest.raises(UsageError, match="can't be written: Is a directory"):
        saved.save(run(), tmp_path, None)
    (tmp_path / "file").touch()
    with pytest.raises(UsageError, match="can't be written"):
        saved.save(run(), tmp_path / "file" / "x.neff", None)


def test_a_run_without_a_record_has_nothing_to_save(tmp_path):
    with pytest.raises(UsageError, match="double ran without a record"):
        saved.save(run(options=Options(record=False)), tmp_path / "x.neff", None)
    assert [*Path(tmp_path).iterdir()] == []
