"""Runs a module, or LiteLLM's proxy, until the process that started it ends in any way: its stdin closes then."""

from __future__ import annotations

import os
import runpy
import sys
import threading


def _end_with_parent() -> None:
    sys.stdin.buffer.read()
    os._exit(1)


if __name__ == "__main__":
    threading.Thread(target=_end_with_parent, daemon=True).start()
    del sys.argv[0]
    if sys.argv[0] == "litellm":
        from litellm import run_server

        run_server()
    else:
        runpy.run_path(sys.argv[0], run_name="__main__")
