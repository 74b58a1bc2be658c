import { Resolver } from 'node:dns';
import { isIP } from 'node:net';
import { availableParallelism } from 'node:os';
import { DAY_MS } from '../ledger/index.js';
import { type EvidenceKeys, parseEvidenceKeys } from './evidence-keys.js';

/** Parses the text of a variable, which is never blank. Returns the value, or a description of what is allowed. */
export type Parse<T> = (text: string) => { readonly value: T } | { readonly allowed: string };

const MOST_WORKERS = 128;

export const workers: Parse<number> = (value) => {
  const parsed =
    value.toLowerCase() === 'auto'
      ? { value: Math.min(availableParallelism(), MOST_WORKERS) }
      : integer(1, MOST_WORKERS)(value);
  return 'value' in parsed ? parsed : { allowed: `${parsed.allowed}, or auto` };
};

export const ROLES = ['api', 'sweeper', 'dispatcher', 'janitor', 'archiver'] as const;
export type Role = (typeof ROLES)[number];

export interface Endpoint {
  readonly host: string;
  readonly port: number;
}

export const text: Parse<string> = (value) => ({ value });

export const flag: Parse<boolean> = (value) => {
  const lower = value.toLowerCase();
  if (lower === 'true' || lower === '1') {
    return { value: true };
  }
  return lower === 'false' || lower === '0' ? { value: false } : { allowed: 'true or false' };
};

/** A number of days, as milliseconds. */
export function days(min: number, max: number): Parse<number> {
  const parse = integer(min, max);
  return (text) => {
    const parsed = parse(text);
    return 'value' in parsed ? { value: parsed.value * DAY_MS } : parsed;
  };
}

export function integer(min: number, max: number): Parse<number> {
  const allowed = `a whole number from ${min} to ${max}`;
  return (value) => {
    const number = /^\d{1,12}$/.test(value) ? Number(value) : Number.NaN;
    return number >= min && number <= max ? { value: number } : { allowed };
  };
}

const BYTES_OF_UNIT: Readonly<Record<string, number>> = { '': 1, kb: 1024, mb: 1024 ** 2, gb: 1024 ** 3 };

/** As Redis writes sizes of memory. */
export const bytes: Parse<number> = (value) => {
  const [, number, unit = ''] = /^(\d{1,12})(kb|mb|gb)?$/i.exec(value) ?? [];
  const size = Number(number) * (BYTES_OF_UNIT[unit.toLowerCase()] ?? Number.NaN);
  return Number.isSafeInteger(size)
    ? { value: size }
    : { allowed: 'a number of bytes, or one with kb, mb or gb, such as 2gb' };
};

export function oneOf<T extends string>(...values: readonly T[]): Parse<T> {
  return (given) => {
    const value = values.find((candidate) => candidate === given.toLowerCase());
    return value === undefined ? { allowed: `one of ${values.join(', ')}` } : { value };
  };
}

export function minLength(length: number): Parse<string> {
  return (value) => (value.length >= length ? { value } : { allowed: `at least ${length} characters` });
}

export const roles: Parse<ReadonlySet<Role>> = (value) => {
  const names = value.split(',').map((name) => name.trim().toLowerCase());
  const known = names.flatMap((name) => ROLES.find((role) => role === name) ?? []);
  return known.length === names.length
    ? { value: new Set(known) }
    : { allowed: `a comma-separated list of ${ROLES.join(', ')}` };
};

export function endpoints(defaultPort: number): Parse<readonly Endpoint[]> {
  const pattern = /^(?:\[([0-9a-fA-F:.]+)\]|([^\s:/@[\]]+))(?::(\d{1,5}))?$/;
  return (value) => {
    const parsed = value.split(',').map((part) => {
      const match = pattern.exec(part.trim());
      const port = Number(match?.[3] ?? defaultPort);
      const host = match?.[1] ?? match?.[2];
      return host !== undefined && port >= 1 && port <= 65535 ? { host, port } : undefined;
    });
    const valid = parsed.filter((endpoint) => endpoint !== undefined);
    return valid.length === parsed.length
      ? { value: valid }
      : { allowed: `a comma-separated list of host:port (default port ${defaultPort})` };
  };
}

export const redisUrl: Parse<URL> = (value) => {
  const allowed = 'a URL such as redis://host:6379/0 or rediss://user:password@host:6379';
  const url = URL.canParse(value) ? new URL(value) : undefined;
  const isRedis =
    url !== undefined && (url.protocol === 'redis:' || url.protocol === 'rediss:') && url.hostname !== '';
  if (!isRedis || !/^\/?\d{0,5}$/.test(url.pathname) || url.search !== '' || url.hash !== '') {
    return { allowed };
  }
  try {
    decodeURIComponent(url.username + url.password);
  } catch {
    return { allowed: `${allowed}, with user and password percent-encoded` };
  }
  return { value: url };
};

/** 32 bytes as hex or base64, with either base64 alphabet. */
export const key32: Parse<Buffer> = (value) => {
  const key = /^[0-9a-fA-F]{64}$/.test(value)
    ? Buffer.from(value, 'hex')
    : /^[A-Za-z0-9+/_-]{43}=?$/.test(value)
      ? Buffer.from(value, 'base64')
      : Buffer.alloc(0);
  return key.length === 32 ? { value: key } : { allowed: '32 bytes, written as 64 hex digits or as base64' };
};

