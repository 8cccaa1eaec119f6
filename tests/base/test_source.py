"""The place in the user's kernel where something happened."""

import ast
import linecache
import sys
import threading

import pytest
from every import for_all

from neuroncore.base import source, syntax
from neuroncore.base.source import Place, Sites


def written(tmp_path, text):
    """Write the text to a file that linecache can read, and return its path."""
    path = tmp_path / "mine.py"
    path.write_text(text, encoding="utf-8")
    return str(path)


def call_in(tmp_path, text):
    """The place of the one call of `probe` in the text, found from its bytecode."""
    file = written(tmp_path, text)
    found = []

    def probe(*args, **kwargs):
        frame = sys._getframe(1)
        found.append(source.place(frame.f_code, frame.f_lasti))

    exec(compile(text, file, "exec"), {"probe": probe})
    (place,) = found
    return place


def spanned(text, place):
    """The text that a place spans."""
    lines = text.splitlines()[place.line - 1 : place.end_line]
    lines[-1] = lines[-1][: place.end_column]
    lines[0] = lines[0][place.column :]
    return "\n".join(lines)


TEXTS = [
    "x = probe(1, b=2)\n",
    "x = [probe(1, b=2)]; y = 3\n",
    "é, ü = 1, 'ß→'; x = probe(é, b=ü) or 5\n",
    "if True:\n\tx = probe(1, b=2)\n",
    "x = probe(\n    1,\n    b=2,\n)\n",
    "x = (\n    probe(1,\n        b='→')\n)\n",
    "for i in range(1):\n    probe(i, b=[n for n in range(3)])\n",
]


@pytest.mark.parametrize("text", TEXTS)
def test_a_place_spans_the_call(tmp_path, text):
    place = call_in(tmp_path, text)
    call = spanned(text, place)
    assert call.startswith("probe(") and call.endswith(")")
    assert place.text == text.splitlines()[place.line - 1]
    assert str(place) == f"{place.file}:{place.line}"


@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("name, position", [("a", 0), ("b", 7), ("b", None)])
def test_an_argument_spans_its_value(tmp_path, text, name, position):
    place = call_in(tmp_path, text)
    part = spanned(text, syntax.argument(place, name, position))
    values = {"a": ("1", "é", "i"), "b": ("2", "ü", "'→'", "[n for n in range(3)]")}
    assert part in values[name]


@pytest.mark.parametrize(
    ("text", "name", "position", "part"),
    [
        ("probe(1, 2)", "c", 1, "2"),
        ("probe(1, 2)", "c", 2, "probe(1, 2)"),
        ("probe(1, 2)", "c", None, "probe(1, 2)"),
        ("probe(1, *(2, 3))", "b", 1, "probe(1, *(2, 3))"),
        ("probe(*(1, 2), 3)", "c", 1, "probe(*(1, 2), 3)"),
        ("probe(1, *(2, 3))", "a", 0, "1"),
        ("probe(**{'a': 1})", "a", 0, "probe(**{'a': 1})"),
        ("probe(1, (2,\n    3))", "b", 1, "(2,\n    3)"),
        ("probe(b=2, a=1)", "a", 0, "1"),
    ],
)
def test_an_unlocated_argument_has_the_place_of_the_call(tmp_path, text, name, position, part):
    place = call_in(tmp_path, text)
    assert spanned(text, syntax.argument(place, name, position)) == part


def test_missing_text_is_empty():
    place = Place("<nowhere>", 3, 4, 3, 9, "kernel")
    assert place.text == "" and syntax.argument(place, "a", 0) is place


def test_a_place_that_is_not_a_call_is_unchanged(tmp_path):
    place = Place(written(tmp_path, "x = a[0] + b\n"), 1, 4, 1, 12, "kernel")
    assert syntax.argument(place, "a", 0) == place
    cut = Place(place.file, 1, 4, 1, 7, "kernel")
    assert syntax.argument(cut, "a", 0) == cut


LIVING = []  # modules live as long as the program, and so do their code objects


def frame_of(name):
    """A frame of a module called `name`."""
    scope = {"__name__": name, "sys": sys}
    exec("def frame(): return sys._getframe()", scope)
    LIVING.append(scope)
    return scope["frame"]()


