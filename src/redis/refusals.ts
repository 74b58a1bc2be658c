import { Cluster, type Redis } from 'ioredis';
import type { Logger } from '../telemetry/index.js';
import { StoreUnavailable, type StoreUnavailableReason, toStoreError } from './errors.js';
import { metaKey } from './meta-key.js';
import type { RedisCounts } from './redis.metrics.js';
import type { ScriptRegistry } from './scripts.js';

interface Streak {
  readonly beganAt: number;
  refused: number;
  /** Whether Redis has refused something since the last check. */
  goesOn: boolean;
}

/**
 * Finds out whether Redis would run scripts, and logs replies by which Redis refuses to serve: once when a streak of them begins, and once when it is over. It is over when a check
 * succeeds that nothing was refused before, because Redis may refuse some scripts and not that of the check.
 */
export class Refusals {
  private readonly streaks = new Map<StoreUnavailableReason, Streak>();

  constructor(
    private readonly client: Redis | Cluster,
    private readonly scripts: Pick<ScriptRegistry, 'probe'>,
    private readonly counts: Pick<RedisCounts, 'unavailable'>,
    private readonly logger: Logger,
  ) {}

  /** Why Redis would refuse scripts now, if it would. @throws StoreUnavailable if it does not answer */
  async find(): Promise<string[]> {
    try {
      const denied = await this.scripts.probe();
      if (this.client instanceof Cluster) {
        // A cluster that is down refuses only commands with keys.
        await this.client.exists(metaKey());
      }
      if (denied.length === 0) {
        return [];
      }
      const commands = denied.join(', ');
      this.refused('permission', `NOPERM: ${commands}`);
      return [`${new StoreUnavailable('permission').message}: ${commands}`];
    } catch (error) {
      const failure = toStoreError(error);
      if (!(failure instanceof StoreUnavailable) || failure.refusal === undefined) {
        throw failure;
      }
      this.refused(failure.reason, failure.refusal);
      return [failure.message];
    }
  }

  /** Counts a request that the store could not serve, whether it refused to or did not answer. */
  couldNotServe({ reason, refusal }: StoreUnavailable): void {
    this.counts.unavailable.inc({ reason });
    if (refusal !== undefined) {
      this.refused(reason, refusal);
    }
  }

  private refused(reason: StoreUnavailableReason, reply: string): void {
    const streak = this.streaks.get(reason);
    if (streak === undefined) {
      this.streaks.set(reason, { beganAt: performance.now(), refused: 1, goesOn: true });
      this.logger.error({ reason, reply }, 'REDIS REFUSES TO SERVE; requests get 503');
    } else {
      streak.refused += 1;
      streak.goesOn = true;
    }
  }

  /** A check found that Redis serves: it is not full either. */
  served(): void {
    for (const [reason, streak] of this.streaks) {
      if (streak.goesOn) {
        streak.goesOn = false;
      } else {
        this.streaks.delete(reason);
        const { refused, beganAt } = streak;
        this.logger.warn(
          { reason, refused, lasted_ms: Math.round(performance.now() - beganAt) },
          'Redis serves again',
        );
      }
    }
  }
}
