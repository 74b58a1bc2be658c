import { hash } from 'node:crypto';
import { Injectable } from '@nestjs/common';
import {
  partitionCode,
  partitionOfTenant,
  RedisService,
  SYSTEM_OWNER,
  tagOf,
  toStoreError,
  webhookSecurityKey,
} from '../../redis/index.js';
import type { Origin } from '../../governance/index.js';
import { AddressRules } from './address-rules.js';
import {
  DEFAULT_RANGES_OF_0_5,
  DEFAULT_SECURITY_CONFIG,
  type WebhookSecurityConfig,
  type WebhookSecurityConfigDto,
} from './security-config.dto.js';

/** How long what was read may be gone by: a change made through another instance holds here after this. */
const KEPT_MS = 1000;

/** The configuration of one moment, ready to judge by. */
export interface SecurityRules {
  readonly config: WebhookSecurityConfig;
  readonly addresses: AddressRules;
  /** Differs between configurations that differ. */
  readonly revision: string;
}

/** The operators' configuration of where webhooks may go, one for all instances. */
@Injectable()
export class SecuritySettings {
  private readonly key: string;
  private known: SecurityRules = rulesOf('');
  private text = '';
  private readAt = -Infinity;
  private reading: Promise<SecurityRules> | undefined;

  constructor(private readonly redis: RedisService) {
    this.key = webhookSecurityKey(tagOf(partitionCode(partitionOfTenant(SYSTEM_OWNER, redis.partitions))));
  }

  /** As it is now. @throws StoreUnavailable */
  async current(): Promise<SecurityRules> {
    return this.take(await this.read());
  }

  /** As it was at most a second ago. Requests at the same time share one look. @throws StoreUnavailable */
  async recent(): Promise<SecurityRules> {
    if (performance.now() - this.readAt < KEPT_MS) {
      return this.known;
    }
    this.reading ??= this.current().finally(() => {
      this.reading = undefined;
    });
    return this.reading;
  }

  /** What was read last, without asking anew. */
  lastSeen(): SecurityRules {
    return this.known;
  }

  /** Replaces the configuration as a whole, here at once and on other instances within a second. @throws StoreUnavailable */
  async replace(request: WebhookSecurityConfigDto, origin: Origin): Promise<WebhookSecurityConfig> {
    const text = JSON.stringify({ ...DEFAULT_SECURITY_CONFIG, ...request });
    await this.redis.scripts.run('set_webhook_security', [this.key], [text, ...origin]);
    return this.take(text).config;
  }

  private async read(): Promise<string> {
    try {
      return (await this.redis.client.get(this.key)) ?? '';
    } catch (error) {
      throw toStoreError(error);
    }
  }

  private take(text: string): SecurityRules {
    this.readAt = performance.now();
    if (text !== this.text) {
      this.known = rulesOf(text);
      this.text = text;
    }
    return this.known;
  }
}

/** @throws Error when Holdfast did not write the text so. */
function rulesOf(text: string): SecurityRules {
  const config =
    text === '' ? DEFAULT_SECURITY_CONFIG : withDefaults(JSON.parse(text) as WebhookSecurityConfig);
  return {
    config,
    addresses: new AddressRules(config.blocked_cidr_ranges),
    revision: hash('sha256', text, 'base64url'),
  };
}

/** Ranges that were never chosen follow the default of this version. */
function withDefaults(config: WebhookSecurityConfig): WebhookSecurityConfig {
  const wasDefault = config.blocked_cidr_ranges.join() === DEFAULT_RANGES_OF_0_5.join();
  return wasDefault
    ? { ...config, blocked_cidr_ranges: DEFAULT_SECURITY_CONFIG.blocked_cidr_ranges }
    : config;
}
