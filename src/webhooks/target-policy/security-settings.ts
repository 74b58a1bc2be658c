import { hash } from 'node:crypto';
import { Injectable } from '@nestjs/common';
import { ArrayMaxSize, IsArray, IsBoolean, IsString } from 'class-validator';
import type { Answer } from '../../answers/index.js';
import {
  orStoreError,
  RedisService,
  SYSTEM_OWNER,
  tagOfTenant,
  webhookSecurityKey,
} from '../../redis/index.js';
import {
  isListOf,
  isObject,
  isText,
  MaxJsonBytes,
  MaxLength,
  Optional,
  type Origin,
  readStored,
  Satisfies,
} from '../../wire/index.js';
import { AddressRules, isCidr, isUrlPattern } from './address-rules.js';

/** WebhookSecurityConfig of cycles-governance-admin-v0.1.25. */
export type WebhookSecurityConfig = Answer<'WebhookSecurityConfig'>;

/**
 * The protocol's ranges, and others that contain no public host: everything that IANA's special-purpose address registries do not call
 * globally reachable, multicast, and ranges formerly listed there (6to4 relays, site-local addresses). 2001::/23 holds Teredo,
 * benchmarking and ORCHID; the few globally reachable anycast addresses in it serve no webhooks.
 */
export const DEFAULT_SECURITY_CONFIG: WebhookSecurityConfig = {
  blocked_cidr_ranges: [
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

/** The body of updateWebhookSecurityConfig. Missing members get their defaults. */
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
  @MaxLength(2048, { each: true })
  @MaxJsonBytes(MAX_LIST_BYTES)
  @Satisfies('URLs with wildcards such as https://*.example.com/*', everyText(isUrlPattern))
  allowed_url_patterns?: string[];

  @Optional(IsBoolean())
  allow_http?: boolean;
}

/** How long a read configuration is used. A change through another instance takes effect within this time. */
const KEPT_MS = 1000;

/** A parsed configuration. */
export interface SecurityRules {
  readonly config: WebhookSecurityConfig;
  readonly addresses: AddressRules;
  /** Differs between different configurations. */
  readonly revision: string;
}

/** The operators' rules for where webhooks may be sent, shared by all instances. */
@Injectable()
export class SecuritySettings {
  private readonly key: string = webhookSecurityKey(tagOfTenant(SYSTEM_OWNER, this.redis.partitions));
  private known: SecurityRules = rulesOf('');
  private text = '';
  private readAt = -Infinity;
  private reading: Promise<SecurityRules> | undefined;

  constructor(private readonly redis: RedisService) {}

  /** The current configuration, read from Redis. @throws StoreUnavailable */
  async current(): Promise<SecurityRules> {
    return this.parse(await this.read());
  }

  /** The configuration, at most a second old. Concurrent calls share one read. @throws StoreUnavailable */
  async recent(): Promise<SecurityRules> {
    if (performance.now() - this.readAt < KEPT_MS) {
      return this.known;
    }
    this.reading ??= this.current().finally(() => {
      this.reading = undefined;
    });
    return this.reading;
  }

  /** The configuration read last, without reading it again. */
  lastSeen(): SecurityRules {
    return this.known;
  }

  /** Replaces the whole configuration: in this instance at once, in the others within a second. @throws StoreUnavailable */
  async replace(request: WebhookSecurityConfigDto, origin: Origin): Promise<WebhookSecurityConfig> {
    const text = JSON.stringify({ ...DEFAULT_SECURITY_CONFIG, ...request });
    await this.redis.scripts.call(
      'set_webhook_security',
      { webhookSecurity: this.key },
      { config: text, ...origin },
    );
    return this.parse(text).config;
  }

  private async read(): Promise<string> {
    return (await orStoreError(this.redis.client.get(this.key))) ?? '';
  }

  private parse(text: string): SecurityRules {
    this.readAt = performance.now();
    if (text !== this.text) {
      this.known = rulesOf(text);
      this.text = text;
    }
    return this.known;
  }
}

const isSecurityConfig = isObject<WebhookSecurityConfig>({
  blocked_cidr_ranges: isListOf(isText),
  allowed_url_patterns: isListOf(isText),
  allow_http: (value): value is boolean => typeof value === 'boolean',
});

/** @throws MalformedJson if the stored text is corrupt. */
function rulesOf(text: string): SecurityRules {
  const config =
    text === ''
      ? DEFAULT_SECURITY_CONFIG
      : readStored(text, isSecurityConfig, 'the security settings of webhooks');
  return {
    config,
    addresses: new AddressRules(config.blocked_cidr_ranges),
    revision: hash('sha256', text, 'base64url'),
  };
}
