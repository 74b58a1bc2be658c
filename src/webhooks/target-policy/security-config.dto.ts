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

/** The document's ranges, and what else belongs to no public host: RFC 6890 and its IPv6 counterparts. */
export const DEFAULT_SECURITY_CONFIG: WebhookSecurityConfig = {
  blocked_cidr_ranges: [
    '10.0.0.0/8', '172.16.0.0/12', '192.168.0.0/16', '127.0.0.0/8', '169.254.0.0/16', '::1/128', 'fc00::/7',
    '0.0.0.0/8', '100.64.0.0/10', '192.0.0.0/24', '198.18.0.0/15', '224.0.0.0/4', '240.0.0.0/4',
    '::/128', '64:ff9b:1::/48', 'fe80::/10', 'fec0::/10', 'ff00::/8',
  ],
  allowed_url_patterns: [],
  allow_http: false,
};

const MAX_ENTRIES = 1000;
/** Room for a thousand IPv6 ranges, and for hundreds of patterns. */
const MAX_LIST_BYTES = 65_536;

const everyText = (test: (text: string) => boolean) => (value: unknown): boolean =>
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
