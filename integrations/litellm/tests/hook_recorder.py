"""Writes down which of LiteLLM's hooks come, in the order in which they come. It stands after Holdfast's callback."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncIterator, Mapping
from typing import Any

from litellm.integrations.custom_logger import CustomLogger


def call_of(data: Any) -> str | None:
    for name in ("litellm_metadata", "metadata"):
        bucket = data.get(name) if isinstance(data, Mapping) else None
        if isinstance(bucket, Mapping) and "holdfast_call" in bucket:
            return str(bucket["holdfast_call"])
    return None


class Recorder(CustomLogger):
    def __init__(self) -> None:
        super().__init__()
        self._teams: dict[str | None, str] = {}
        path = os.environ.get("HOOK_RECORD", os.devnull)
        self._file = open(path, "a", buffering=1)  # noqa: SIM115 - open as long as the proxy runs.

    def _note(self, data: Any, hook: str) -> None:
        self._file.write(json.dumps({"team": self._teams.get(call_of(data)), "hook": hook}) + "\n")

    async def async_pre_call_hook(self, user_api_key_dict: Any, cache: Any, data: dict[str, Any], call_type: str) -> None:
        self._teams[call_of(data)] = user_api_key_dict.team_id
        self._note(data, "begin")

    async def async_pre_call_deployment_hook(self, kwargs: Any, call_type: Any) -> None:
        self._note(kwargs, "attempt")

    def log_pre_api_call(self, model: Any, messages: Any, kwargs: Any) -> None:
        if not kwargs.get("litellm_no_upstream_llm_call"):
            self._note(kwargs.get("litellm_params") or {}, "sent")

    async def async_post_call_success_deployment_hook(self, request_data: Any, response: Any, call_type: Any) -> None:
        self._note(request_data, "attempt succeeded")

    async def async_post_call_failure_deployment_hook(
        self, request_data: Any, exception: Exception, call_type: Any, fallback_depth: int | None = None
    ) -> None:
        self._note(request_data, "attempt failed")

    async def async_post_call_success_hook(self, data: dict[str, Any], user_api_key_dict: Any, response: Any) -> None:
        hidden = response.get("_hidden_params") if isinstance(response, dict) else getattr(response, "_hidden_params", None)
        self._note(data, "answer with a cost" if (hidden or {}).get("response_cost") else "answer")

    async def async_post_call_failure_hook(
        self, request_data: dict[str, Any], original_exception: Exception, user_api_key_dict: Any, traceback_str: str | None = None
    ) -> None:
        self._note(request_data, "failure")

    async def async_post_call_streaming_iterator_hook(
        self, user_api_key_dict: Any, response: Any, request_data: dict[str, Any]
    ) -> AsyncIterator[Any]:
        end = "stream ended"
        try:
            async for chunk in response:
                yield chunk
        except (asyncio.CancelledError, GeneratorExit):
            end = "stream left"
            raise
        except Exception:
            end = "stream broke"
            raise
        finally:
            self._note(request_data, end)

    async def async_log_success_event(self, kwargs: Any, response_obj: Any, start_time: Any, end_time: Any) -> None:
        self._note(kwargs.get("litellm_params") or {}, "log: cost" if kwargs.get("response_cost") else "log: no cost")

    async def async_log_failure_event(self, kwargs: Any, response_obj: Any, start_time: Any, end_time: Any) -> None:
        self._note(kwargs.get("litellm_params") or {}, "log: failed at a cost" if kwargs.get("response_cost") else "log: failed")


recorder = Recorder()