@for_all(
    "name, ours",
    [
        *(("neuroncore.core.core", True), ("neuroncore.frontend.nki.isa", True)),
        *(("neuroncore.isa.vector", True), ("neuroncore.kernels.ch01_copy", False)),
        *(("mine", False), ("neuroncore_extras", False), ("__main__", False), ("nki", False)),
    ],
)
def test_frames_of_the_emulator_are_distinguished_from_frames_of_the_user(name, ours):
    assert source.is_ours(frame_of(name)) is ours
    assert source.is_ours(frame_of(name)) is ours


def through_us(function):
    """Call a function from code that looks like the emulator's."""
    scope = {"__name__": "neuroncore.made_up", "function": function}
    exec("def run(): return function()", scope)
    return scope["run"]


def test_the_frame_of_the_user_is_the_innermost_one_outside_the_emulator():
    me = sys._getframe()
    assert through_us(source.user_frame)() is me
    assert source.user_frame() is me


def test_the_stack_ends_where_the_emulator_called_the_kernel():
    def inner(depth, _hidden=3):
        flag, ratio, text = True, 1.5, "x"
        return source.visits(), flag, ratio, text

    def kernel():
        total = 10
        return inner(total // 5)[0]

    (*where, numbers), (*outside, outer) = through_us(kernel)()
    first, second = source.place(*where), source.place(*outside)
    assert (first.function, numbers) == ("inner", {"depth": 2})
    assert (second.function, outer) == ("kernel", {"total": 10})
    assert first.file == second.file == __file__ and first.line < second.line


@pytest.mark.parametrize("name, at", [("argument", 0), ("other", 1), ("unknown", None)])
def test_the_position_of_a_parameter_is_its_position_in_the_user_s_call(name, at):
    scope = {"__name__": "neuroncore.made_up", "position": source.position, "name": name}
    exec("def run(argument=None, other=None): return position(name)", scope)
    assert scope["run"]() == at


def test_self_does_not_count_as_an_argument():
    scope = {"__name__": "neuroncore.made_up", "position": source.position}
    exec("class Made:\n    def method(self, first, then): return position('then')\n", scope)
    assert scope["Made"]().method(1, 2) == 1


def test_a_thread_keeps_its_place_while_another_resumes_an_instruction():
    frame = sys._getframe()
    elsewhere = []
    thread = threading.Thread(target=lambda: elsewhere.append(source.instruction_of(frame)))
    token = source.resumed.set((frame, 2))
    thread.start()
    thread.join()
    assert source.instruction_of(frame) == 2
    source.resumed.reset(token)
    assert elsewhere != [2] and source.instruction_of(frame) != 2


def test_equal_code_of_two_files_has_two_places():
    text = "def kernel():\n    return call()\n"
    codes = [compile(text, name, "exec").co_consts[0] for name in ("one.py", "two.py")]
    assert codes[0] == codes[1]
    assert [source.place(code, 0).file for code in codes] == ["one.py", "two.py"]


def test_places_of_deleted_code_are_dropped(monkeypatch):
    monkeypatch.setattr(source, "_places", Sites(3))
    for line in range(8):
        code = compile("\n" * line + "call()", "made.py", "exec")
        last = len(code.co_code) - 2  # a bytecode instruction is two bytes
        assert source.place(code, last).line == line + 1
        assert len(source._places) <= 3


def test_a_file_that_is_edited_is_read_again(tmp_path):
    file = tmp_path / "edited.py"
    for text in ("call(one)\n", "call(other, more)\n"):
        file.write_text(text)
        linecache.checkcache(str(file))
        assert ast.unparse(syntax.tree(str(file))) == text.strip()


def test_parsed_files_are_dropped_at_a_limit(monkeypatch):
    monkeypatch.setattr(syntax, "FILES", 3)
    made = []
    lines = syntax.by_text(lambda file: made.append(file))
    for file in ("a", "b", "c", "a", "d", "a", "b"):
        lines(file)
    assert made == ["a", "b", "c", "d", "b"]


def test_deleted_code_of_the_emulator_does_not_hide_code_of_the_user():
    """A new code object can have the address of one that was deleted."""
    text = compile("frame = sys._getframe()", "made.py", "exec").replace
    for line in range(1, 200):
        for name in ("numpy.made", "users"):
            scope = {"__name__": name, "sys": sys}
            exec(text(co_firstlineno=line), scope)
            assert source.is_ours(scope["frame"]) == (name != "users")
            del scope
