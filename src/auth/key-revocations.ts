import { Inject, Injectable, type OnModuleInit } from '@nestjs/common';
import type { Cluster, Redis } from 'ioredis';
import { keyRevokedChannel, RedisService } from '../redis/index.js';
import { LOGGER, type Logger } from '../telemetry/index.js';
import { ApiKeyVerifier } from './api-key-verifier.js';
import { OperatorKeys } from './operator-keys.js';

/**
 * Subscribes to revocations and removes revoked keys, those of operators included, from the caches at once. Without a subscription, a revoked key works until its
 * cache entry expires, at most one second, so a lost subscription does not stop the service.
 */
@Injectable()
export class KeyRevocations implements OnModuleInit {
  constructor(
    private readonly redis: RedisService,
    private readonly verifier: ApiKeyVerifier,
    private readonly operators: OperatorKeys,
    @Inject(LOGGER) private readonly logger: Logger,
  ) {}

  async onModuleInit(): Promise<void> {
    const subscriber = this.redis.subscriber();
    subscriber.on('message', (_channel: string, secretHash: string) => {
      this.verifier.forget(secretHash);
      this.operators.forget(secretHash);
    });
    // A new connection has no subscriptions.
    subscriber.on('ready', () => void this.subscribe(subscriber));
    await this.subscribe(subscriber);
  }

  /** Never rejects. If it fails because the connection was lost, the next connection subscribes. */
  private async subscribe(subscriber: Redis | Cluster): Promise<void> {
    try {
      await subscriber.subscribe(keyRevokedChannel());
    } catch (error) {
      this.logger.warn(
        { err: error },
        'cannot subscribe to revoked keys; a revoked key works for up to another second',
      );
    }
  }
}
