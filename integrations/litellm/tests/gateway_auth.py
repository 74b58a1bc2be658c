"""Keys without a database: `sk-<team>.<user>`."""

from __future__ import annotations

from typing import Any

from litellm.proxy._types import UserAPIKeyAuth


async def user_api_key_auth(request: Any, api_key: str) -> UserAPIKeyAuth:
    team, _, user = api_key.removeprefix("sk-").partition(".")
    if not team:
        raise ValueError("no key")
    return UserAPIKeyAuth(api_key=api_key, key_alias=f"key-{team}", team_id=team, user_id=user or None)
