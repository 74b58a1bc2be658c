import { includesRole, type OperatorRole } from '../auth/index.js';
import type { RoleOfClaim } from '../config/index.js';

type Claims = Readonly<Record<string, unknown>>;

/** The claim of a name, or at a path of names joined by dots, such as `realm_access.roles`. */
export function claimAt(claims: Claims, name: string): unknown {
  if (name in claims) {
    return claims[name];
  }
  let found: unknown = claims;
  for (const part of name.split('.')) {
    found = typeof found === 'object' && found !== null ? (found as Claims)[part] : undefined;
  }
  return found;
}

/** The most powerful role that the values of a claim stand for. */
export function roleIn(claim: unknown, roles: readonly RoleOfClaim[]): OperatorRole | undefined {
  const values: readonly unknown[] = Array.isArray(claim) ? claim : [claim];
  let best: OperatorRole | undefined;
  for (const { value, role } of roles) {
    if (values.includes(value) && (best === undefined || includesRole(role, best))) {
      best = role;
    }
  }
  return best;
}

const MAX_NAME = 128;

/** Some providers write booleans as texts, and some say nothing, because all of their addresses are verified. */
const NOT_UNVERIFIED: readonly unknown[] = [true, 'true', undefined];

/**
 * Names somebody in audit rows: by the e-mail address or name that people know, and by the subject, which nobody else at the provider can
 * have. Whoever may choose a name there could otherwise act under that of another.
 */
export function actorOf(claims: Claims & { readonly sub: string }): string {
  const email = NOT_UNVERIFIED.includes(claims['email_verified']) ? claims['email'] : undefined;
  const name = [email, claims['preferred_username'], claims['name']].find(
    (text) => typeof text === 'string' && text.trim() !== '',
  ) as string | undefined;
  const subject = plain(claims.sub);
  const shown = plain((name ?? claims.sub).trim().slice(0, MAX_NAME));
  return shown === subject ? `oidc:${subject}` : `oidc:${shown}#${subject}`;
}

/** encodeURIComponent refuses them. */
const LONE_SURROGATE = /[\ud800-\udfff]/gu;

/** Without spaces, control characters and the separators that stored texts have. */
function plain(text: string): string {
  return encodeURIComponent(text.replaceAll(LONE_SURROGATE, '?')).replaceAll(/%40|%2B/g, decodeURIComponent);
}
