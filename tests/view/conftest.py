"""What the tests of the page share: a browser, and a run to look at."""

import pytest
import tabs
import viewed


@pytest.fixture(scope="session")
def chromium():
    with tabs.browser() as opened:
        yield opened


@pytest.fixture(scope="session")
def run():
    return viewed.run()
