"""What is known of a provider's bill for a call that failed."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import aiohttp
import httpx
import openai


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    for _ in range(12):
        if error is None:
            return
        yield error
        error = error.__cause__ or error.__context__


# Nobody was reached.
_NOT_SENT = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout, aiohttp.ClientConnectorError)
# The provider may have answered somebody who did not hear it.
_UNHEARD = (httpx.TransportError, openai.APITimeoutError, aiohttp.ClientError, asyncio.TimeoutError, TimeoutError, asyncio.CancelledError)
# Somebody stopped waiting, such as a gateway. The provider behind it may go on, and bill.
_GAVE_UP = (408, 499, 504, 524)


def _says_status(error: BaseException) -> bool:
    """Whether the provider answered with a failure. LiteLLM's own exceptions inherit from OpenAI's, and say nothing about that."""
    is_openai = isinstance(error, openai.APIStatusError) and type(error).__module__.startswith("openai")
    if not is_openai and not isinstance(error, httpx.HTTPStatusError):
        return False
    return error.response.status_code not in _GAVE_UP


def cost_nothing(error: BaseException) -> bool:
    """Whether a failed attempt cost nothing for certain: it was not sent, or the provider or LiteLLM refused it."""
    chain = list(_chain(error))
    if any(isinstance(one, _NOT_SENT) for one in chain):
        return True
    if any(isinstance(one, _UNHEARD) for one in chain):
        return False
    if any(_says_status(one) for one in chain):
        return True
    status = getattr(error, "status_code", None)
    return isinstance(status, int) and 400 <= status < 500 and status not in _GAVE_UP


class Attempts:
    """The attempts of one call: retries, and fallbacks to other deployments."""

    def __init__(self, call_type: str) -> None:
        # A call may pass through another format, whose hooks tell of the same attempt.
        self._call_type = call_type
        self._inner = 0
        self._started = 0
        self._ended = 0
        self.succeeded = 0
        # How many may have been billed although they failed.
        self._unheard = 0

    def start(self, call_type: str) -> None:
        if call_type == self._call_type:
            self._started += 1
        else:
            self._inner += 1

    def succeed(self, call_type: str) -> None:
        if call_type == self._call_type:
            self.succeeded += 1
            self._ended += 1

    def fail(self, call_type: str, error: BaseException) -> None:
        if call_type == self._call_type:
            self._ended += 1
            self._unheard += 0 if cost_nothing(error) else 1

    @property
    def has_begun(self) -> bool:
        return self._started + self._inner > 0

    @property
    def unheard(self) -> int:
        """How many attempts that did not succeed may have been billed."""
        return self._unheard

    @property
    def open(self) -> bool:
        """Whether an attempt has begun that nobody has seen end, as when the call was cancelled."""
        return self._started > self._ended or (self._started == 0 and self._inner > 0)
