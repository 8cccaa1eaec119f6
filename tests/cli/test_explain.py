"""`neuroncore explain`: every error has a page, and every example does what its page states."""

import ast
import re
from pathlib import Path

import parsed
import pytest
from every import for_all

import neuroncore
from neuroncore.base import errors
from neuroncore.base.errors import KernelError
from neuroncore.base.findings import rules
from neuroncore.cli import main
from neuroncore.cli.explain import LEGAL, codes, pages
from neuroncore.frontend.launch import NeuronWarning

PAGES = pages()
# The names that the vendor's page nki.errors of SDK 2.26 lists.
NAMES = (Path(__file__).parents[1] / "data/errors_older.txt").read_text().split()

ROOT = Path(neuroncore.__file__).parent
# Codes of refusals are text in capitals in the room that judges candidates.
REFUSALS = set(
    re.findall(r"^## ([A-Z_]+)$", (ROOT / "cli/explanations/evaluation.md").read_text(), re.M)
)
SYMPTOM = re.compile(r"\b(?:NCC_|NLA|TEN|GCA)[A-Z]*\d+")
REFUSED = [name for name, page in PAGES.items() if page.bad and not page.severity]
RUNS = [name for name, page in PAGES.items() if page.good]
# Legal here: a slice next to an index expression has a clear meaning, and published kernels
# write it; Python doesn't evaluate the annotations of local variables.
NOT_REFUSED = {
    "err_annotation_shape_mismatch",
    "err_unsupported_mixing_basic_advanced_tensor_indexing",
}


def ran(script, folder):
    """Write a script to a file, run it, and return the file."""
    path = folder / "example.py"
    path.write_text(script, encoding="utf-8")
    exec(compile(script, str(path), "exec"), {"__name__": "example"})
    return path


def test_every_code_and_every_name_of_the_vendor_has_a_page():
    assert set(PAGES) == codes() | set(NAMES) | set(rules()) | REFUSALS
    assert len(NAMES) == 36


def test_the_vendor_s_names_are_refused_except_two_with_reasons():
    assert {name for name, page in PAGES.items() if page.code == LEGAL} == NOT_REFUSED
    assert set(NAMES) - NOT_REFUSED <= set(REFUSED)


TOLD = {"UNINIT_READ", "OUTPUT_NOT_WRITTEN"}
LATER_TOLD = {"HBM_FILL", "LOOP_CARRIED"}  # later releases of the vendor refuse them


@pytest.mark.parametrize("name", REFUSED)
def test_a_bad_example_is_refused_by_that_name(name, tmp_path):
    page = PAGES[name]
    if name in TOLD or page.code in LATER_TOLD:
        with pytest.raises(NeuronWarning, match=rf"warning\[{page.code}\]"):
            ran(page.bad, tmp_path)
        return
    with pytest.raises(KernelError) as caught:
        ran(page.bad, tmp_path)
    assert caught.value.code == page.code
    assert caught.value.place.file == str(tmp_path / "example.py")
    if name != page.code:
        assert caught.value.also == name


@pytest.mark.parametrize("name", RUNS)
def test_a_good_example_runs(name, tmp_path):
    assert ran(PAGES[name].good, tmp_path).exists()


@for_all("name", REFUSED)
def test_the_pair_differs_by_few_lines(name):
    signs = [line[0] for line in PAGES[name].diff.splitlines() if line]
    assert 1 <= len(signs) - signs.count(" ") <= 6


def test_the_command_prints_a_page(capsys):
    assert main(["explain", "err_1d_arange_not_supported"]) == 0
    printed = capsys.readouterr().out
    assert printed.startswith("err_1d_arange_not_supported  (SHAPE_MISMATCH)\n")
    assert "    -    i = nl.arange(64)\n    +    i = nl.arange(64)[:, None]\n" in printed
    assert "    import neuronxcc.nki as nki\n".replace("    ", "     ") in printed


def test_a_code_leads_to_the_vendor_s_names(capsys):
    assert main(["explain", "IMMUTABLE"]) == 0
    assert "err_cannot_update_immutable_parameter" in capsys.readouterr().out


def test_the_page_of_legal_code_states_that_it_is_legal(capsys):
    assert main(["explain", "err_annotation_shape_mismatch"]) == 0
    printed = capsys.readouterr().out
    assert "(legal here)" in printed and "\nThis kernel runs:\n" in printed


@pytest.mark.parametrize(
    ("symptom", "code"),
    [("GCA035", "CAPACITY"), ("TEN404", "START_PARTITION"), ("NLA001", "PSUM_BANK")],
)
def test_a_message_of_the_device_leads_to_a_page(symptom, code, capsys):
    assert main(["explain", symptom]) == 0
    assert f"{code}\n" in capsys.readouterr().out


def test_a_code_with_two_causes_leads_to_both_pages(capsys):
    assert main(["explain", "NCC_INKI016"]) == 0
    printed = capsys.readouterr().out
    assert "BUFFER_KIND\n" in printed and "UNSUPPORTED_OP_COMBO\n" in printed


def symptoms_of(file):
    """The codes of AWS's tools that the errors of a file name, each with the class of the error."""
    if "also=" not in file.read_text("utf-8"):
        return  # parsing takes longer
    for call in (node for node in parsed.nodes(file) if isinstance(node, ast.Call)):
        for also in [word.value for word in call.keywords if word.arg == "also"]:
            named = {
                getattr(part, "id", getattr(part, "attr", "")) for part in [call.func, *call.args]
            }
            kinds = {"TargetError"} if "needs" in named else named & set(vars(errors))
            yield from (
                (kind, code) for kind in kinds for code in SYMPTOM.findall(ast.unparse(also))
            )


def test_the_page_of_an_error_has_the_codes_that_its_messages_name():
    files = [file for room in ("neuroncore", "isa") for file in (ROOT.parent / room).rglob("*.py")]
    found = {pair for file in files for pair in symptoms_of(file)}
    assert len(found) >= 9
    for kind, code in found:
        page = PAGES[getattr(errors, kind).code]
        assert code in page.symptoms, f"the page {page.name} does not have {code}"


def test_without_a_name_the_command_lists_all_names(capsys):
    assert main(["explain"]) == 0
    listed = [line.partition(" ")[0] for line in capsys.readouterr().out.splitlines()]
    assert set(listed) == set(PAGES)


def test_a_misspelled_name_is_wrong_usage(capsys):
    assert main(["explain", "err_1d_arrange_not_supported"]) == 2
    assert "did you mean 'err_1d_arange_not_supported'?" in capsys.readouterr().err


def test_every_refusal_of_a_candidate_has_a_page_and_occurs():
    texts = [file.read_text() for file in (ROOT / "eval").glob("*.py")]
    raised = {code for text in texts for code in re.findall(r'Refused\(\s*"([A-Z_]+)"', text)}
    assert raised <= REFUSALS | set(rules())
    assert all(any(f'"{code}"' in text for text in texts) for code in REFUSALS)
