"""What listens to each stream next to the provider."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import litellm
from litellm.integrations.custom_logger import CustomLogger

from .charges import Followed


class Witness(CustomLogger):
    """LiteLLM passes a stream through its callbacks in their order, and any of them may keep it back or end it. This one is the first."""

    def __init__(self, call_of: Callable[[Any], Followed | None], settle: Callable[[Followed, bool], Any]) -> None:
        super().__init__()
        self._call_of = call_of
        # Takes whether a report of the cost is likely to come.
        self._settle = settle

    def stand_first(self) -> None:
        if litellm.callbacks[:1] != [self]:
            # A new list, because others may be on their way through the old one.
            litellm.callbacks = [self, *(one for one in litellm.callbacks if one is not self)]

    async def async_post_call_streaming_iterator_hook(
        self, user_api_key_dict: Any, response: Any, request_data: dict[str, Any]
    ) -> AsyncIterator[Any]:
        call = self._call_of(request_data)
        if call is None:
            async for part in response:
                yield part
            return
        call.parts = parts = []
        try:
            async for part in response:
                parts.append(part)
                if not (call.hides_usage and _is_usage_only(part)):
                    yield part
            call.has_ended = True
        except (asyncio.CancelledError, GeneratorExit):
            raise  # The client left.
        except Exception as error:
            call.failed_with = error
            # LiteLLM fails to convert the part of a text completion that has the usage if the provider does not send it.
            if not (call.hides_usage and parts and _is_last(parts[-1])):
                raise
        finally:
            self._settle(call, call.has_ended)


def _is_usage_only(part: Any) -> bool:
    """Whether a part of a text completion has a count of tokens, and nothing to read."""
    return getattr(part, "usage", None) is not None and not any(choice.text or choice.finish_reason for choice in part.choices)


def _is_last(part: Any) -> bool:
    return any(choice.finish_reason for choice in part.choices)
