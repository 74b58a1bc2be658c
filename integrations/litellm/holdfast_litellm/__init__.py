"""Holdfast as the budget authority of LiteLLM's proxy: name `holdfast_litellm.budget` among its callbacks."""

from __future__ import annotations

from typing import Any

__all__ = ["budget"]


def __getattr__(name: str) -> Any:
    # Made when the proxy asks for it, because it reads the environment.
    if name != "budget":
        raise AttributeError(name)
    from .callback import HoldfastBudget

    globals()["budget"] = made = HoldfastBudget()
    return made
