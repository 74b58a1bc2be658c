"""The keys of the example, which a real gateway has in its database: `sk-<team>.<user>`."""

from __future__ import annotations

from typing import Any

from litellm.proxy._types import UserAPIKeyAuth


async def user_api_key_auth(request: Any, api_key: str) -> UserAPIKeyAuth:
    team, _, user = api_key.removeprefix("sk-").partition(".")
    if team not in ("red", "blue"):
        raise ValueError("no such key")
    return UserAPIKeyAuth(api_key=api_key, team_id=team, user_id=user)
