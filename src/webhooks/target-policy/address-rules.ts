import { BlockList, isIP } from 'node:net';
import ipaddr from 'ipaddr.js';

const CIDR = /^([0-9A-Fa-f:.]+)\/(\d{1,3})$/;
const FAMILY = { 4: 'ipv4', 6: 'ipv6' } as const;
const LONGEST_PREFIX = { 4: 32, 6: 128 } as const;

interface Range {
  readonly address: string;
  readonly prefix: number;
  readonly family: 4 | 6;
}

/** Reads a range such as `10.0.0.0/8`. Ranges of IPv4-mapped IPv6 addresses are not accepted, because the IPv4 range covers them. */
function rangeOf(text: string): Range | undefined {
  const [, address = '', bits] = CIDR.exec(text) ?? [];
  const family = isIP(address);
  const prefix = Number(bits);
  const known = family === 4 || (family === 6 && !isMapped(ipaddr.IPv6.parse(address).parts));
  return known && prefix <= LONGEST_PREFIX[family] ? { address, prefix, family } : undefined;
}

export function isCidr(text: string): boolean {
  return rangeOf(text) !== undefined;
}

/** The addresses that webhooks must not connect to. */
export class AddressRules {
  /** Two lists, because a single one would also check IPv4 addresses, in mapped form, against its IPv6 ranges. */
  private readonly blocked = { 4: new BlockList(), 6: new BlockList() };

  constructor(ranges: readonly string[]) {
    for (const text of ranges) {
      const range = rangeOf(text);
      if (range === undefined) {
        throw new Error(`${text} is not an address range`);
      }
      this.blocked[range.family].addSubnet(range.address, range.prefix, FAMILY[range.family]);
    }
  }

  /**
   * Whether an address is in a blocked range, or an IPv4 address embedded in an IPv6 one is (mapped, compatible, translated, NAT64,
   * 6to4, Teredo, ISATAP). Anything that is not an address is blocked.
   */
  blocks(address: string): boolean {
    const bare = address.replace(/%.*$/, '');
    switch (isIP(bare)) {
      case 4:
        return this.blocked[4].check(bare, 'ipv4');
      case 6: {
        const groups = ipaddr.IPv6.parse(bare).parts;
        const inner = embeddedIn(groups).some((embedded) => this.blocked[4].check(embedded, 'ipv4'));
        // A mapped address is an IPv4 address, so IPv6 ranges do not apply to it.
        return inner || (!isMapped(groups) && this.blocked[6].check(bare, 'ipv6'));
      }
      default:
        return true;
    }
  }
}

const MAPPED = [0, 0, 0, 0, 0, 0xffff];
/** 96-bit prefixes before an IPv4 address: mapped, translated by SIIT, NAT64. Compatible addresses exclude `::` and `::1`. */
const BEFORE_IPV4 = [MAPPED, [0, 0, 0, 0, 0xffff, 0], [0x64, 0xff9b, 0, 0, 0, 0]];
const COMPATIBLE = [0, 0, 0, 0, 0, 0];
const SIX_TO_FOUR = [0x2002];
const TEREDO = [0x2001, 0];
const LOCAL_NAT64 = [0x64, 0xff9b, 1];

const startsWith = (groups: readonly number[], start: readonly number[]): boolean =>
  start.every((group, index) => groups[index] === group);

function isMapped(groups: readonly number[]): boolean {
  return startsWith(groups, MAPPED);
}

