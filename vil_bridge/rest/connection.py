"""Questions to a bridge over HTTP, and its answers as values."""

from __future__ import annotations

import json
import ssl
import urllib.error
import urllib.parse
import urllib.request
from http.client import HTTPException, HTTPResponse
from pathlib import Path
from typing import Any, Final, TypeVar

from pydantic import BaseModel, TypeAdapter

from vil_bridge.rest.errors import BridgeUnreachable, RestError, refusal

__all__ = ["Connection", "path_of"]

_T = TypeVar("_T")
_LONGEST_ANSWER: Final = 64 << 20
_LONGEST_REFUSAL: Final = 1 << 16

Answer = HTTPResponse | urllib.error.HTTPError


def path_of(*parts: str) -> str:
    """A path below the API's root; names may hold any character."""
    return "api/v1/" + "/".join(urllib.parse.quote(part, safe="") for part in parts)


class Connection:
    """Where a bridge is and how it is asked; arguments as of :class:`~vil_bridge.rest.BridgeApi`."""

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
        return TypeAdapter(kind).validate_json(self.ask("GET", path, **query))

    def put(self, kind: type[_T], path: str, body: BaseModel | dict[str, Any] | None, method: str = "PUT") -> _T:
        """Change something; the answer as a value of a type."""
        if isinstance(body, BaseModel):
            body = body.model_dump(mode="json", exclude_unset=True)
        with self.open(method, path, body) as answer:
            return TypeAdapter(kind).validate_json(_bytes_of(answer))

    def ask(self, method: str, path: str, **query: object) -> bytes:
        """The answer's bytes."""
        with self.open(method, path + ("?" + urllib.parse.urlencode(query) if query else "")) as answer:
            return _bytes_of(answer)

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
        try:
            answer: HTTPResponse = self._opener.open(request, timeout=patience_s or self.timeout_s)
        except urllib.error.HTTPError as exc:
            if exc.code == also:
                return exc
            with exc:
                raise refusal(exc.code, _reason(exc.read(_LONGEST_REFUSAL))) from None
        except (OSError, HTTPException) as exc:
            raise BridgeUnreachable(0, f"no answer: {exc}; is a bridge running there? ({self.url})") from exc
        return answer


def _bytes_of(answer: Answer) -> bytes:
    text = answer.read(_LONGEST_ANSWER)
    if len(text) == _LONGEST_ANSWER:
        raise RestError(answer.status or 0, f"the answer is longer than {_LONGEST_ANSWER} bytes")
    return text


def _reason(text: bytes) -> str:
    """The bridge's own words."""
    try:
        return str(json.loads(text)["detail"])
    except (ValueError, KeyError, TypeError):
        return text.decode(errors="replace").strip() or "no reason was given"
