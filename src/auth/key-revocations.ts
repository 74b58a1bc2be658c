import { Inject, Injectable, type OnModuleInit } from '@nestjs/common';
import type { Cluster, Redis } from 'ioredis';
import { keyRevokedChannel, RedisService } from '../redis/index.js';
import { LOGGER, type Logger } from '../telemetry/index.js';
import { ApiKeyVerifier } from './api-key-verifier.js';

/**
 * Hears of revoked keys, by the hash of their secret, and has them forgotten at once. While it cannot hear, the cache's own
 * lifetime bounds how long a revoked key still works, so a lost subscription is no reason to refuse service.
 */
@Injectable()
export class KeyRevocations implements OnModuleInit {
  constructor(
    private readonly redis: RedisService,
    private readonly verifier: ApiKeyVerifier,
    @Inject(LOGGER) private readonly logger: Logger,
  ) {}

  async onModuleInit(): Promise<void> {
    const subscriber = this.redis.subscriber();
    subscriber.on('message', (_channel: string, secretHash: string) => {
      this.verifier.forget(secretHash);
    });
    // A connection that is made anew has no subscriptions.
    subscriber.on('ready', () => void this.listen(subscriber));
    await this.listen(subscriber);
  }

  /** Never rejects. Should it fail with its connection, the next one tries again. */
  private async listen(subscriber: Redis | Cluster): Promise<void> {
    try {
      await subscriber.subscribe(keyRevokedChannel());
    } catch (error) {
      this.logger.warn(
        { err: error },
        'revoked API keys cannot be heard of; each keeps working for up to a second',
      );
    }
  }
}
