"""Keys without a database: `sk-<team>.<user>`. KEY_BUDGETS gives the keys of a team a budget of LiteLLM's own, in dollars."""

from __future__ import annotations

import json
import os
from typing import Any

from litellm.proxy._types import UserAPIKeyAuth, hash_token

BUDGETS: dict[str, float] = json.loads(os.environ.get("KEY_BUDGETS", "{}"))


async def user_api_key_auth(request: Any, api_key: str) -> UserAPIKeyAuth:
    team, _, user = api_key.removeprefix("sk-").partition(".")
    if not team:
        raise ValueError("no key")
    alias = f"key-{team}"
    if team in BUDGETS:
        # With a team, LiteLLM would look for it in a database.
        return UserAPIKeyAuth(api_key=api_key, token=hash_token(api_key), key_alias=alias, max_budget=BUDGETS[team])
    return UserAPIKeyAuth(api_key=api_key, key_alias=alias, team_id=team, user_id=user or None)
