import cluster from 'node:cluster';
import type { Running } from './app/worker-messages.js';
import { ConfigError, loadConfig, processEnvironment } from './config/index.js';
import { createLogger } from './telemetry/index.js';

/** The whole shutdown: the grace for requests in flight, and then closing the modules. */
const HARD_LIMIT_MS = 9500;

/** One process that does everything, or with HOLDFAST_WORKERS the parent of several. Each loads only the modules that it needs. */
async function start(): Promise<Running> {
  const config = loadConfig(processEnvironment());
  const logger = createLogger(config.logLevel);
  if (config.workers > 1 && cluster.isPrimary) {
    const { WorkerGroup } = await import('./app/worker-group.js');
    return WorkerGroup.start(config, logger);
  }
  const { startService } = await import('./app/service.js');
  return startService(config, logger);
}

/**
 * The first signal shuts down gracefully, even during the start. The second one exits at once, except in a worker: the second may be
 * the first one that its parent passes on.
 */
function stopOnSignal(starting: Promise<Running>): void {
  let stopping = false;
  for (const signal of ['SIGTERM', 'SIGINT'] as const) {
    process.on(signal, () => {
      if (stopping) {
        if (cluster.isPrimary) {
          process.exit(1);
        }
        return;
      }
      stopping = true;
      setTimeout(() => {
        process.stderr.write('holdfast: the shutdown took too long\n', () => process.exit(1));
      }, HARD_LIMIT_MS).unref();
      starting
        .then((running) => running.stop(signal))
        .then(
          () => process.exit(0),
          (error: unknown) => {
            process.stderr.write(failureLines(error), () => process.exit(1));
          },
        );
    });
  }
}

/** One line per problem, without a stack: a failed start is for the operator to fix. */
function failureLines(error: unknown): string {
  const lines =
    error instanceof ConfigError ? error.problems : [error instanceof Error ? error.message : String(error)];
  return lines.map((line) => `holdfast: ${line.replaceAll(/\s*\n\s*/g, ' ')}\n`).join('');
}

const starting = start();
stopOnSignal(starting);
starting.catch((error: unknown) => {
  process.stderr.write(failureLines(error), () => process.exit(1));
});
