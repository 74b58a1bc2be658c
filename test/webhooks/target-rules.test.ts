import { describe, expect, test } from '@jest/globals';
import {
  AddressRules,
  isCidr,
  isUrlPattern,
  matchesGlob,
  matchesPattern,
} from '../../src/webhooks/target-policy/address-rules.js';
import { DEFAULT_SECURITY_CONFIG } from '../../src/webhooks/target-policy/security-settings.js';
import { shows } from '../compatibility/shows.js';

const rules = new AddressRules(DEFAULT_SECURITY_CONFIG.blocked_cidr_ranges);

describe('the default ranges', () => {
  test.each([
    '10.0.0.0',
    '10.255.255.255',
    '172.16.0.0',
    '172.31.255.255',
    '192.168.255.255',
    '127.0.0.1',
    '127.255.255.255',
    '169.254.169.254',
    '0.0.0.0',
    '0.1.2.3',
    '100.64.0.0',
    '100.127.255.255',
    '192.0.0.8',
    '198.18.0.0',
    '198.19.255.255',
    '224.0.0.1',
    '239.255.255.255',
    '240.0.0.1',
    '255.255.255.255',
    '::',
    '::1',
    '0:0:0:0:0:0:0:1',
    'fc00::',
    'fdff::1',
    'fe80::1',
    'fe80::1%eth0',
    'febf::1',
    'fec0::1',
    'ff00::1',
    'ff02::1',
    '::ffff:127.0.0.1',
    '::ffff:a00:1',
    '::FFFF:192.168.0.1',
    '0:0:0:0:0:ffff:10.0.0.1',
    '::10.0.0.1',
    '64:ff9b::7f00:1',
    '64:ff9b:1::1',
    '2002:7f00:1::',
    '2002:a9fe:a9fe::1',
    // IANA's special-purpose registries: the first and last address of each range, unless listed above.
    '192.0.0.0',
    '192.0.0.255',
    '192.0.2.1',
    '192.88.99.0',
    '192.88.99.255',
    '198.51.100.7',
    '203.0.113.255',
    '::ffff:0:127.0.0.1',
    '::ffff:0:a00:1',
    '0:0:0:0:ffff:0:c0a8:1',
    '100::',
    '100::ffff:ffff:ffff:ffff',
    '100:0:0:1::1',
    '2001::',
    '2001:0:5ef5:79fb::1',
    '2001:1::1',
    '2001:2::1',
    '2001:2:0:ffff::1',
    '2001:3::1',
    '2001:4:112::1',
    '2001:10::1',
    '2001:20::1',
    '2001:2f:ffff::1',
    '2001:30::1',
    '2001:1ff:ffff::1',
    '2001:db8::1',
    '2001:db8:ffff::1',
    '3fff::1',
    '3fff:fff:ffff::1',
    '5f00::1',
    '5f00:ffff::1',
    'fdff:ffff::1',
    'feff::1',
    '64:ff9b:1:ffff::1',
    '2002:c000:204::1',
    '64:ff9b::c000:204',
    '2606:4700::5efe:10.0.0.1',
    '2606:4700::200:5efe:127.0.0.1',
    'localhost',
    '',
    '1.2.3',
    '10.0.0.1.example',
  ])('block %s', (address) => {
    shows('webhook urls');
    expect(rules.blocks(address)).toBe(true);
  });

  test.each([
    '1.1.1.1',
    '9.255.255.255',
    '11.0.0.0',
    '172.15.255.255',
    '172.32.0.0',
    '192.167.255.255',
    '100.63.255.255',
    '100.128.0.0',
    '169.253.255.255',
    '223.255.255.255',
    '2606:4700:4700::1111',
    '2001:4860:4860::8888',
    '::ffff:1.1.1.1',
    '64:ff9b::101:101',
    '2002:101:101::1',
    'fbff::1',
    'fe7f::1',
    '191.255.255.255',
    '192.0.1.1',
    '192.0.3.0',
    '192.31.196.1',
    '192.52.193.1',
    '192.88.98.255',
    '192.88.100.0',
    '192.175.48.1',
    '198.51.99.255',
    '198.51.101.0',
    '203.0.112.255',
    '203.0.114.0',
    '::ffff:0:1.1.1.1',
    '100:0:0:2::1',
    '2001:200::1',
    '2001:db7:ffff::1',
    '2001:db9::1',
    '2620:4f:8000::1',
    '3ffe::1',
    '3fff:1000::1',
    '5eff::1',
    '5f01::1',
    '2606:4700::5efe:1.1.1.1',
  ])('let %s through', (address) => {
    expect(rules.blocks(address)).toBe(false);
  });
});

