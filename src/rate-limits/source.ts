import { isIPv6 } from 'node:net';

/** IPv4 in IPv6's form, as a socket shows it that listens to both. */
const MAPPED = /^::ffff:(\d+\.\d+\.\d+\.\d+)$/i;
const GROUPS = 8;
const NETWORK_GROUPS = 4;

/**
 * Whom a limit counts an address as. An IPv6 address counts as its /64 network: one subscriber has as many addresses in
 * there as it likes, and could change them with every request. A closed socket has no address; these share one count.
 */
export function sourceOf(address: string | undefined): string {
  if (address === undefined || !isIPv6(address)) {
    return address ?? 'unknown';
  }
  return MAPPED.exec(address)?.[1] ?? networkOf(address);
}

function networkOf(address: string): string {
  const [head = '', tail] = address.split('::');
  const groups = head === '' ? [] : head.split(':');
  if (tail !== undefined) {
    // A dotted quad at the end stands for two groups.
    const after = tail === '' ? 0 : tail.split(':').length + (tail.includes('.') ? 1 : 0);
    const rest = tail === '' ? [] : tail.split(':');
    groups.push(...new Array<string>(GROUPS - groups.length - after).fill('0'), ...rest);
  }
  // Proxies write the same group with and without leading zeros.
  const network = groups.slice(0, NETWORK_GROUPS).map((group) => Number.parseInt(group, 16).toString(16));
  return `${network.join(':')}::/64`;
}
