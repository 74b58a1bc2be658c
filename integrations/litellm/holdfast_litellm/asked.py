"""What a request asks for: its texts as tokens, its media, and what it selects beside them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import litellm

# Where the text of a request stands, in all of the formats that are counted.
_TEXTS = ("messages", "prompt", "input", "system", "instructions")
_SCHEMAS = ("tools", "functions", "response_format", "text", "output_format")
# An image, a file or a sound. Providers count by size, and the estimate does not fetch anything to find out.
MEDIA_TOKENS = 1500
_MEDIA = ("image_url", "image", "input_image", "document", "file", "input_file", "input_audio", "audio", "video_url", "video")
# Roles and separators of a message.
_MESSAGE_TOKENS = 6
# An input of an embedding that the provider fetches or decodes.
_LINK = re.compile(r"(data|https?|gs|s3):", re.IGNORECASE)
# Fields that select a price, at any depth, in lower case and without underscores.
_SELECTING = ("servicetier", "speed", "ttl", "inferencegeo", "modalities", "responsemodalities", "searchcontextsize")
_SEARCH_LIMITS = ("max_uses", "max_tool_calls")
_SEARCHING = re.compile("search|ground|maps|plugins|compound")
# LiteLLM's own, and those in which a client writes what it likes.
_NOT_SENT = ("metadata", "litellm_metadata", "proxy_server_request", "secret_fields")


@dataclass(frozen=True)
class Selection:
    """What a request or a deployment selects."""

    # Of each selecting field its words, in lower case.
    named: Mapping[str, frozenset[str]] = field(default_factory=dict)
    # The names of its parameters.
    options: frozenset[str] = frozenset()
    # The kinds of its tools that no client runs.
    tools: frozenset[str] = frozenset()
    # None if nothing limits them.
    most_searches: int | None = None

    def words(self, name: str) -> frozenset[str]:
        return self.named.get(name, frozenset())

    def has(self, need: str) -> bool:
        """Whether it names the word of `field=word`, or the field at all of `field=`."""
        name, _, word = need.partition("=")
        return not need or word in self.words(name) or (not word and name in self.named)

    @property
    def searches(self) -> bool:
        return any(_SEARCHING.search(name) for name in (*self.options, *self.tools))

    def joined(self, other: Selection) -> Selection:
        names = (*self.named, *other.named)
        limits = [one.most_searches for one in (self, other) if one.most_searches is not None]
        return Selection(
            {name: self.words(name) | other.words(name) for name in names},
            self.options | other.options,
            self.tools | other.tools,
            max(limits, default=None),
        )


NOTHING = Selection()


class Unbounded(Exception):
    """The request itself asks for more than any hold could cover."""


@dataclass(frozen=True)
class Asked:
    tokens: int
    # Parts of the request that are no text, and inputs that may be links to such.
    media: int = 0
    links: int = 0
    characters: int = 0
    selection: Selection = NOTHING

    @property
    def media_tokens(self) -> int:
        return self.media * MEDIA_TOKENS

    @property
    def has_media(self) -> bool:
        return self.images > 0

    @property
    def images(self) -> int:
        return self.media + self.links


def _named(source: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    deeper: list[Any] = [source]
    while deeper:
        value = deeper.pop()
        if isinstance(value, list):
            deeper += [part for part in value if isinstance(part, (dict, list))]
            continue
        for name, part in value.items():
            key = str(name).lower().replace("_", "")
            if key in _SELECTING:
                for word in part if isinstance(part, list) else [part]:
                    if isinstance(word, (str, int, float)):
                        yield "modalities" if key.endswith("modalities") else key, str(word).strip().lower()
            if isinstance(part, (dict, list)) and name not in _NOT_SENT:
                deeper.append(part)


def _overlays(data: Mapping[str, Any]) -> list[list[Mapping[str, Any]]]:
    """What a client lays over its request on the way to the provider: for the model that it names, and for each fallback."""

    def extra(body: Mapping[str, Any]) -> list[Mapping[str, Any]]:
        found = body.get("extra_body")
        if isinstance(found, Mapping) and found.get("model"):
            raise Unbounded("extra_body names another model")
        return [found] if isinstance(found, Mapping) else []

    fallbacks = data.get("fallbacks")
    named = [one for one in (fallbacks if isinstance(fallbacks, list) else []) if isinstance(one, Mapping) and "model" in one]
    return [extra(data), *([one, *extra({**data, **one})] for one in named)]


def variants(data: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The request in each form in which it may reach a provider. Raises Unbounded if it brings a model that nobody looks for there."""
    return [{name: value for body in (data, *layers) for name, value in body.items()} for layers in _overlays(data)]


def whole(value: Any) -> int | None:
    """A positive count, in each of the forms that some provider takes for one."""
    if isinstance(value, str) and value.strip().isdecimal():
        value = int(value.strip()[:40])
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else None


def selection(data: Mapping[str, Any]) -> Selection:
    named: dict[str, frozenset[str]] = {}
    for name, word in _named(data):
        named[name] = named.get(name, frozenset()) | {word}
    options: set[str] = set()
    tools: set[str] = set()
    limits: list[int] = []
    for body in variants(data):
        options |= {str(name).lower() for name, value in body.items() if value}
        limits += [limit for name in _SEARCH_LIMITS if (limit := whole(body.get(name)))]
        for tool in body.get("tools") or [] if isinstance(body.get("tools"), list) else []:
            if isinstance(tool, Mapping) and tool.get("type") not in ("function", "custom"):
                tools |= {str(name).lower() for name in (tool.get("type"), *tool) if name}
                limits += [limit for name in _SEARCH_LIMITS if (limit := whole(tool.get(name)))]
    return Selection(named, frozenset(options), frozenset(tools), sum(limits) if limits else None)


def texts(value: Any) -> Iterator[str | int | None]:
    """The texts of a part of a request, for what is no text its number of tokens, and None for each part that is media."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        kind = value.get("type")
        if kind in _MEDIA:
            yield None
            source = value.get("source")
            if isinstance(source, dict) and source.get("type") in ("text", "content"):
                yield from texts([source.get("data"), source.get("content")])
            return
        if "role" in value:
            yield _MESSAGE_TOKENS
        for name, part in value.items():
            if name == "audio" and isinstance(part, dict):
                yield None  # An answer of before, by its id.
            elif name not in ("type", "role"):
                yield from texts(part)
    elif isinstance(value, list):
        if value and all(isinstance(part, int) for part in value):
            yield len(value)
            return
        for part in value:
            yield from texts(part)


def count(text: str) -> int:
    """LiteLLM's count with its own tokenizer. Naming another provider's model would make it download that one's."""
    return int(litellm.token_counter(model="", text=text)) if text else 0


def read(data: Mapping[str, Any]) -> Asked:
    layers = [data, *(layer for layers in _overlays(data) for layer in layers)]
    parts = [part for layer in layers for name in _TEXTS for part in texts(layer.get(name))]
    schemas = [json.dumps(layer[name]) for layer in layers for name in _SCHEMAS if layer.get(name)]
    words = "\n".join([*(part for part in parts if isinstance(part, str)), *schemas])
    inputs = data.get("input")
    return Asked(
        tokens=count(words) + sum(part for part in parts if isinstance(part, int)),
        media=sum(part is None for part in parts),
        links=sum(isinstance(one, str) and _LINK.match(one) is not None for one in (inputs if isinstance(inputs, list) else [inputs])),
        characters=len(words),
        selection=selection(data),
    )
