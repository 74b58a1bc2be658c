import { describe, expect, test } from '@jest/globals';
import { AddressRules, isCidr } from '../../src/webhooks/target-policy/address-rules.js';
import { DEFAULT_SECURITY_CONFIG } from '../../src/webhooks/target-policy/security-config.dto.js';
import { isUrlPattern, matchesGlob, matchesPattern } from '../../src/webhooks/target-policy/url-patterns.js';

const rules = new AddressRules(DEFAULT_SECURITY_CONFIG.blocked_cidr_ranges);

describe('the default ranges', () => {
  test.each([
    '10.0.0.0', '10.255.255.255', '172.16.0.0', '172.31.255.255', '192.168.255.255', '127.0.0.1', '127.255.255.255', '169.254.169.254', '0.0.0.0', '0.1.2.3',
    '100.64.0.0', '100.127.255.255', '192.0.0.8', '198.18.0.0', '198.19.255.255', '224.0.0.1', '239.255.255.255', '240.0.0.1', '255.255.255.255',
    '::', '::1', '0:0:0:0:0:0:0:1', 'fc00::', 'fdff::1', 'fe80::1', 'fe80::1%eth0', 'febf::1', 'fec0::1', 'ff00::1', 'ff02::1',
    '::ffff:127.0.0.1', '::ffff:a00:1', '::FFFF:192.168.0.1', '0:0:0:0:0:ffff:10.0.0.1', '::10.0.0.1', '64:ff9b::7f00:1', '64:ff9b:1::1', '2002:7f00:1::', '2002:a9fe:a9fe::1',
    'localhost', '', '1.2.3', '10.0.0.1.example',
  ])('block %s', (address) => {
    expect(rules.blocks(address)).toBe(true);
  });

  test.each([
    '1.1.1.1', '9.255.255.255', '11.0.0.0', '172.15.255.255', '172.32.0.0', '192.167.255.255', '100.63.255.255', '100.128.0.0', '169.253.255.255', '223.255.255.255',
    '2606:4700:4700::1111', '2001:4860:4860::8888', '::ffff:1.1.1.1', '64:ff9b::101:101', '2002:101:101::1', 'fbff::1', 'fe7f::1',
  ])('let %s through', (address) => {
    expect(rules.blocks(address)).toBe(false);
  });
});

test('no ranges block no address, and still whatever is none', () => {
  const none = new AddressRules([]);
  expect(['127.0.0.1', '::1', '::ffff:10.0.0.1', '64:ff9b::7f00:1'].map((address) => none.blocks(address))).toEqual([false, false, false, false]);
  expect(none.blocks('localhost')).toBe(true);
});

test('a range of IPv6 says nothing of IPv4 addresses in its form', () => {
  const everything6 = new AddressRules(['::/0']);
  expect([everything6.blocks('2606:4700::1'), everything6.blocks('::ffff:1.1.1.1')]).toEqual([true, false]);
});

test('a range is an address and a length that fits', () => {
  expect(['10.0.0.0/8', '0.0.0.0/0', '1.2.3.4/32', '::/0', '::1/128', 'FC00::/7'].map(isCidr)).toEqual(Array(6).fill(true));
  expect(['10.0.0.0', '10.0.0/8', '10.0.0.0/33', '::/129', '::ffff:1.2.3.4/128', 'a/8', '', '10.0.0.0/-1', '10.0.0.0/8 '].map(isCidr)).toEqual(Array(9).fill(false));
});

describe('a pattern', () => {
  test.each([
    ['https://*.example.com/*', 'https://a.example.com/x'],
    ['https://*.example.com/*', 'https://a.b.example.com/'],
    ['https://example.com', 'https://example.com/anything?q=1'],
    ['https://example.com/hooks/*', 'https://EXAMPLE.com/hooks/a/b'],
    ['HTTPS://Example.com/', 'https://example.com'],
    ['*://example.com', 'http://example.com/'],
    ['https://example.com:8443/*', 'https://example.com:8443/x'],
    ['https://example.com:*/*', 'https://example.com:8443/x'],
    ['https://[2606:2800::1]/*', 'https://[2606:2800:0::1]/x'],
    ['https://example.com/*.json?*', 'https://example.com/a.json?b=c'],
  ])('%s allows %s', (pattern, url) => {
    expect(matchesPattern(new URL(url), pattern)).toBe(true);
  });

  test.each([
    ['https://*.example.com/*', 'https://example.com/'],
    ['https://*.example.com/*', 'https://evil.com/.example.com/x'],
    ['https://*.example.com/*', 'https://evil.com/?.example.com/'],
    ['https://*.example.com/*', 'https://a.example.com.evil.com/'],
    ['https://*.example.com/*', 'http://a.example.com/'],
    ['https://example.com', 'https://example.com:8443/'],
    ['https://example.*', 'https://example.com:8443/'],
    ['https://example.com/hooks/*', 'https://example.com/hooks/../admin'],
    ['https://example.com/hooks', 'https://example.com/hooks/a'],
  ])('%s does not allow %s', (pattern, url) => {
    expect(matchesPattern(new URL(url), pattern)).toBe(false);
  });

  test('names a scheme and a host', () => {
    expect(['https://a', 'http://*', '*://*/*', 'https://a:1/b c'].map(isUrlPattern)).toEqual([true, true, true, false]);
    expect(['*', 'a.b', 'ftp://a', 'https:///x', ''].map(isUrlPattern)).toEqual(Array(5).fill(false));
  });
});

test('a wildcard stands for any characters, and many of them take no longer than their product', () => {
  expect(['', 'a', 'ab', 'aab', 'b'].map((text) => matchesGlob(text, 'a*b'))).toEqual([false, false, true, true, false]);
  expect([matchesGlob('', '*'), matchesGlob('', ''), matchesGlob('abc', '**'), matchesGlob('abc', 'a*'), matchesGlob('abc', '*c*')]).toEqual(Array(5).fill(true));
  expect(matchesGlob('a'.repeat(2000), `${'*a'.repeat(500)}*b`)).toBe(false);
});
