import type { Logger } from '../telemetry/index.js';
import type { RetentionJob, RetentionMetrics } from './retention.metrics.js';

/** One run of scheduled work, counted by its outcome. Never rejects. */
export async function counted(
  metrics: RetentionMetrics,
  logger: Logger,
  job: RetentionJob,
  work: () => Promise<void>,
): Promise<void> {
  try {
    await work();
    metrics.ran(job, 'success');
  } catch (error) {
    metrics.ran(job, 'failed');
    logger.warn({ err: error, job }, 'maintenance of the audit trail failed; it is tried again');
  }
}
