const WHO: Readonly<Record<string, string>> = {
  api_key: 'the client',
  admin: 'an operator',
  sweeper: 'the sweeper',
  scheduler: 'Holdfast',
  system: 'Holdfast',
};

/** Whatever else the name of an account has stays encoded: a number sign separates the name from the subject. */
const READABLE = /^[\p{L}\p{M} ,]$/u;

/** A name that is percent-encoded, with its letters, spaces and commas as people write them. */
function readable(name: string): string {
  try {
    return name.replaceAll(/(?:%[0-9A-F]{2})+/g, (run) =>
      Array.from(decodeURIComponent(run), (sign) =>
        READABLE.test(sign) ? sign : encodeURIComponent(sign),
      ).join(''),
    );
  } catch {
    return name;
  }
}

/**
 * The name in a `key_id` of an operator: of a named one, or of an account of the identity provider. That has its subject, too, without
 * which whoever may choose a name at the provider could look like another operator.
 */
export function operatorIn(keyId: string | undefined): string | undefined {
  const name = /^(?:operator|oidc):(.+)/.exec(keyId ?? '')?.[1];
  return name === undefined ? undefined : readable(name);
}

/** Who did something: the type of an event's actor, or of who ended a reservation. Without a type, nobody asked for it. */
export function whoOf(type: string | undefined, tenant: string, keyId?: string): string {
  const operator = operatorIn(keyId);
  if (type === 'admin_on_behalf_of') {
    return `${operator ?? 'an operator'}, on behalf of ${tenant}`;
  }
  return operator ?? WHO[type ?? 'system'] ?? String(type);
}
