import { Inject, Injectable, type OnModuleInit } from '@nestjs/common';
import { RedisService } from '../redis/index.js';
import { HealthContributors, type HealthReport } from './health-contributors.js';

/** The store in readiness: it answers, it does not evict, and it is not full. */
@Injectable()
export class StoreHealth implements OnModuleInit {
  constructor(
    @Inject(HealthContributors) private readonly contributors: HealthContributors,
    @Inject(RedisService) private readonly redis: RedisService,
  ) {}

  onModuleInit(): void {
    this.contributors.register({ name: 'redis', check: () => this.check() });
  }

  private async check(): Promise<HealthReport> {
    const { ready, problems, ...details } = await this.redis.status();
    return { up: ready, details: problems.length > 0 ? { ...details, problems } : details };
  }
}
