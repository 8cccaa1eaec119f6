"""A page with a server, which replays the record to answer requests for values.

The server listens only to this machine. Because pages of other sites can reach a local port too, a
request must name the server correctly (`Host`) and know its token, which is in every address."""

from __future__ import annotations

import json
import secrets
import threading
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple
from urllib.parse import parse_qs

from neuroncore.base.errors import NeuronError, UsageError
from neuroncore.view import elements as values
from neuroncore.view.document import USUAL, Opening, PageWindow, Shown
from neuroncore.view.page import FRAME_HEIGHT, page

ADDRESS = "127.0.0.1"
HEADERS = {
    "Cache-Control": "no-store",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}


class Answer(NamedTuple):
    """The answer to a request."""

    status: HTTPStatus
    kind: str
    text: str


class Server:
    """A server for the page of launches on a port of 127.0.0.1 (0: any free port), until it is
    closed. A notebook displays the page. Raises UsageError for a port that is in use or not
    valid."""

    def __init__(self, launches: Sequence[Shown], port: int = 0, opening: Opening = USUAL) -> None:
        self.launches, self._opening = launches, opening
        self._token = secrets.token_urlsafe(16)
        self._one_by_one = threading.Lock()  # a replay can be at one step only
        self._steps: dict[int, values.Steps] = {}
        self._cores = [
            (n, core) for n, launch in enumerate(launches) for core in range(len(launch.timelines))
        ]
        try:
            self._http = ThreadingHTTPServer((ADDRESS, port), self._handler())
        except (OSError, OverflowError) as error:
            reason = getattr(error, "strerror", "ports end at 65535")
            raise UsageError(f"port {port} can't be served: {reason}") from None
        self._http.daemon_threads = True
        threading.Thread(target=self._http.serve_forever, daemon=True).start()

    @property
    def host(self) -> str:
        return f"{ADDRESS}:{self._http.server_port}"

    @property
    def url(self) -> str:
        """Return the address of the page."""
        return f"http://{self.host}/{self._token}/"

    def close(self) -> None:
        """Stop the server."""
        self._http.shutdown()
        self._http.server_close()

    def _repr_html_(self) -> str:
        frame = f'<iframe src="{self.url}" width="100%" height="{FRAME_HEIGHT}" style="border:0">'
        return f'{frame}</iframe><div><a href="{self.url}" target="_blank">{self.url}</a></div>'

    def __repr__(self) -> str:
        return f"<Server of a page at {self.url}>"

    def answer(self, target: str, host: str | None) -> Answer:
        """Return the answer to a request. `target` is the path and the query of its address, and
        `host` its header Host."""
        path, _, query = target.partition("?")
        token_path, requested = f"/{self._token}/".encode(), path.encode()
        if host != self.host or not secrets.compare_digest(
            requested[: len(token_path)], token_path
        ):
            return Answer(HTTPStatus.FORBIDDEN, "text/plain", "")
        handler = {"": self._page, "values": self._values}.get(path[len(token_path) :])
        if handler is None:
            return Answer(HTTPStatus.NOT_FOUND, "text/plain", "")
        try:
            return handler({name: texts[-1] for name, texts in parse_qs(query).items()})
        except NeuronError as error:
            return _refused(str(error))
        except (KeyError, ValueError):
            return _refused(f"unknown request {target}")

    def _page(self, query: dict[str, str]) -> Answer:
        launches = self.launches
        if "window" in query:
            first, last = map(int, query["window"].split(":"))
            launches = [replace(launch, window=PageWindow(first, last)) for launch in launches]
        return Answer(HTTPStatus.OK, "text/html", page(launches, self._opening, served=True).html)

    def _values(self, query: dict[str, str]) -> Answer:
        """Return the contents of an instruction's operands. `query` contains the number of the
        instruction (`step`) and of its core. Cores are numbered as on the page."""
        number, core = self._cores[_natural(query["core"], len(self._cores))]
        launch = self.launches[number]
        program = launch.timelines[core].program
        instruction = _natural(query["step"], len(program))
        if launch.steps is None:
            raise UsageError("the page was requested without values")
        with self._one_by_one:
            if number not in self._steps:
                self._steps[number] = launch.steps()
            contents = values.step(program, self._steps[number], core, instruction)
        return Answer(
            HTTPStatus.OK, "application/json", json.dumps(contents, separators=(",", ":"))
        )

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        server = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                answer = server.answer(self.path, self.headers["Host"])
                content = answer.text.encode()
                self.send_response(answer.status)
                for name, value in HEADERS.items():
                    self.send_header(name, value)
                self.send_header("Content-Type", f"{answer.kind}; charset=utf-8")
                self.send_header("Content-Length", str(len(content)))
                with suppress(ConnectionError):  # the client may have gone, such as after a reload
                    self.end_headers()
                    self.wfile.write(content)

            def log_message(self, format: str, *args: Any) -> None:
                """Log nothing: the terminal belongs to the user."""

        return Handler


def _natural(text: str, below: int) -> int:
    """Return a number from 0 to less than `below`. Raises ValueError for other values."""
    number = int(text)
    if not 0 <= number < below:
        raise ValueError(text)
    return number


def _refused(reason: str) -> Answer:
    return Answer(HTTPStatus.BAD_REQUEST, "application/json", json.dumps({"reason": reason}))
