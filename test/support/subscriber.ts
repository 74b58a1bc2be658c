import { tagOfWebhookId, webhookKey } from '../../src/redis/keyspace.js';
import { expectStatus, type Answer, type Holdfast, type Json, type TestTenant } from './holdfast.js';
import type { StoredRecords } from './stored-records.js';

/**
 * An address that is unused but formally public: no name has to be resolved, and these tests never send
 * anything there.
 */
export const PUBLIC_URL = 'https://93.184.216.34/hook';

const PARTITIONS = 64;

/** A tenant whose key has all webhook permissions, and shortcuts for subscriptions. */
export class Subscriber implements TestTenant {
  private constructor(
    readonly id: string,
    readonly key: string,
    private readonly holdfast: Holdfast,
    private readonly stored: StoredRecords,
  ) {}

  static async make(holdfast: Holdfast, stored: StoredRecords): Promise<Subscriber> {
    const { id } = await holdfast.createTenant();
    return new Subscriber(
      id,
      await holdfast.createKey(id, { permissions: ['webhooks:read', 'webhooks:write', 'admin:read'] }),
      holdfast,
      stored,
    );
  }

  /** The same tenant with another key. */
  async confined(settings: Record<string, unknown>): Promise<Subscriber> {
    return new Subscriber(
      this.id,
      await this.holdfast.createKey(this.id, settings),
      this.holdfast,
      this.stored,
    );
  }

  create(more: Record<string, unknown> = {}): Promise<Answer> {
    return this.call('POST', '', { url: PUBLIC_URL, event_types: ['reservation.expired'], ...more });
  }

  async made(more: Record<string, unknown> = {}): Promise<Json> {
    return expectStatus(await this.create(more), 201).subscription;
  }

  get(id: string): Promise<Answer> {
    return this.call('GET', `/${id}`);
  }

  list(query = ''): Promise<Answer> {
    return this.call('GET', query);
  }

  patch(id: string, body: Record<string, unknown>): Promise<Answer> {
    return this.call('PATCH', `/${id}`, body);
  }

  remove(id: string): Promise<Answer> {
    return this.call('DELETE', `/${id}`);
  }

  /** The tenant's stored events about webhooks, oldest first. */
  async events(): Promise<Readonly<Record<string, string>>[]> {
    return (await this.stored.events(this.id))
      .filter(({ type }) => type.startsWith('webhook.'))
      .map(({ fields }) => fields);
  }

  private call(method: string, path: string, body?: unknown): Promise<Answer> {
    return this.holdfast.call(method, `/v1/webhooks${path}`, { key: this.key, body });
  }
}

export function storedWebhookKey(id: string): string {
  return webhookKey(tagOfWebhookId(id, PARTITIONS) ?? '', id);
}
