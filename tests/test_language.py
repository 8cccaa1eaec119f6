"""Plain English: words and sentence openings that make a reader stop, with the better word.

All pages, docstrings, messages and names of tests are checked, except UNCHECKED."""

import ast
import re
import tomllib
from pathlib import Path

import parsed
import pytest
from every import for_all

pytestmark = pytest.mark.source

ROOT = Path(__file__).parents[1]

FOLDERS = ("neuroncore", "isa", "kernels", "bench", "docs", "tests", ".ci")
UNCHECKED = {  # a file or folder, and the reason
    "tests/test_language.py": "it lists the words",
    "docs/calibration.md": "its tables have file names of others; its generator is checked",
    "docs/_build": "built from other files",
    "docs/learn": "built from other files",
    "docs/reference": "built from other files",
    "neuroncore/site": "built from other files",
}
PLACES = sorted(
    str(path.relative_to(ROOT))
    for path in [*ROOT.glob("*.md"), *(p for name in FOLDERS for p in (ROOT / name).iterdir())]
    if path.name != "__pycache__"
)

OPENINGS = {  # the first words of a sentence, and a better way to begin it
    r"What (?!if\b)(?!.*\?)": "name the thing: 'The value that ...', 'Costs of ...'",
    r"Whether": "a predicate: 'Return whether ...' or 'True if ...'",
    r"(Of (?!(the |a list of )?[\d,]+ )|As of)": "begin with the subject",
    r"(That|Those|The same) (of|as|for)\b": "repeat the noun",
    r"The same\b(?! \w)": "repeat the noun",
    r"(Who|Whom|Whose)\b(?!.*\?)": "'The core that ...', 'The user of ...'",
    r"Told": "'Reported ...'",
    r"Nor\b": "'It also does not ...'",
    r"Beside": "'In addition to ...'",
    r"So (many|much|long|far)\b": "'This many ...'",
    r"How (many|much|long|far|often)\b(?!.*\?)": "'Return how many ...', 'The number of ...'",
    r"Which (?!of\b)(?!.*\?)": "'Return which ...', 'The lines that ...'",
}
WORDS = {  # in any place of a sentence
    r"told|retold": "reported, printed, shown",
    r"(is|are|was|were|be|been) said": "reports, states; name what says it",
    r"tell (one|it|them) apart": "distinguish",
    r"beside": "next to, in addition to, with",
    r"(of|to) (theirs|ours|yours|hers|mine)": "their, our, your",
    r"(is|are) (ours|theirs|yours)": "neuroncore's",
    r"of (its|their|his|her|our|my|your|one's) own": "its own ..., separate",
    r"(held|holds|hold) (against|beside)": "compared with",
    r"makes? of (it|them|that|a|an|the)\b": "does with",
    r"(stands?|stood) (in|at|for|here|there|below|above|before|after|beside)": "is in, follows",
    r"(lies?|lay|lying) (in|at|on|alike|there)": "is in, is at",
    r"goes by": "uses, follows",
    r"as of a": "such as",
    r"(what|whom|who) there (is|are)": "the ... that exist",
    r"in the place of": "instead of, in place of",
    r"in doubt": "uncertain, low confidence",
    r"no one (resource|of)": "no single, none of",
    r"is no (number|ring|grid|sum|sandbox|difference|kernel|tile|name|error)": "is not a",
    r"nothing has (written|wrote|read)": "uninitialized; was never written or read",
    r"(nothing|little|much) is known of": "unknown",
    r"anew": "again",
    r"whoever|whosoever": "the one that",
    r"hence|thereof|therein|whereof|whereby|wherein|thereby|thereupon|albeit|whilst": "plain words",
    r"ere|lest|nought|naught|aught": "plain words",
    r"may be had|to be had": "is available",
    r"for want of": "because there is no",
    r"(one|ones) of (its|their|his) (kind|sort)": "similar",
    r"as it is$": "unchanged",
    r"turn and turn about": "alternately",
    r"let go": "released, freed",
    r"the field's": "the usual",
    r"come(s)? by": "gets",
}
BRITISH = {
    r"\w*(colour|behaviour|neighbour|favour|honour|flavour)\w*": "-or",
    r"(initialis|serialis|optimis|recognis|parametris|organis|normalis|vectoris|summaris|generalis"
    r"|minimis|maximis|characteris|synchronis|realis|specialis|utilis|uninitialis|quantis|tokenis"
    r"|localis|canonicalis|materialis|linearis|randomis|categoris|prioritis)\w+": "-ize",
    r"(analys|catalys)(e|ed|ing)": "-yze",
    r"(centre|metre|fibre)s?": "-er",
    r"(cancell|modell|labell|travell|signall|channell)(ed|ing)": "one l",
    r"(grey|artefact|learnt|spelt|misspelt|dreamt|maths|catalogue|licence)s?": "American spelling",
}
CODE = re.compile(r"^```.*?^```|^ {3,}```.*?^ {3,}```|`[^`]*`|<!--.*?-->", re.DOTALL | re.MULTILINE)
LINK = re.compile(r"\]\([^)]*\)|https?://\S+")
SENTENCE = re.compile(
    r"(?:^|(?<=[.!?:;] )|(?<=[.!?]\n))[\s*#>|\-\d.]*(?:\*\*)?(?=\w)", re.MULTILINE
)