const NAMED_NETWORKS: readonly string[] = ['loopback', 'linklocal', 'uniquelocal'];

/** Accepts neither a hop count nor "trust all": with either, a client could spoof its address. */
export const proxies: Parse<readonly string[]> = (value) => {
  const entries = value.split(',').map((entry) => entry.trim().toLowerCase());
  return entries.every((entry) => NAMED_NETWORKS.includes(entry) || isNetwork(entry))
    ? { value: entries }
    : { allowed: `a comma-separated list of addresses, CIDR ranges, ${NAMED_NETWORKS.join(', ')}` };
};

function isNetwork(entry: string): boolean {
  const [address = '', bits, extra] = entry.split('/');
  // IPv4-mapped IPv6 is refused: a plain IPv4 range covers it, and prefixes under /96 would be meaningless.
  const maxBits = address.startsWith('::ffff:') ? 0 : ({ 4: 32, 6: 128 }[isIP(address)] ?? 0);
  return (
    maxBits > 0 &&
    extra === undefined &&
    (bits === undefined || (/^[1-9]\d{0,2}$/.test(bits) && Number(bits) <= maxBits))
  );
}

export const origins: Parse<readonly string[]> = (value) => {
  const entries = value.split(',').map((entry) => parseOrigin(entry.trim()));
  const valid = entries.filter((origin) => origin !== undefined);
  return valid.length === entries.length
    ? { value: valid }
    : {
        allowed:
          'a comma-separated list of origins such as https://dashboard.example.com or http://localhost:3000',
      };
};

/** The origin as browsers write it in `Origin`, or undefined if the text is anything but an origin. `*` is not supported. */
function parseOrigin(value: string): string | undefined {
  const url = URL.canParse(value) ? new URL(value) : undefined;
  const isOrigin =
    url !== undefined &&
    (url.protocol === 'https:' || url.protocol === 'http:') &&
    url.href === `${url.origin}/`;
  return isOrigin ? url.origin : undefined;
}

export const dnsServers: Parse<readonly string[]> = (value) => {
  const entries = value.split(',').map((entry) => entry.trim());
  return entries.every(isDnsServer)
    ? { value: entries }
    : { allowed: 'a comma-separated list of addresses such as 10.0.0.2, 10.0.0.2:5353 or [fd00::2]:53' };
};

/** Node decides: it accepts addresses with and without a port. */
function isDnsServer(address: string): boolean {
  try {
    new Resolver().setServers([address]);
    return true;
  } catch {
    return false;
  }
}

/** The URL of the deployment as envelopes name it: byte for byte, because its hash may be part of an identity. */
export const serverId: Parse<string> = (value) => {
  const url = URL.canParse(value) && value.length <= 256 ? new URL(value) : undefined;
  const isBase =
    url !== undefined &&
    (url.protocol === 'https:' || url.protocol === 'http:') &&
    url.href === value &&
    url.username + url.password + url.search + url.hash === '' &&
    url.pathname.endsWith('/v1');
  return isBase
    ? { value }
    : { allowed: 'the public base URL of the API with its /v1, such as https://cycles.example.com/v1' };
};

/** The base URL of a collector. Its path may be below that of a proxy. */
export const httpUrl: Parse<URL> = (value) => {
  const url = URL.canParse(value) ? new URL(value) : undefined;
  const isBase =
    url !== undefined &&
    (url.protocol === 'https:' || url.protocol === 'http:') &&
    url.username + url.password + url.search + url.hash === '';
  return isBase ? { value: url } : { allowed: 'a URL such as http://collector:4318, without credentials' };
};

const HEADER_NAME = /^[\w!#$%&'*+.^`|~-]+$/;
/** RFC 9110, section 5.5, without obsolete text. */
const HEADER_VALUE = /^[\t\x20-\x7e]*$/;

/** As in the specification of OpenTelemetry: like the W3C Baggage header, without properties. */
export const headerList: Parse<Readonly<Record<string, string>>> = (value) => {
  const entries = value.split(',').map((part) => headerOf(part.trim()));
  const valid = entries.filter((entry) => entry !== undefined);
  return valid.length === entries.length
    ? { value: Object.fromEntries(valid) }
    : { allowed: 'a comma-separated list of name=value with percent-encoded values' };
};

function headerOf(part: string): [name: string, value: string] | undefined {
  const at = part.indexOf('=');
  const name = part.slice(0, Math.max(at, 0)).trim();
  try {
    const value = decodeURIComponent(part.slice(at + 1).trim());
    return HEADER_NAME.test(name) && HEADER_VALUE.test(value) ? [name.toLowerCase(), value] : undefined;
  } catch {
    return undefined;
  }
}

export const share: Parse<number> = (value) =>
  /^(0|1|0?\.\d{1,9}|1\.0{1,9})$/.test(value)
    ? { value: Number(value) }
    : { allowed: 'a number from 0 to 1' };

export const positiveShare: Parse<number> = (value) => {
  const parsed = share(value);
  return 'value' in parsed && parsed.value > 0 ? parsed : { allowed: 'a number above 0, up to 1' };
};

export const evidenceKeys: Parse<EvidenceKeys> = (value) => {
  const parsed = parseEvidenceKeys(value);
  return 'keys' in parsed
    ? { value: parsed.keys }
    : { allowed: `a set of evidence keys (${parsed.problem})` };
};
