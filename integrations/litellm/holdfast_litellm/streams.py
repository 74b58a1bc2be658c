"""What has arrived of an answer: LiteLLM's objects, the dictionaries of whole messages, and the bytes of streams of `/v1/messages`."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

# Where words stand in an answer or in a part of it, and under which names.
_ROOTS = ("choices", "output", "content", "delta", "content_block")
_WORDS = ("content", "text", "reasoning_content", "reasoning", "refusal", "thinking", "name", "arguments", "partial_json", "input")
_ERRORS = ("error", "response.failed")


@dataclass(frozen=True)
class Arrived:
    words: str
    # Whether nothing in it says that more was to come, or that it failed.
    is_whole: bool


def arrived(parts: Iterable[Any]) -> Arrived:
    """Of the parts of a stream, or of a whole answer as its only part."""
    events = list(_events(parts))
    kinds = [event.get("type") for event in events]
    # Anthropic counts the output at the end of a stream. Its first event has a count, too, which is of nothing yet.
    is_counted = "message_start" not in kinds or any(event.get("type") == "message_delta" and event.get("usage") for event in events)
    return Arrived(
        words="".join(word for event in events for word in _words_of(event)),
        is_whole=is_counted and not any(kind in _ERRORS or "error" in event for kind, event in zip(kinds, events, strict=True)),
    )


def _events(parts: Iterable[Any]) -> Iterator[dict[str, Any]]:
    # A line may stand in several parts.
    lines = bytearray()
    for part in parts:
        if isinstance(part, (bytes, str)):
            lines += part.encode() if isinstance(part, str) else part
        elif isinstance(part, dict):
            yield part
        elif hasattr(part, "model_dump"):
            yield part.model_dump(mode="json", warnings=False)
    for line in lines.decode(errors="replace").splitlines():
        if line.startswith("data:"):
            try:
                event = json.loads(line[5:])
            except ValueError:
                continue
            if isinstance(event, dict):
                yield event


def _words_of(event: dict[str, Any]) -> Iterator[str]:
    kind = str(event.get("type") or "")
    if kind.startswith("response."):
        # Its last events repeat the words of the earlier ones.
        if kind.endswith(".delta") and isinstance(event.get("delta"), str):
            yield event["delta"]
        return
    for name in _ROOTS:
        yield from _words_in(event.get(name))


def _words_in(value: Any) -> Iterator[str]:
    if isinstance(value, list):
        for one in value:
            yield from _words_in(one)
    elif isinstance(value, dict):
        for name, part in value.items():
            if name == "input" and isinstance(part, dict):
                yield json.dumps(part) if part else ""
            elif not isinstance(part, str):
                yield from _words_in(part)
            elif name in _WORDS:
                yield part
