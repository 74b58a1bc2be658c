"""What an operator sets, in the environment of the proxy. A wrong value stops the proxy's start with one line that names it."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from .subject import Hierarchy

ORPHAN_POLICIES = ("estimate", "input", "release")


class SettingsError(ValueError):
    """A value of the environment that cannot be used."""


@dataclass(frozen=True)
class Settings:
    url: str
    # Raises OSError or SettingsError if the file of the key has none.
    read_key: Callable[[], str]
    # From key, team, user and end user to the levels of a subject.
    hierarchy: Hierarchy
    # What a call costs whose cost nobody knows, such as one in flight when the proxy is killed.
    orphan_policy: str
    # Output tokens to reserve for a request that sets no limit; 0 takes the model's own maximum.
    output_tokens: int
    ttl_ms: int
    fails_open: bool
    allows_unpriced: bool
    denied_status: int

    @staticmethod
    def read(env: Mapping[str, str] = os.environ) -> Settings:
        def choice(name: str, allowed: tuple[str, ...]) -> str:
            value = env.get(name, "").strip() or allowed[0]
            if value not in allowed:
                raise SettingsError(f"{name} is {value!r}; allowed are {', '.join(allowed)}")
            return value

        def number(name: str, default: int, least: int, most: int) -> int:
            text = env.get(name, "").strip() or str(default)
            if not text.isdecimal() or not least <= int(text) <= most:
                raise SettingsError(f"{name} is {text!r}; give a whole number from {least} to {most}")
            return int(text)

        def required(name: str) -> str:
            value = env.get(name, "").strip()
            if not value:
                raise SettingsError(f"{name} is not set")
            return value

        try:
            hierarchy = Hierarchy.parse(env.get("HOLDFAST_SUBJECT", "").strip() or Hierarchy.DEFAULT)
        except ValueError as error:
            raise SettingsError(f"HOLDFAST_SUBJECT: {error}") from error
        return Settings(
            url=required("HOLDFAST_URL").rstrip("/"),
            read_key=_reader_of_key(env),
            hierarchy=hierarchy,
            orphan_policy=choice("HOLDFAST_ORPHAN_POLICY", ORPHAN_POLICIES),
            output_tokens=number("HOLDFAST_OUTPUT_TOKENS", 0, 0, 10_000_000),
            ttl_ms=1000 * number("HOLDFAST_TTL_SECONDS", 60, 1, 86_400),
            fails_open=choice("HOLDFAST_WHEN_AWAY", ("refuse", "allow")) == "allow",
            allows_unpriced=choice("HOLDFAST_UNPRICED", ("refuse", "allow")) == "allow",
            denied_status=number("HOLDFAST_DENIED_STATUS", 429, 400, 499),
        )


def _reader_of_key(env: Mapping[str, str]) -> Callable[[], str]:
    key, path = (env.get(name, "").strip() for name in ("HOLDFAST_API_KEY", "HOLDFAST_API_KEY_FILE"))
    if bool(key) == bool(path):
        raise SettingsError(f"HOLDFAST_API_KEY and HOLDFAST_API_KEY_FILE are {'both' if key else 'not'} set; set one of them")

    def from_file() -> str:
        found = Path(path).read_text().strip()
        if not found:
            raise SettingsError(f"HOLDFAST_API_KEY_FILE: {path} is empty")
        return found

    if not path:
        return lambda: key
    try:
        from_file()
    except OSError as error:
        raise SettingsError(f"HOLDFAST_API_KEY_FILE: {error}") from error
    return from_file
