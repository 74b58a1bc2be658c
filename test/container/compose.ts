import { readFileSync } from 'node:fs';
import { parse } from 'yaml';

export interface ComposeService {
  readonly image: string;
  readonly build?: string;
  readonly command?: readonly string[];
  readonly environment?: Readonly<Record<string, string>>;
  readonly ports?: readonly string[];
  readonly volumes?: readonly string[];
  readonly healthcheck?: { readonly test: readonly string[] };
  readonly depends_on?: Readonly<Record<string, { readonly condition: string }>>;
  readonly env_file?: readonly { readonly path: string; readonly required: boolean }[];
  readonly user?: string;
  readonly read_only?: boolean;
  readonly cap_drop?: readonly string[];
  readonly security_opt?: readonly string[];
  readonly mem_limit?: string;
  readonly stop_grace_period: string;
  readonly logging: { readonly driver: string; readonly options: Readonly<Record<string, string>> };
}

export interface Compose {
  readonly services: Readonly<Record<'redis' | 'holdfast', ComposeService>>;
  readonly volumes: Readonly<Record<string, unknown>>;
}

/** The file as `docker compose` interprets it with this environment. */
export function readCompose(file: URL, env: Readonly<Record<string, string>>): Compose {
  return interpolated(parse(readFileSync(file, 'utf8'), { merge: true }), env) as Compose;
}

/** Replaces `${NAME}`, `${NAME:-default}` and `${NAME:?message}` as the Compose specification says. */
function interpolated(value: unknown, env: Readonly<Record<string, string>>): unknown {
  if (typeof value === 'string') {
    return value.replace(
      /\$\{(\w+)(?:(:-|:\?)([^}]*))?\}/g,
      (_whole, name: string, operator?: string, text?: string) => {
        const set = env[name] ?? '';
        if (set === '' && operator === ':?') {
          throw new Error(`required variable ${name} is missing a value: ${text}`);
        }
        return set === '' && operator === ':-' ? (text ?? '') : set;
      },
    );
  }
  if (Array.isArray(value)) {
    return value.map((one) => interpolated(one, env));
  }
  return typeof value === 'object' && value !== null
    ? Object.fromEntries(Object.entries(value).map(([key, one]) => [key, interpolated(one, env)]))
    : value;
}

export function seconds(duration: string): number {
  const [, count] = /^(\d+)s$/.exec(duration) ?? [];
  if (count === undefined) {
    throw new Error(`tests do not support the duration ${duration}`);
  }
  return Number(count);
}

/** In bytes, with the units of Compose and of Redis, which agree. */
export function bytes(size: string): number {
  const [, count, unit = ''] = /^(\d+)(m|g)b?$/.exec(size) ?? [];
  if (count === undefined) {
    throw new Error(`tests do not support the size ${size}`);
  }
  return Number(count) * 1024 ** (unit === 'g' ? 3 : 2);
}
