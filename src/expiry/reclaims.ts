import { Inject, Injectable } from '@nestjs/common';
import { CONFIG, type HoldfastConfig } from '../config/index.js';
import { StoreUnavailable } from '../redis/index.js';
import { MetricsRegistry } from '../telemetry/index.js';
import { countExpiry, EXPIRY_METRICS, type ExpiryOutcome } from './expiry.metrics.js';

/** Each round expires up to 100 overdue holds of the partition. Beyond this many rounds, the rest is left to the sweeper. */
const MAX_ROUNDS = 100;

interface Reclaimed {
  readonly status: 'RECLAIMED';
  readonly nowMs: number;
  readonly outcomes: readonly ExpiryOutcome[];
}

export type Decided<Answer extends { readonly status: string }> = Exclude<Answer, { status: 'RECLAIMED' }>;

/** How services call the scripts that reclaim due holds before they decide: see lua/lib/expiry.lua. */
@Injectable()
export class Reclaims {
  /** How long the records of holds are kept that such a script expires. */
  readonly retentionMs: number;

  constructor(
    private readonly metrics: MetricsRegistry,
    @Inject(CONFIG) config: HoldfastConfig,
  ) {
    metrics.of(EXPIRY_METRICS);
    this.retentionMs = config.auditRetentionMs;
  }

  /**
   * Runs the script until it decides. A run that only expired overdue holds is counted and followed by another one.
   * @param first what it has answered once
   * @throws StoreUnavailable when the partition has more overdue holds than one request should wait for.
   */
  async untilDecided<Answer extends { readonly status: string }>(
    run: () => Promise<Answer>,
    first?: Answer,
  ): Promise<Decided<Answer>> {
    let reply = first ?? (await run());
    for (let round = 1; isReclaimed(reply); round += 1) {
      for (const outcome of reply.outcomes) {
        countExpiry(this.metrics, 'access', outcome, reply.nowMs);
      }
      if (round === MAX_ROUNDS) {
        throw new StoreUnavailable('backlog');
      }
      reply = await run();
    }
    return reply as Decided<Answer>;
  }
}

function isReclaimed<Answer extends { readonly status: string }>(reply: Answer): reply is Answer & Reclaimed {
  return reply.status === 'RECLAIMED';
}
