"""Requests to a bridge over HTTP, with answers as values."""

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

_T = TypeVar("_T")
_LONGEST_ANSWER: Final = 64 << 20
_LONGEST_LINE: Final = 16 << 20
_LONGEST_REFUSAL: Final = 1 << 16
_LONGEST_QUOTE: Final = 200
_BLOCK: Final = 1 << 20

Answer = HTTPResponse | urllib.error.HTTPError


def path_of(*parts: str) -> str:
    """Return a path below the API's root; names may hold any character."""
    return "api/v1/" + "/".join(urllib.parse.quote(part, safe="") for part in parts)


class HttpConnection:
    """Requests to one bridge, without any proxy.

    Args:
        url: of the status page.
        token: None = send none.
        tls: checks the bridge's certificate; None = plain HTTP.
        timeout_s: for the next bytes of an answer.

    Attributes:
        site: the address without a slash at the end. url: the same with one. headers: of every
            request.
    """

    def __init__(
        self, url: str, token: str | None, tls: ssl.SSLContext | None, timeout_s: float
    ) -> None:
        self.site = url.rstrip("/")
        self.url = f"{self.site}/"
        self.headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        self.tls = tls
        self.timeout_s = timeout_s
        handlers: list[urllib.request.BaseHandler] = [urllib.request.ProxyHandler({})]
        if tls is not None:
            handlers.append(urllib.request.HTTPSHandler(context=tls))
        self._opener = urllib.request.build_opener(*handlers)

    def get(self, kind: type[_T], path: str, **query: object) -> _T:
        """Return a resource as a value of a type."""
        with self.open("GET", _with_query(path, query)) as answer:
            return value_of(kind, answer)

    def put(
        self,
        kind: type[_T],
        path: str,
        body: BaseModel | dict[str, Any] | None,
        method: str = "PUT",
    ) -> _T:
        """Change something; return the answer as a value of a type."""
        if isinstance(body, BaseModel):
            body = body.model_dump(mode="json", exclude_unset=True)
        with self.open(method, path, body) as answer:
            return value_of(kind, answer)

    def ask(self, method: str, path: str, **query: object) -> bytes:
        """Return the bytes of the answer."""
        with self.open(method, _with_query(path, query)) as answer:
            return _bytes_of(answer)

    def save(self, path: str, into: Path, patience_s: float | None = None) -> None:
        """Write the answer into a file, which replaces an older one only once it is whole."""
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
        """Return the answer, to be read and closed.

        Args:
            method: of HTTP.
            path: relative to the status page.
            body: becomes JSON.
            also: a status of failure whose answer is returned too.
            patience_s: for the next bytes; None = the usual.

        Raises:
            RestError: the bridge does not answer, or refuses.
        """
        data = None if body is None else json.dumps(body).encode()
        headers = self.headers | ({} if data is None else {"Content-Type": "application/json"})
        # The caller's own.
        request = urllib.request.Request(  # noqa: S310
            self.url + path,
            data,
            headers,
            method=method,
        )
        with _connection_errors("no answer", f"; is a bridge running there? ({self.url})"):
            try:
                answer: HTTPResponse = self._opener.open(
                    request, timeout=patience_s or self.timeout_s
                )
            except urllib.error.HTTPError as exc:
                if exc.code == also:
                    return exc
                with exc:
                    raise refusal(exc.code, reason_of(exc.read(_LONGEST_REFUSAL))) from None
        return answer


def value_of(kind: type[_T], answer: Answer) -> _T:
    """Return the answer as a value of a type.

    Raises:
        RestError: it is a refusal, or not the answer of a bridge.
    """
    text = _bytes_of(answer)
    status = answer.status or 0
    try:
        return TypeAdapter(kind).validate_json(text)
    except ValidationError:
        raise (
            unexpected(text, status) if status < 400 else refusal(status, reason_of(text))
        ) from None


def line_of(answer: Answer) -> bytes:
    """Return the next line; empty = the bridge ended the answer."""
    with _connection_errors("the answer broke off"):
        return answer.readline(_LONGEST_LINE)


def reason_of(text: bytes) -> str:
    """Return the bridge's own words."""
    try:
        return str(json.loads(text)["detail"])
    except (ValueError, KeyError, TypeError):
        return text.decode(errors="replace").strip()[:_LONGEST_QUOTE] or "no reason was given"


def unexpected(text: bytes, status: int = 200) -> RestError:
    """Return the error for an answer in an unexpected form."""
    return RestError(
        status,
        "not an answer of a bridge of this version: "
        f"{text[:_LONGEST_QUOTE].decode(errors='replace')}",
    )


def _with_query(path: str, query: dict[str, object]) -> str:
    return path + ("?" + urllib.parse.urlencode(query) if query else "")


def _bytes_of(answer: Answer) -> bytes:
    text = _read(answer, _LONGEST_ANSWER)
    if len(text) == _LONGEST_ANSWER:
        raise RestError(answer.status or 0, f"the answer is longer than {_LONGEST_ANSWER} bytes")
    _check_whole(answer, len(text))
    return text


def _read(answer: Answer, size: int) -> bytes:
    with _connection_errors("the answer broke off"):
        return answer.read(size)


def _check_whole(answer: Answer, got: int) -> None:
    """Raise BridgeUnreachable if the answer ended early, which reading in parts does not report."""
    length = answer.headers.get("Content-Length", "")
    if length.isdecimal() and got < int(length):
        raise BridgeUnreachable(0, f"the answer ended after {got} of {length} bytes; ask again")


@contextlib.contextmanager
def _connection_errors(what: str, cure: str = "") -> Iterator[None]:
    """Raise BridgeUnreachable for a connection that fails or stays silent for too long."""
    try:
        yield
    except (OSError, HTTPException) as exc:
        raise BridgeUnreachable(0, f"{what}: {exc}{cure}") from exc
