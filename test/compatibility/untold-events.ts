/** Event types of the protocol that Holdfast does not emit, and why. */
export const UNTOLD_EVENTS: Readonly<Record<string, string>> = {
  'budget.closed':
    'No operation closes a single budget; closing its tenant emits `budget.closed_via_tenant_cascade`.',
  'budget.burn_rate_anomaly':
    'A rate needs a window and a baseline, which a script does not have. The [alert rule](../deploy/prometheus/holdfast.rules.yml) `HoldfastBurnRateAnomaly` computes it from metrics.',
  'reservation.denial_rate_spike':
    'As above: each denial is an event and a count; `HoldfastDenialRateSpike` watches the rate.',
  'reservation.expiry_rate_spike': 'As above, for expirations: `HoldfastExpiryRateSpike`.',
  'api_key.auth_failure_rate_spike':
    'As above, for `holdfast_auth_failures_total`: `HoldfastAuthFailureRateSpike`.',
  'policy.deleted': 'The protocol has no operation that deletes a policy.',
  'system.high_latency':
    'Latencies are histograms; the alert rule `HoldfastSlow` has the window that this event needs.',
  'system.webhook_test': 'Only sent by the test of a subscription; the protocol keeps it out of the log.',
};
