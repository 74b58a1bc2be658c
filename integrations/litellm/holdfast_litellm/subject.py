"""Whose budgets a call uses: the levels of a Holdfast subject, from what LiteLLM knows of the caller."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from typing import ClassVar, Protocol

LEVELS = ("tenant", "workspace", "app", "workflow", "agent", "toolset")
MAX_LENGTH = 128
_SEGMENT = re.compile(r"[a-zA-Z0-9_.-]")


class Caller(Protocol):
    """The part of LiteLLM's `UserAPIKeyAuth` that is read here."""

    api_key: str | None
    key_alias: str | None
    team_id: str | None
    team_alias: str | None
    user_id: str | None
    org_id: str | None
    end_user_id: str | None


def _key(caller: Caller) -> str | None:
    # LiteLLM has only the hash of a key. Its first half tells keys apart.
    return caller.key_alias or (caller.api_key or "")[:32] or None


SOURCES = {
    "key": _key,
    "team": lambda caller: caller.team_id,
    "team_alias": lambda caller: caller.team_alias,
    "user": lambda caller: caller.user_id,
    "organization": lambda caller: caller.org_id,
    "end_user": lambda caller: caller.end_user_id,
}


def segment(value: str) -> str:
    """The value as a segment of a scope. Different values give different segments, except for upper and lower case.

    A character that no segment may have becomes two dots and two hexadecimal digits for each byte: `ann@example.com` is
    `ann..40example.com`. So does a dot next to such a character or to another dot, because two dots would be ambiguous.
    """

    def is_plain(index: int) -> bool:
        return 0 <= index < len(value) and _SEGMENT.match(value[index]) is not None and value[index] != "."

    parts: list[str] = []
    for index, char in enumerate(value):
        is_lone_dot = char == "." and (index == 0 or is_plain(index - 1)) and (index + 1 == len(value) or is_plain(index + 1))
        if is_lone_dot or is_plain(index):
            parts.append(char)
        else:
            parts += [f"..{byte:02x}" for byte in char.encode()]
    text = "".join(parts)
    if len(text) <= MAX_LENGTH:
        return text
    # "..h" begins no escape, so no shorter value has this segment.
    return f"{text[:92]}..h{hashlib.sha256(value.encode()).hexdigest()[:32]}"


@dataclass(frozen=True)
class Hierarchy:
    """Which level of the subject gets which property of the caller. A level whose property is missing is left out."""

    DEFAULT: ClassVar[str] = "workspace=team, app=key, workflow=user, agent=end_user"

    levels: tuple[tuple[str, str], ...]

    @staticmethod
    def parse(text: str) -> Hierarchy:
        """Reads `level=source` pairs, separated by commas. A source in double quotes is the value itself."""
        pairs: list[tuple[str, str]] = []
        for part in text.split(","):
            level, _, source = (word.strip() for word in part.partition("="))
            if level not in LEVELS or level in dict(pairs):
                raise ValueError(f"{level!r} is no level, or is there twice; levels are {', '.join(LEVELS)}")
            is_constant = len(source) > 2 and source[0] == source[-1] == '"'
            if not is_constant and source not in SOURCES:
                raise ValueError(f"{source!r} is none of {', '.join(SOURCES)}, and no value in double quotes")
            pairs.append((level, source))
        return Hierarchy(tuple(pairs))

    def subject_of(self, caller: Caller) -> dict[str, str]:
        """The subject of a call. Empty if the caller has none of the properties."""
        subject: dict[str, str] = {}
        for level, source in self.levels:
            value = source[1:-1] if source.startswith('"') else SOURCES[source](caller)
            if value:
                subject[level] = segment(str(value))
        return subject
