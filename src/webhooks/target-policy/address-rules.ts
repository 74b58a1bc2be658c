import { BlockList, isIP } from 'node:net';

const CIDR = /^([0-9A-Fa-f:.]+)\/(\d{1,3})$/;
const FAMILY = { 4: 'ipv4', 6: 'ipv6' } as const;
const LONGEST_PREFIX = { 4: 32, 6: 128 } as const;

interface Range {
  readonly address: string;
  readonly prefix: number;
  readonly family: 4 | 6;
}

/** Reads a range such as `10.0.0.0/8`. Ranges of IPv4 in IPv6's form are none: the IPv4 range covers them. */
function rangeOf(text: string): Range | undefined {
  const [, address = '', bits] = CIDR.exec(text) ?? [];
  const family = isIP(address);
  const prefix = Number(bits);
  const known = family === 4 || (family === 6 && embeddedIn(address)?.mapped !== true);
  return known && prefix <= LONGEST_PREFIX[family] ? { address, prefix, family } : undefined;
}

export function isCidr(text: string): boolean {
  return rangeOf(text) !== undefined;
}

/** Which addresses must not be dialled. */
export class AddressRules {
  /** Apart, because a list would hold its IPv6 ranges against IPv4 addresses, too, in their mapped form. */
  private readonly blocked = { 4: new BlockList(), 6: new BlockList() };

  constructor(ranges: readonly string[]) {
    for (const text of ranges) {
      const range = rangeOf(text);
      if (range === undefined) {
        throw new Error(`${text} is no address range`);
      }
      this.blocked[range.family].addSubnet(range.address, range.prefix, FAMILY[range.family]);
    }
  }

  /**
   * Whether an address, or the IPv4 address that an IPv6 one leads to (mapped, compatible, NAT64, 6to4), is in a blocked range.
   * What is no address is blocked.
   */
  blocks(address: string): boolean {
    const bare = address.replace(/%.*$/, '');
    switch (isIP(bare)) {
      case 4:
        return this.blocked[4].check(bare, 'ipv4');
      case 6: {
        const embedded = embeddedIn(bare);
        const inner = embedded !== undefined && this.blocked[4].check(embedded.address, 'ipv4');
        // A mapped address is the IPv4 address itself, and ranges of IPv6 do not mean it.
        return inner || (embedded?.mapped !== true && this.blocked[6].check(bare, 'ipv6'));
      }
      default:
        return true;
    }
  }
}

interface Embedded {
  readonly address: string;
  readonly mapped: boolean;
}

/** The IPv4 address inside an IPv6 one that routers or stacks would send to it. */
function embeddedIn(address: string): Embedded | undefined {
  const groups = groupsOf(address);
  const leads = (...start: number[]): boolean => start.every((group, index) => groups[index] === group);
  const at = (index: number): string => {
    const [high, low] = [groups[index] as number, groups[index + 1] as number];
    return [high >> 8, high & 0xff, low >> 8, low & 0xff].join('.');
  };
  if (leads(0, 0, 0, 0, 0, 0xffff)) {
    return { address: at(6), mapped: true };
  }
  if (leads(0x64, 0xff9b, 0, 0, 0, 0) || (leads(0, 0, 0, 0, 0, 0) && (groups[6] as number) > 0)) {
    return { address: at(6), mapped: false };
  }
  return leads(0x2002) ? { address: at(1), mapped: false } : undefined;
}

/** The eight groups of an IPv6 address; URLs bring every spelling into one form without dots. */
function groupsOf(address: string): number[] {
  const text = new URL(`http://[${address}]/`).hostname.slice(1, -1);
  const [head = '', tail] = text.split('::');
  const read = (part: string | undefined): number[] => (part === undefined || part === '' ? [] : part.split(':').map((group) => Number.parseInt(group, 16)));
  const [first, last] = [read(head), read(tail)];
  return [...first, ...Array<number>(8 - first.length - last.length).fill(0), ...last];
}