/** The IPv4 addresses inside an IPv6 one to which routers, tunnels or network stacks would send. */
function embeddedIn(groups: readonly number[]): string[] {
  const found: string[] = [];
  const add = (high: number, low: number): void => {
    found.push([high >> 8, high & 0xff, low >> 8, low & 0xff].join('.'));
  };
  const [, second, third, fourth, fifth, sixth, seventh, eighth] = groups as [
    number,
    number,
    number,
    number,
    number,
    number,
    number,
    number,
  ];
  const isCompatible = startsWith(groups, COMPATIBLE) && seventh > 0;
  const isIsatap = (fifth & 0xfdff) === 0 && sixth === 0x5efe;
  if (isCompatible || isIsatap || BEFORE_IPV4.some((prefix) => startsWith(groups, prefix))) {
    add(seventh, eighth);
  }
  if (startsWith(groups, SIX_TO_FOUR)) {
    add(second, third);
  }
  if (startsWith(groups, TEREDO)) {
    // The server's address, and the client's with its bits inverted.
    add(third, fourth);
    add(~seventh & 0xffff, ~eighth & 0xffff);
  }
  if (startsWith(groups, LOCAL_NAT64)) {
    // RFC 6052 for a prefix of 96 bits, and for one of 48 bits, which skips bits 64 to 71.
    add(seventh, eighth);
    add(fourth, ((fifth & 0xff) << 8) | (sixth >> 8));
  }
  return found;
}

/** Scheme, host name, port and path. Scheme and port may each be a wildcard. */
const PATTERN = /^(https?|\*):\/\/(\[[^/\s\]]+\]|[^/\s:[\]]+)(?::(\d{1,5}|\*))?(\/\S*)?$/i;

/** Whether a text is a valid pattern: a URL with wildcards, such as `https://*.example.com/hooks/*`. */
export function isUrlPattern(text: string): boolean {
  return PATTERN.test(text);
}

/**
 * Whether a URL matches a pattern. A wildcard matches any characters, but the parts of the URL are matched separately: otherwise a
 * path could pose as the end of an allowed host. A pattern without a port means the scheme's default port, and one without a path
 * allows every path. If the pattern limits the path, a path with `..` in any encoding never matches, because the receiver or a proxy
 * in front of it may decode it and leave the allowed path.
 */
export function matchesPattern(url: URL, pattern: string): boolean {
  const [, scheme = '', name = '', port = '', path] = PATTERN.exec(pattern) ?? [];
  return (
    matchesGlob(url.protocol.slice(0, -1), scheme.toLowerCase()) &&
    matchesGlob(url.hostname, name.toLowerCase()) &&
    matchesGlob(url.port, port) &&
    (path === undefined ||
      path === '/*' ||
      (matchesGlob(url.pathname + url.search, path) && !mayClimb(url.pathname)))
  );
}

/** A path is decoded until nothing changes, but at most this often, for receivers behind proxies that each decode once. */
const DECODINGS = 8;

/** Whether decoding a normalized path can still produce a segment `.` or `..`. */
function mayClimb(path: string): boolean {
  let text = path;
  for (let round = 0; round < DECODINGS; round += 1) {
    let decoded: string;
    try {
      decoded = decodeURIComponent(text).normalize('NFKC');
    } catch {
      // Not UTF-8, such as overlong forms of dots and slashes. What a receiver makes of it is unknown.
      return true;
    }
    // Some servers ignore `;` and what follows it in a segment, and some end a path at a NUL.
    if (/(?:^|[/\\])\.{1,2}(?:[/\\;\0]|$)/.test(decoded)) {
      return true;
    }
    if (decoded === text) {
      return false;
    }
    text = decoded;
  }
  return true;
}

/** `*` matches any characters, including none. The time is at most proportional to the product of both lengths, whatever the pattern. */
export function matchesGlob(text: string, pattern: string): boolean {
  let [at, next] = [0, 0];
  let [star, resume] = [-1, 0];
  while (at < text.length) {
    if (pattern[next] === '*') {
      [star, resume] = [next, at];
      next += 1;
    } else if (pattern[next] === text[at]) {
      at += 1;
      next += 1;
    } else if (star >= 0) {
      resume += 1;
      [at, next] = [resume, star + 1];
    } else {
      return false;
    }
  }
  return /^\**$/.test(pattern.slice(next));
}
