"""What the operator should know: one log line for each unusual event, and a counter for every event."""

from __future__ import annotations

import logging
from collections import Counter

log = logging.getLogger("holdfast_litellm")
if not logging.getLogger().handlers and not log.handlers:
    # LiteLLM configures only its own loggers.
    _handler = logging.StreamHandler()
    _handler.setFormatter(logging.Formatter("%(asctime)s %(name)s %(levelname)s: %(message)s"))
    log.addHandler(_handler)
    log.setLevel(logging.INFO)

# What may happen to a call, and how loudly it is told. None is only counted.
EVENTS: dict[str, int | None] = {
    "reserved": None,
    "committed": None,
    "released": None,
    "extended": None,
    "denied": None,
    "limited": None,
    "unbounded_refused": None,
    "unpriced_refused": None,
    "unpriced_admitted": logging.WARNING,
    "misconfigured": logging.ERROR,
    "away_refused": logging.ERROR,
    "away_admitted": logging.ERROR,
    "late_reserve_undone": logging.WARNING,
    "undo_failed": logging.ERROR,
    "extend_failed": logging.WARNING,
    "settle_retried": logging.WARNING,
    "settle_failed": logging.ERROR,
    "overcharged": logging.ERROR,
    "refunded": logging.INFO,
    "key_changed": logging.INFO,
    "key_unreadable": logging.ERROR,
    "debited": logging.WARNING,
    "capped": logging.WARNING,
    "cost_counted": logging.INFO,
    "cost_unknown": logging.WARNING,
    "stray_report": logging.WARNING,
}

counts: Counter[str] = Counter()

try:
    from prometheus_client import Counter as Metric

    # LiteLLM's /metrics shows it, if that is switched on.
    _metric = Metric("holdfast_litellm_events", "What Holdfast's callback did with calls.", ["event"])
    for _name in EVENTS:
        _metric.labels(_name)
except ImportError:
    _metric = None


def tell(event: str, message: str = "") -> None:
    """Counts an event, and logs it if it is unusual."""
    level = EVENTS[event]
    counts[event] += 1
    if _metric is not None:
        _metric.labels(event).inc()
    if level is not None:
        log.log(level, "%s: %s (%d so far)", event, message, counts[event])
