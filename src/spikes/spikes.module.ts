import { Inject, Module, type OnModuleInit } from '@nestjs/common';
import { AuthModule } from '../auth/index.js';
import { CONFIG, type HoldfastConfig } from '../config/index.js';
import { WebhooksModule } from '../webhooks/index.js';
import { Worker, WorkerModule } from '../worker/index.js';
import { BurnRates } from './burn-rates.js';
import { ServiceRates } from './service-rates.js';
import { TenantRates } from './tenant-rates.js';

const SERVICE_RATES_MS = 10_000;

/** Events of rates and latencies that exceed a threshold. */
@Module({
  imports: [AuthModule, WebhooksModule, WorkerModule],
  providers: [BurnRates, ServiceRates, TenantRates],
})
export class SpikesModule implements OnModuleInit {
  constructor(
    private readonly worker: Worker,
    private readonly rates: ServiceRates,
    @Inject(CONFIG) private readonly config: HoldfastConfig,
  ) {}

  onModuleInit(): void {
    if (this.config.recordActivity) {
      this.worker.addRegular({
        name: 'service_rates',
        role: 'api',
        intervalMs: SERVICE_RATES_MS,
        run: () => this.rates.count(),
      });
    }
  }
}
