import { type Parse, text } from './parsers.js';
import { NONE, optional, secret, setting } from './variable.js';

/** The roles that a log-in by an identity provider can have; one that only scrapes has a key. */
const ROLES = ['admin', 'operator', 'viewer'] as const;
export type ProviderRole = (typeof ROLES)[number];

/** A value of the role claim, and the role that it stands for. */
export interface RoleOfClaim {
  readonly value: string;
  readonly role: ProviderRole;
}

/** `role=value` pairs. A role may have several values, and a value may contain `=`, and a comma as `\,`. */
const rolesOfClaim: Parse<readonly RoleOfClaim[]> = (given) => {
  const pairs = given.split(/(?<!\\),/).map((pair) => {
    const [, name = '', text = ''] = /^\s*(\w+)\s*=(.*)$/.exec(pair) ?? [];
    const value = text.replaceAll('\\,', ',');
    const role = ROLES.find((known) => known === name);
    return role === undefined || value.trim() === '' ? undefined : { value: value.trim(), role };
  });
  const valid = pairs.filter((pair) => pair !== undefined);
  return valid.length === pairs.length
    ? { value: valid }
    : { allowed: `a comma-separated list of role=value, with the roles ${ROLES.join(', ')}` };
};

const LOOPBACK: readonly string[] = ['localhost', '127.0.0.1', '[::1]'];

/** An issuer as the provider itself writes it. Without TLS, anybody on the way could log in as an admin. */
const issuer: Parse<URL> = (given) => {
  const url = URL.canParse(given) ? new URL(given) : undefined;
  const isSafe = url?.protocol === 'https:' || (url?.protocol === 'http:' && LOOPBACK.includes(url.hostname));
  return url !== undefined && isSafe && url.search === '' && url.hash === '' && url.username === ''
    ? { value: url }
    : { allowed: 'an https:// URL (http:// only on this machine) without query, fragment or user' };
};

/** Log-in to the console by OpenID Connect. */
export const PROVIDER = {
  oidcIssuer: optional('OIDC_ISSUER', '(no log-in by a provider)', issuer).describe(
    'Issuer of an OpenID Connect provider that logs operators in to the console; needs OIDC_CLIENT_ID and OIDC_CLIENT_SECRET.',
    'Who logs in with the accounts of a company.',
  ),
  oidcClientId: optional('OIDC_CLIENT_ID', NONE, text).describe(
    'Client of the provider, with the redirect URI <origin of the console>/console/signed-in.',
    'Who sets OIDC_ISSUER.',
  ),
  oidcClientSecret: secret('OIDC_CLIENT_SECRET', NONE, text).describe(
    'Secret of the client; the same on every instance.',
    'Who sets OIDC_ISSUER.',
  ),
  oidcRoleClaim: setting('OIDC_ROLE_CLAIM', 'roles', text).describe(
    'Claim with the roles or groups of an account; dots lead into objects, as in realm_access.roles.',
    'Whose provider has them elsewhere, such as in groups.',
  ),
  oidcRoles: setting('OIDC_ROLES', 'admin=admin,operator=operator,viewer=viewer', rolesOfClaim).describe(
    "What the claim's values stand for: role=value, comma-separated, a role several times if need be, and a backslash before a comma in a value.",
    'Whose groups have other names.',
  ),
  oidcTenantClaim: optional('OIDC_TENANT_CLAIM', '(accounts are of the whole deployment)', text).describe(
    'Claim with the tenants that an account is confined to: ids, or how they begin, as in team-*; * stands for the whole deployment. An account without the claim is refused.',
    'Whose accounts may each act for some tenants only.',
  ),
};
