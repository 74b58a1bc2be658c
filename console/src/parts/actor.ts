const WHO: Readonly<Record<string, string>> = {
  api_key: 'the client',
  admin: 'an operator',
  sweeper: 'the sweeper',
  scheduler: 'Holdfast',
  system: 'Holdfast',
};

/** Who did something: the type of an event's actor, or of who ended a reservation. Without a type, nobody asked for it. */
export function whoOf(type: string | undefined, tenant: string): string {
  return type === 'admin_on_behalf_of'
    ? `an operator, on behalf of ${tenant}`
    : (WHO[type ?? 'system'] ?? String(type));
}