BETTER = WORDS | BRITISH
ANY_WORD = re.compile(rf"\b(?:{'|'.join(BETTER)})\b", re.IGNORECASE)
ANY_OPENING = re.compile(rf"(?:{'|'.join(OPENINGS)})\b")


def faults(text):
    """Each word or opening that the lists name, with the better one."""
    for match in ANY_WORD.finditer(text):
        word = match.group()
        betters = [b for p, b in BETTER.items() if re.fullmatch(p, word, re.IGNORECASE)]
        yield f"{word!r}: {betters[0]}"
    for sentence in filter(ANY_OPENING.match, sentences(text)):
        betters = [b for p, b in OPENINGS.items() if re.match(rf"(?:{p})\b", sentence)]
        yield f"{sentence[:50]!r}: {betters[0]}"


def sentences(text):
    for part in re.split(r"(?<=[.!?:])\s+|\n\n+|\n\s*[*|-]\s|\s\|\s", text):
        yield part.lstrip(" \n*|->").lstrip()


def prose(page):
    """The sentences of a Markdown page, without code, links and headings."""
    text = LINK.sub("]", CODE.sub("code", page))
    return re.sub(r"^#.*$", "", text, flags=re.MULTILINE)


def strings(file):
    """Docstrings and messages (constants of three words or more), and names of tests."""
    for node in parsed.nodes(file):
        if isinstance(node, ast.Constant):
            if isinstance(node.value, str) and node.value.count(" ") > 1:
                yield node.value
        elif isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
            yield node.name.removeprefix("test_").replace("_", " ").capitalize()


def of_table(value):
    """The strings of a table of facts or codes."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for each in value.values() if isinstance(value, dict) else value:
            yield from of_table(each)


def of_script(text):
    """Comments and strings of a script."""
    pattern = r"//[^\n]*|/\*.*?\*/|\"(?:[^\"\\\n]|\\.)*\"|`(?:[^`\\]|\\.)*`"
    found = re.findall(pattern, text, re.DOTALL)
    plain = (re.sub(r"\$\{[^}]*\}", "X", each).strip('/*<>`" ') for each in found)
    return [each for each in plain if each.count(" ") > 1]


def of_markup(text):
    """Texts and titles of a page."""
    return re.findall(r">([^<>]*\w[^<>]*)<|(?:title|placeholder)=\"([^\"]*)\"", text)


def files(name):
    """The files of a place, without those in UNCHECKED."""
    place = ROOT / name
    kinds = (".md", ".py", ".toml", ".js", ".html")
    for file in [place] if place.is_file() else place.rglob("*"):
        parts = [file, *file.parents]
        if file.suffix in kinds and not any(ROOT / path in parts for path in UNCHECKED):
            yield file


def texts(file):
    if file.suffix == ".py":
        return map(without_code, strings(file))
    text = file.read_text("utf-8")
    if file.suffix == ".md":
        return [prose(text)]
    if file.suffix == ".toml":
        return map(without_code, of_table(tomllib.loads(text)))
    if file.suffix == ".html":
        return [part for pair in of_markup(text) for part in pair]
    return map(without_code, of_script(text))


def without_code(text):
    return LINK.sub("]", CODE.sub("code", text))


@pytest.mark.parametrize("place", PLACES)
def test_texts_are_in_plain_english(place):
    found = [
        f"{file.relative_to(ROOT)}: {fault}"
        for file in files(place)
        for text in texts(file)
        for fault in faults(text)
    ]
    assert found == []


@for_all(
    "text",
    [
        "What a tile holds.",
        "Those of the windows of a run.",
        "It is told once for a line.",
        "Computes in float64 beside the kernel.",
        "The behaviour of a loop.",
        "It runs. Of each line the first call is kept.",
    ],
)
def test_a_sentence_that_stops_a_reader_is_found(text):
    assert [*faults(text)]


@pytest.mark.parametrize(
    "text",
    [
        "Return whether a tile is in SBUF.",
        "The bytes of the windows of a run.",
        "What does a code mean?",
        "Each finding is reported once per line.",
        "A list of what the kernel writes.",
    ],
)
def test_a_plain_sentence_passes(text):
    assert not [*faults(text)]
