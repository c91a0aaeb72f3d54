"""Questions to a bridge over HTTP, and its answers as values."""

from __future__ import annotations

import contextlib
import json
import ssl
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from http.client import HTTPException, HTTPResponse
from pathlib import Path
from typing import Any, Final, TypeVar

from pydantic import BaseModel, TypeAdapter, ValidationError

from vil_bridge.web.client.errors import BridgeUnreachable, RestError, refusal

__all__ = ["Answer", "HttpConnection", "line_of", "path_of", "reason_of", "strange", "value_of"]

_T = TypeVar("_T")
_LONGEST_ANSWER: Final = 64 << 20
_LONGEST_LINE: Final = 16 << 20
_LONGEST_REFUSAL: Final = 1 << 16
_LONGEST_QUOTE: Final = 200
_BLOCK: Final = 1 << 20

Answer = HTTPResponse | urllib.error.HTTPError


def path_of(*parts: str) -> str:
    """A path below the API's root; names may hold any character."""
    return "api/v1/" + "/".join(urllib.parse.quote(part, safe="") for part in parts)


class HttpConnection:
    """Where a bridge is and how it is asked; arguments as of :class:`~vil_bridge.web.client.BridgeApi`."""

    def __init__(self, url: str, token: str | None, ca_file: Path | None, timeout_s: float) -> None:
        self.url = url.rstrip("/") + "/"
        self.headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        self.timeout_s = timeout_s
        self.tls = ssl.create_default_context(cafile=ca_file) if self.url.startswith("https:") else None
        # A bridge is nearby: no proxy stands between.
        handlers: list[urllib.request.BaseHandler] = [urllib.request.ProxyHandler({})]
        if self.tls is not None:
            handlers.append(urllib.request.HTTPSHandler(context=self.tls))
        self._opener = urllib.request.build_opener(*handlers)

    def get(self, kind: type[_T], path: str, **query: object) -> _T:
        """What is there, as a value of a type."""
        with self.open("GET", _asking(path, query)) as answer:
            return value_of(kind, answer)

    def put(self, kind: type[_T], path: str, body: BaseModel | dict[str, Any] | None, method: str = "PUT") -> _T:
        """Change something; the answer as a value of a type."""
        if isinstance(body, BaseModel):
            body = body.model_dump(mode="json", exclude_unset=True)
        with self.open(method, path, body) as answer:
            return value_of(kind, answer)

    def ask(self, method: str, path: str, **query: object) -> bytes:
        """The answer's bytes."""
        with self.open(method, _asking(path, query)) as answer:
            return _bytes_of(answer)

    def save(self, path: str, into: Path, patience_s: float | None = None) -> None:
        """The answer as a file, which takes an older one's place only once it is whole."""
        with self.open("GET", path, patience_s=patience_s) as answer:
            part = into.with_name(f"{into.name}.part")
            try:
                with part.open("wb") as file:
                    got = 0
                    while block := _read(answer, _BLOCK):
                        got += file.write(block)
                _check_whole(answer, got)
                part.replace(into)
            finally:
                part.unlink(missing_ok=True)

    def open(
        self,
        method: str,
        path: str,
        body: dict[str, Any] | None = None,
        also: int = 200,
        patience_s: float | None = None,
    ) -> Answer:
        """The answer, to be read and closed.

        Args:
            method: of HTTP.
            path: relative to the status page.
            body: becomes JSON.
            also: a status of failure whose answer is wanted all the same.
            patience_s: for the next bytes; None = the usual.

        Raises:
            RestError: the bridge does not answer, or refuses.
        """
        data = None if body is None else json.dumps(body).encode()
        headers = self.headers | ({} if data is None else {"Content-Type": "application/json"})
        request = urllib.request.Request(self.url + path, data, headers, method=method)  # noqa: S310 - the caller's own
        with _heard("no answer", f"; is a bridge running there? ({self.url})"):
            try:
                answer: HTTPResponse = self._opener.open(request, timeout=patience_s or self.timeout_s)
            except urllib.error.HTTPError as exc:
                if exc.code == also:
                    return exc
                with exc:
                    raise refusal(exc.code, reason_of(exc.read(_LONGEST_REFUSAL))) from None
        return answer


def value_of(kind: type[_T], answer: Answer) -> _T:
    """The answer as a value of a type.

    Raises:
        RestError: it is none: a refusal, or not of a bridge.
    """
    text, status = _bytes_of(answer), answer.status or 0
    try:
        return TypeAdapter(kind).validate_json(text)
    except ValidationError:
        raise (strange(text, status) if status < 400 else refusal(status, reason_of(text))) from None


def line_of(answer: Answer) -> bytes:
    """The next line; nothing = the bridge ended the answer."""
    with _heard("the answer broke off"):
        return answer.readline(_LONGEST_LINE)


def reason_of(text: bytes, unsaid: str = "no reason was given") -> str:
    """The bridge's own words."""
    try:
        return str(json.loads(text)["detail"])
    except (ValueError, KeyError, TypeError):
        return text.decode(errors="replace").strip()[:_LONGEST_QUOTE] or unsaid


def strange(text: bytes, status: int = 200) -> RestError:
    """The error of an answer that says something else than it should."""
    return RestError(
        status, f"not an answer of a bridge of this version: {text[:_LONGEST_QUOTE].decode(errors='replace')}"
    )


def _asking(path: str, query: dict[str, object]) -> str:
    return path + ("?" + urllib.parse.urlencode(query) if query else "")


def _bytes_of(answer: Answer) -> bytes:
    text = _read(answer, _LONGEST_ANSWER)
    if len(text) == _LONGEST_ANSWER:
        raise RestError(answer.status or 0, f"the answer is longer than {_LONGEST_ANSWER} bytes")
    _check_whole(answer, len(text))
    return text


def _read(answer: Answer, size: int) -> bytes:
    with _heard("the answer broke off"):
        return answer.read(size)


def _check_whole(answer: Answer, got: int) -> None:
    """What is read in parts may end too early without a word."""
    length = answer.headers.get("Content-Length", "")
    if length.isdecimal() and got < int(length):
        raise BridgeUnreachable(0, f"the answer ended after {got} of {length} bytes; ask again")


@contextlib.contextmanager
def _heard(what: str, cure: str = "") -> Iterator[None]:
    """A line that breaks, or stays silent for too long, is a bridge that is not there."""
    try:
        yield
    except (OSError, HTTPException) as exc:
        raise BridgeUnreachable(0, f"{what}: {exc}{cure}") from exc
