"""What the tests of the page share: a browser, and a run to look at."""

import pytest
import viewed


@pytest.fixture(scope="module")
def chromium():
    with viewed.browser() as opened:
        yield opened


@pytest.fixture(scope="module")
def run():
    return viewed.run()