test('an empty list blocks no address, but everything that is not an address', () => {
  const none = new AddressRules([]);
  expect(
    ['127.0.0.1', '::1', '::ffff:10.0.0.1', '64:ff9b::7f00:1'].map((address) => none.blocks(address)),
  ).toEqual([false, false, false, false]);
  expect(none.blocks('localhost')).toBe(true);
});

test('an IPv6 range does not affect IPv4 addresses in IPv6 form', () => {
  const everything6 = new AddressRules(['::/0']);
  expect([everything6.blocks('2606:4700::1'), everything6.blocks('::ffff:1.1.1.1')]).toEqual([true, false]);
});

test('a range is an address and a matching prefix length', () => {
  expect(['10.0.0.0/8', '0.0.0.0/0', '1.2.3.4/32', '::/0', '::1/128', 'FC00::/7'].map(isCidr)).toEqual(
    Array(6).fill(true),
  );
  expect(
    [
      '10.0.0.0',
      '10.0.0/8',
      '10.0.0.0/33',
      '::/129',
      '::ffff:1.2.3.4/128',
      'a/8',
      '',
      '10.0.0.0/-1',
      '10.0.0.0/8 ',
    ].map(isCidr),
  ).toEqual(Array(9).fill(false));
});

test('an IPv4 address inside an IPv6 one is checked whatever IPv6 ranges are configured', () => {
  const private4 = new AddressRules(['10.0.0.0/8']);
  const ways = [
    '::ffff:10.0.0.1',
    '::10.0.0.1',
    '::ffff:0:10.0.0.1',
    '64:ff9b::10.0.0.1',
    '64:ff9b:1::10.0.0.1',
    '64:ff9b:1:a00:0:100::',
    '2002:a00:1::',
    // Teredo: the server, and the client with inverted bits.
    '2001:0:a00:1:0:0:fefe:fefe',
    '2001:0:101:101:0:0:f5ff:fffe',
    'fe80::5efe:10.0.0.1',
  ];
  expect(ways.filter((address) => !private4.blocks(address))).toEqual([]);
  expect(
    ways
      .map((address) =>
        address
          .replace('10.0.0.1', '1.1.1.1')
          .replace('a00:1:', '101:101:')
          .replace('a00:0:100', '101:1:100')
          .replace('f5ff:fffe', 'fefe:fefe'),
      )
      .filter((address) => private4.blocks(address)),
  ).toEqual([]);
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
    ['https://example.com/hooks/*', 'https://example.com/hooks/a%2fb%20c/..d/e../%C3%A4/...?x=../..%2f'],
    ['https://example.com/hooks/*', 'https://example.com/hooks/a/../b'],
    ['https://example.com', 'https://example.com/a%2f..%2fb'],
    ['https://example.com/*', 'https://example.com/a%2f..%2fb'],
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
    ...[
      '..%2fadmin',
      '..%2Fadmin',
      '%2e%2e%2fadmin',
      '%2E%2e%2Fadmin',
      'a/..%2f..%2fadmin',
      '..%5cadmin',
      '%2e%2e%5Cadmin',
      '..%252fadmin',
      '%252e%252e%252fadmin',
      '..%25252fadmin',
      '..%25255cadmin',
      '%c0%ae%c0%ae%c0%afadmin',
      '..;/admin',
      '%2e%2e;x=1/admin',
      'a%2f..',
      'a%2f.%2fb',
      '..%00/admin',
      '%ff',
      '%zz',
      '\uff0e\uff0e\uff0fadmin',
      '%ef%bc%8e%ef%bc%8e%ef%bc%8fadmin',
      `..${'%25'.repeat(20)}2fadmin`,
    ].map((path): [string, string] => ['https://example.com/hooks/*', `https://example.com/hooks/${path}`]),
  ])('%s does not allow %s', (pattern, url) => {
    expect(matchesPattern(new URL(url), pattern)).toBe(false);
  });

  test('names a scheme and a host', () => {
    expect(['https://a', 'http://*', '*://*/*', 'https://a:1/b c'].map(isUrlPattern)).toEqual([
      true,
      true,
      true,
      false,
    ]);
    expect(['*', 'a.b', 'ftp://a', 'https:///x', ''].map(isUrlPattern)).toEqual(Array(5).fill(false));
  });
});

test('a wildcard matches any characters, and many of them take no longer than the product of the lengths', () => {
  expect(['', 'a', 'ab', 'aab', 'b'].map((text) => matchesGlob(text, 'a*b'))).toEqual([
    false,
    false,
    true,
    true,
    false,
  ]);
  expect([
    matchesGlob('', '*'),
    matchesGlob('', ''),
    matchesGlob('abc', '**'),
    matchesGlob('abc', 'a*'),
    matchesGlob('abc', '*c*'),
  ]).toEqual(Array(5).fill(true));
  expect(matchesGlob('a'.repeat(2000), `${'*a'.repeat(500)}*b`)).toBe(false);
});
