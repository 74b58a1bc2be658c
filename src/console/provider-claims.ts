import { includesRole, isTenantPattern, type OperatorRole } from '../auth/index.js';
import type { RoleOfClaim } from '../config/index.js';

type Claims = Readonly<Record<string, unknown>>;

/** The claim of a name, or at a path of names joined by dots, such as `realm_access.roles`. The names may have dots, too. */
export function claimAt(claims: Claims, name: string): unknown {
  if (Object.hasOwn(claims, name)) {
    return claims[name];
  }
  const parts = name.split('.');
  for (let count = 1; count < parts.length; count += 1) {
    const outer = claims[parts.slice(0, count).join('.')];
    if (isObject(outer)) {
      const found = claimAt(outer, parts.slice(count).join('.'));
      if (found !== undefined) {
        return found;
      }
    }
  }
  return undefined;
}

const isObject = (value: unknown): value is Claims => typeof value === 'object' && value !== null;

/** The values of a claim: of a list, the names of an object, or a text and each of its words. */
function valuesOf(claim: unknown): readonly unknown[] {
  if (typeof claim === 'string') {
    return [claim, ...claim.split(/\s+/)];
  }
  return Array.isArray(claim) ? claim : isObject(claim) ? Object.keys(claim) : [claim];
}

/** The most powerful role that the values of a claim stand for. */
export function roleIn(claim: unknown, roles: readonly RoleOfClaim[]): OperatorRole | undefined {
  const values = valuesOf(claim);
  let best: OperatorRole | undefined;
  for (const { value, role } of roles) {
    if (values.includes(value) && (best === undefined || includesRole(role, best))) {
      best = role;
    }
  }
  return best;
}

/** The tenants that the values of a claim confine an account to; none if no value is an id of a tenant or the beginning of one. */
export function tenantsIn(claim: unknown): readonly string[] {
  return [...new Set(valuesOf(claim).filter(isTenantPattern))];
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
