"""Holdfast as the budget authority of LiteLLM's proxy: name `holdfast_litellm.budget` among its callbacks."""

from .callback import HoldfastBudget

budget = HoldfastBudget()

__all__ = ["HoldfastBudget", "budget"]
