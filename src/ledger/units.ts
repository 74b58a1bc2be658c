/** The four units of the protocol (UnitEnum). */
export const UNITS = ['USD_MICROCENTS', 'TOKENS', 'CREDITS', 'RISK_POINTS'] as const;
export type Unit = (typeof UNITS)[number];

export const OVERAGE_POLICIES = ['REJECT', 'ALLOW_IF_AVAILABLE', 'ALLOW_WITH_OVERDRAFT'] as const;
export type OveragePolicy = (typeof OVERAGE_POLICIES)[number];
