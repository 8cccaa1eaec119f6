"""What docs/ says is what the code says."""

from accepted import make_instructions


def test_the_table_of_instructions_and_formats_is_current():
    page = make_instructions.PAGE.read_text()
    assert make_instructions.page() == page, "run docs/make_instructions.py"
