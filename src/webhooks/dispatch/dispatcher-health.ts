import { Inject, Injectable, type OnModuleInit } from '@nestjs/common';
import { CONFIG, type HoldfastConfig } from '../../config/index.js';
import { HealthContributors } from '../../telemetry/index.js';
import { Dispatcher } from './dispatcher.service.js';

/** The dispatcher in readiness, where this instance dispatches. */
@Injectable()
export class DispatcherHealth implements OnModuleInit {
  constructor(
    private readonly contributors: HealthContributors,
    private readonly dispatcher: Dispatcher,
    @Inject(CONFIG) private readonly config: HoldfastConfig,
  ) {}

  onModuleInit(): void {
    if (this.config.roles.has('dispatcher')) {
      this.contributors.register({ name: 'dispatcher', check: () => this.dispatcher.health() });
    }
  }
}
