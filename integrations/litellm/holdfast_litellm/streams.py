"""The text in the parts of a stream: LiteLLM's objects for chats and Responses, and the bytes of `/v1/messages`."""

from __future__ import annotations

import json
from typing import Any

_WORDS = ("content", "reasoning_content", "refusal")
_DELTAS = ("text", "partial_json", "thinking")


def text_of(chunk: Any) -> str:
    if isinstance(chunk, (bytes, str)):
        return _text_of_lines(chunk.decode(errors="replace") if isinstance(chunk, bytes) else chunk)
    delta = getattr(chunk, "delta", None)
    if isinstance(delta, str):
        return delta
    return "".join(_text_of_choice(choice) for choice in getattr(chunk, "choices", None) or [])


def _text_of_choice(choice: Any) -> str:
    delta = getattr(choice, "delta", None)
    words = [getattr(delta, name, None) for name in _WORDS] + [getattr(choice, "text", None)]
    calls = [getattr(call, "function", None) for call in getattr(delta, "tool_calls", None) or []]
    words += [getattr(function, name, None) for function in calls for name in ("name", "arguments")]
    return "".join(word for word in words if isinstance(word, str))


def _text_of_lines(text: str) -> str:
    words: list[str] = []
    for line in text.splitlines():
        if line.startswith("data:"):
            try:
                delta = json.loads(line[5:]).get("delta") or {}
            except (ValueError, AttributeError):
                continue
            if isinstance(delta, dict):
                words += [delta[name] for name in _DELTAS if isinstance(delta.get(name), str)]
    return "".join(words)
