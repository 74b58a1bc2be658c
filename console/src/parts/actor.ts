const WHO: Readonly<Record<string, string>> = {
  api_key: 'the client',
  admin: 'an operator',
  sweeper: 'the sweeper',
  scheduler: 'Holdfast',
  system: 'Holdfast',
};

/**
 * The name in a `key_id` of an operator: of a named one, or of an account of the identity provider. That has its subject, too, without
 * which whoever may choose a name at the provider could look like another operator.
 */
export function operatorIn(keyId: string | undefined): string | undefined {
  return /^(?:operator|oidc):(.+)/.exec(keyId ?? '')?.[1];
}

/** Who did something: the type of an event's actor, or of who ended a reservation. Without a type, nobody asked for it. */
export function whoOf(type: string | undefined, tenant: string, keyId?: string): string {
  const operator = operatorIn(keyId);
  if (type === 'admin_on_behalf_of') {
    return `${operator ?? 'an operator'}, on behalf of ${tenant}`;
  }
  return operator ?? WHO[type ?? 'system'] ?? String(type);
}
