import { Inject, Injectable, type OnModuleInit } from '@nestjs/common';
import { CONFIG, type HoldfastConfig } from '../config/index.js';
import { HealthContributors } from '../telemetry/index.js';
import { ExpiryService } from './expiry.service.js';

/** The sweeper in readiness, where this instance sweeps: it is red when the sweep is too old or too late. */
@Injectable()
export class SweeperHealth implements OnModuleInit {
  constructor(
    private readonly contributors: HealthContributors,
    private readonly expiry: ExpiryService,
    @Inject(CONFIG) private readonly config: HoldfastConfig,
  ) {}

  onModuleInit(): void {
    if (this.config.roles.has('sweeper')) {
      this.contributors.register({ name: 'sweeper', check: () => this.expiry.health() });
    }
  }
}
