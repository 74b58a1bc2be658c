"""Holdfast over HTTP."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import httpx

from .told import tell

# Holdfast does not know the key, or the key may not do this. A new one may.
KEY_REFUSED = (401, 403)
# The key lacks a permission.
FORBIDDEN = 403


class NotSent(Exception):
    """No connection was made, so Holdfast has not seen the request."""


class Away(Exception):
    """No answer, or one that says that Holdfast cannot answer now. It may have done what was asked."""


@dataclass(frozen=True)
class Answer:
    status: int
    body: dict[str, Any]
    retry_after: str | None

    @property
    def error(self) -> str:
        return str(self.body.get("error", ""))


class Client:
    def __init__(self, url: str, read_key: Callable[[], str]) -> None:
        """`read_key` is asked again when the key is refused. It raises OSError or ValueError if it finds none."""
        self._url = url
        self._read_key = read_key
        self._key = read_key()
        self._http: httpx.AsyncClient | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    def _client(self) -> httpx.AsyncClient:
        # Connections belong to an event loop. A proxy has one, but a script that uses the callback may have several in turn.
        loop = asyncio.get_running_loop()
        if self._http is None or self._loop is not loop:
            limits = httpx.Limits(max_connections=200, max_keepalive_connections=50)
            self._http = httpx.AsyncClient(base_url=self._url, limits=limits)
            self._loop = loop
        return self._http

    async def post(self, path: str, body: dict[str, Any], *, timeout_s: float, headers: dict[str, str] | None = None) -> Answer:
        """Sends one request. Any answer below 500 is returned; 503 and the like are Away."""
        used = self._key
        answer = await self._post(path, body, timeout_s, {"X-Cycles-API-Key": used, **(headers or {})})
        if answer.status in KEY_REFUSED:
            await self._find_key(used)
            if self._key != used:
                return await self._post(path, body, timeout_s, {"X-Cycles-API-Key": self._key, **(headers or {})})
        return answer

    async def _find_key(self, refused: str) -> None:
        try:
            found = await asyncio.to_thread(self._read_key)
        except (OSError, ValueError) as error:
            tell("key_unreadable", repr(error))
            return
        if found != refused and found != self._key:
            self._key = found
            tell("key_changed", "the new key is used from now on")

    async def _post(self, path: str, body: dict[str, Any], timeout_s: float, headers: dict[str, str]) -> Answer:
        try:
            response = await self._client().post(path, json=body, headers=headers, timeout=timeout_s)
        except (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout) as error:
            raise NotSent(repr(error)) from error
        except httpx.HTTPError as error:
            raise Away(repr(error)) from error
        if response.status_code >= 500:
            raise Away(f"{response.status_code} {response.text[:300]}")
        try:
            answer = response.json()
        except ValueError:
            answer = {"error": "", "message": response.text[:300]}
        return Answer(response.status_code, answer if isinstance(answer, dict) else {}, response.headers.get("retry-after"))
