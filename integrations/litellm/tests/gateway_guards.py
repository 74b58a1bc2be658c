"""Callbacks that refuse an answer of the provider, as a request orders: a guardrail, and one on either side of Holdfast's callback."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping
from typing import Any

from fastapi import HTTPException
from litellm.integrations.custom_guardrail import CustomGuardrail
from litellm.integrations.custom_logger import CustomLogger


def ordered(data: Mapping[str, Any], name: str) -> int | None:
    """After how many parts of an answer the guard of this name refuses it."""
    source = data.get("messages") or data.get("input") or data.get("prompt") or ""
    text = source if isinstance(source, str) else source[-1]["content"]
    orders = json.loads(text) if isinstance(text, str) and text.startswith("{") else {}
    return int(orders.get("refuse_after", 0)) if orders.get("refused_by") == name else None


async def guarded(response: Any, data: Mapping[str, Any], name: str) -> AsyncIterator[Any]:
    left = ordered(data, name)
    async for chunk in response:
        if left == 0:
            raise HTTPException(400, "refused")
        left = None if left is None else left - 1
        yield chunk
    if left is not None:
        raise HTTPException(400, "refused")


class Guard(CustomLogger):
    def __init__(self, name: str) -> None:
        super().__init__()
        self._name = name

    async def async_post_call_success_hook(self, data: dict[str, Any], user_api_key_dict: Any, response: Any) -> None:
        if ordered(data, self._name) is not None:
            raise HTTPException(400, "refused")

    async def async_post_call_streaming_iterator_hook(
        self, user_api_key_dict: Any, response: Any, request_data: dict[str, Any]
    ) -> AsyncIterator[Any]:
        async for chunk in guarded(response, request_data, self._name):
            yield chunk


class Rail(CustomGuardrail):
    async def async_post_call_success_hook(self, data: dict[str, Any], user_api_key_dict: Any, response: Any) -> None:
        if ordered(data, "rail") is not None:
            raise HTTPException(400, "refused")

    async def async_post_call_streaming_iterator_hook(
        self, user_api_key_dict: Any, response: Any, request_data: dict[str, Any]
    ) -> AsyncIterator[Any]:
        async for chunk in guarded(response, request_data, "rail"):
            yield chunk


before, after = Guard("before"), Guard("after")
