import { Injectable } from '@nestjs/common';
import { RedisService } from '../../redis/index.js';
import { SecretBox, unlessBroken } from '../signing/secret-box.js';
import {
  openMaterial,
  type SealedMaterial,
  type SignedEvent,
  signedHeaders,
  type SigningMaterial,
} from '../signing/signing.js';
import type { AttemptOutcome } from './attempt.js';
import { WebhookTransport } from './webhook-transport.js';

/** An endpoint with its sealed signing material. */
export interface Endpoint extends SealedMaterial {
  readonly owner: string;
  readonly url: string;
}

interface SignedPost {
  readonly signed: SignedEvent;
  readonly body: Buffer;
  readonly timeoutMs: number;
  readonly spanId?: string | undefined;
}

/** Sends events to endpoints, each signed for its subscription. Nothing is ever sent unsigned. */
@Injectable()
export class SignedPosts {
  /** Decrypted secrets and headers. A changed subscription is a new object, and is decrypted again. */
  private readonly opened = new WeakMap<Endpoint, SigningMaterial>();

  constructor(
    private readonly redis: RedisService,
    private readonly box: SecretBox,
    private readonly transport: WebhookTransport,
  ) {}

  /** @returns undefined if the secret or the headers cannot be decrypted, and nothing was sent */
  async post(
    target: Endpoint,
    { signed, body, timeoutMs, spanId }: SignedPost,
  ): Promise<AttemptOutcome | undefined> {
    const material = unlessBroken(() => this.opened.get(target) ?? openMaterial(this.box, target));
    if (material === undefined) {
      return undefined;
    }
    this.opened.set(target, material);
    const nowMs = this.redis.clock.nowMs();
    const headers = signedHeaders({ ...material, event: signed, nowMs, body, spanId });
    return this.transport.post({ owner: target.owner, url: target.url, headers, body, timeoutMs });
  }
}
