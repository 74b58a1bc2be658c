import { ArrayMaxSize, IsArray, IsBoolean, IsString } from 'class-validator';
import { MaxJsonBytes, MaxLength, Optional, Satisfies } from '../../http/index.js';
import { isCidr } from './address-rules.js';
import { isUrlPattern } from './url-patterns.js';

/** WebhookSecurityConfig of cycles-governance-admin-v0.1.25. */
export interface WebhookSecurityConfig {
  readonly blocked_cidr_ranges: readonly string[];
  readonly allowed_url_patterns: readonly string[];
  readonly allow_http: boolean;
}

/** The default of versions up to 0.5, which is stored where a configuration left the ranges out. It means today's default. */
export const DEFAULT_RANGES_OF_0_5: readonly string[] = [
  '10.0.0.0/8',
  '172.16.0.0/12',
  '192.168.0.0/16',
  '127.0.0.0/8',
  '169.254.0.0/16',
  '::1/128',
  'fc00::/7',
  '0.0.0.0/8',
  '100.64.0.0/10',
  '192.0.0.0/24',
  '198.18.0.0/15',
  '224.0.0.0/4',
  '240.0.0.0/4',
  '::/128',
  '64:ff9b:1::/48',
  'fe80::/10',
  'fec0::/10',
  'ff00::/8',
];

/**
 * The document's ranges, and what else belongs to no public host: all that IANA's registries of special-purpose addresses do not
 * call globally reachable, multicast, and what was in them once (6to4 relays, site-local addresses). 2001::/23 holds Teredo,
 * benchmarking and ORCHID; the few reachable anycast addresses in it serve no webhooks.
 */
export const DEFAULT_SECURITY_CONFIG: WebhookSecurityConfig = {
  blocked_cidr_ranges: [
    ...DEFAULT_RANGES_OF_0_5,
    '192.0.2.0/24',
    '192.88.99.0/24',
    '198.51.100.0/24',
    '203.0.113.0/24',
    '100::/64',
    '100:0:0:1::/64',
    '2001::/23',
    '2001:db8::/32',
    '3fff::/20',
    '5f00::/16',
  ],
  allowed_url_patterns: [],
  allow_http: false,
};

const MAX_ENTRIES = 1000;
/** Room for a thousand IPv6 ranges, and for hundreds of patterns. */
const MAX_LIST_BYTES = 65_536;

const everyText =
  (test: (text: string) => boolean) =>
  (value: unknown): boolean =>
    Array.isArray(value) && value.every((entry) => typeof entry === 'string' && test(entry));

/** The body of updateWebhookSecurityConfig. What is left out gets its default. */
export class WebhookSecurityConfigDto {
  @Optional()
  @IsArray()
  @ArrayMaxSize(MAX_ENTRIES)
  @IsString({ each: true })
  @MaxJsonBytes(MAX_LIST_BYTES)
  @Satisfies('address ranges such as 10.0.0.0/8 or fc00::/7', everyText(isCidr))
  blocked_cidr_ranges?: string[];

  @Optional()
  @IsArray()
  @ArrayMaxSize(MAX_ENTRIES)
  @IsString({ each: true })
  @MaxLength(2048, { each: true })
  @MaxJsonBytes(MAX_LIST_BYTES)
  @Satisfies('URLs with wildcards such as https://*.example.com/*', everyText(isUrlPattern))
  allowed_url_patterns?: string[];

  @Optional()
  @IsBoolean()
  allow_http?: boolean;
}
