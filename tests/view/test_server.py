"""A page with a server: its answers, and who may request them."""

import json
import zlib
from base64 import b64decode
from contextlib import contextmanager
from http import HTTPStatus
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import numpy as np
import pytest
import viewed

from neuroncore.base.errors import UsageError
from neuroncore.numerics.formats import lookup
from neuroncore.view.page import Page


@pytest.fixture(scope="module")
def server(run):
    served = run.serve()
    yield served
    served.close()


def asked(server, rest, host=None):
    with urlopen(Request(server.url + rest, headers={"Host": host} if host else {})) as answer:
        return answer.read().decode()


@contextmanager
def refused(status):
    with pytest.raises(HTTPError) as found:
        yield
    with found.value as answer:
        assert answer.code == status
        assert b"<" not in answer.read()  # not a page


@pytest.mark.parametrize("step", [7, 2, 19])  # also backwards
def test_values_of_a_step_agree_with_the_run(server, run, step):
    found = json.loads(asked(server, f"values?core=0&step={step}"))
    rows = run.timelines[0].program
    call = rows.calls[rows.columns().call[step]]
    names = [*call.reads, *call.writes]
    assert len(found["of_operand"]) == len(names)
    for name, number in zip(names, found["of_operand"]):
        tile = found["tiles"][number - 1]
        held = run.tile(step, name, after=name in call.writes)
        content = zlib.decompress(b64decode(tile["data"]))
        got = np.frombuffer(content, lookup(tile["format"]).numpy).reshape(tile["shape"])
        np.testing.assert_array_equal(got, held.elements.reshape(got.shape))


def test_a_served_page_has_the_requested_window(server):
    made = viewed.document(Page(asked(server, "?window=5:10")))
    assert made["served"] and (made["cores"][0]["first"], made["cores"][0]["count"]) == (5, 5)
    whole = viewed.document(Page(asked(server, "")))
    assert (whole["cores"][0]["first"], whole["cores"][0]["count"]) == (0, 20)


def test_only_a_served_page_may_request_values(server, run):
    assert "connect-src 'self'" in asked(server, "") and "connect-src" not in run.view().html


@pytest.mark.parametrize(
    ("rest", "status"),
    [
        ("values?core=0&step=20", HTTPStatus.BAD_REQUEST),
        ("values?core=1&step=0", HTTPStatus.BAD_REQUEST),
        ("values?core=0", HTTPStatus.BAD_REQUEST),
        ("?window=9", HTTPStatus.BAD_REQUEST),
        ("?window=30:40", HTTPStatus.BAD_REQUEST),
        ("../../etc/passwd", HTTPStatus.NOT_FOUND),
    ],
)
def test_invalid_requests_are_refused(server, rest, status):
    with refused(status):
        asked(server, rest)


def test_requests_without_the_token_or_with_another_host_get_nothing(server):
    assert asked(server, "", server.host)
    for target, host in (
        (server.url, "evil.example"),
        (f"http://{server.host}/", server.host),
        (f"http://{server.host}/guess/values?core=0&step=0", server.host),
    ):
        with refused(HTTPStatus.FORBIDDEN):
            urlopen(Request(target, headers={"Host": host}))


@pytest.mark.parametrize("target", ["*", "", "/", "http://[", "/\xff/"])
def test_invalid_addresses_are_refused_without_a_message(server, target):
    assert server.answer(target, server.host).status == HTTPStatus.FORBIDDEN


def test_a_port_that_is_taken_is_refused(server, run):
    with pytest.raises(UsageError, match="can't be served"):
        run.serve(port=int(server.host.split(":")[1]))
    with pytest.raises(UsageError, match="port 65536 can't be served: ports end at 65535"):
        run.serve(port=65536)


def test_a_notebook_shows_the_page_and_its_address(server):
    assert f'src="{server.url}"' in server._repr_html_() and server.url in repr(server)
