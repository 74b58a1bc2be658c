"""What is known of a provider's bill for the attempts of a call."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import aiohttp
import httpx
import openai
from litellm.llms.base_llm.chat.transformation import BaseLLMException


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    for _ in range(12):
        if error is None:
            return
        yield error
        error = error.__cause__ or error.__context__


# Nobody was reached.
_NOT_SENT = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout, aiohttp.ClientConnectorError)
# What the call of a provider raises. Anything else, such as a guardrail, refuses whatever the provider has billed.
_OF_PROVIDERS = (openai.OpenAIError, httpx.HTTPError, aiohttp.ClientError, BaseLLMException)
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
    """Whether a failed attempt cost nothing for certain: nobody was reached, or the provider or LiteLLM refused it."""
    if not isinstance(error, _OF_PROVIDERS):
        return False
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
    """The attempts of one call, one after the other: retries, and fallbacks to other deployments."""

    def __init__(self) -> None:
        self._call_type = ""
        self.has_begun = False
        # Whether the last one has begun, and nobody has seen it end. It may be a stream, or have been cancelled.
        self.is_open = False
        # Whether the last one was handed to the provider.
        self.was_sent = False
        # How many were sent and failed so that nobody knows whether the provider billed them.
        self.unheard = 0

    def start(self, call_type: str) -> None:
        if self.is_open and call_type != self._call_type:
            return  # The call passes through another format, whose hooks tell of the same attempt.
        if self.is_open and self.was_sent:
            # A stream that was cut before its first part, whose end no hook tells.
            self.unheard += 1
        self._call_type = call_type
        self.has_begun = self.is_open = True
        self.was_sent = False

    def send(self) -> None:
        self.was_sent = True

    def succeed(self, call_type: str) -> bool:
        """Whether this was the end of an attempt."""
        return self._end(call_type)

    def fail(self, call_type: str, error: BaseException) -> None:
        if self._end(call_type) and self.may_cost(error):
            self.unheard += 1

    def may_cost(self, error: BaseException | None) -> bool:
        """Whether the provider may have billed the last attempt if this was its end, or nobody knows its end."""
        return self.was_sent and (error is None or not cost_nothing(error))

    def _end(self, call_type: str) -> bool:
        ended = self.is_open and call_type == self._call_type
        self.is_open = self.is_open and not ended
        return ended
