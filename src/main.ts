import type { NestFastifyApplication } from '@nestjs/platform-fastify';
import 'reflect-metadata';
import { createApp } from './app/create-app.js';
import { ConfigError, type HoldfastConfig, loadConfig, processEnvironment } from './config/index.js';
import { listen, type Listeners } from './http/index.js';
import { createLogger, type Logger, ShutdownState } from './telemetry/index.js';

/** The whole shutdown: the grace for requests in flight, and then closing the modules. */
const HARD_LIMIT_MS = 9500;

interface Running {
  readonly app: NestFastifyApplication;
  readonly listeners: Listeners;
  readonly logger: Logger;
  readonly config: HoldfastConfig;
}

async function start(): Promise<Running> {
  const config = loadConfig(processEnvironment());
  const logger = createLogger(config.logLevel);
  const app = await createApp(config, { logger });
  try {
    const listeners = await listen(app, config);
    logger.info(
      { port: listeners.port, admin_port: listeners.adminPort, host: config.host, roles: [...config.roles] },
      'holdfast is listening',
    );
    return { app, listeners, logger, config };
  } catch (error) {
    await app.close();
    throw error;
  }
}

/** Turns readiness red, stops accepting connections, answers what is in flight, and closes the modules, in this order. */
async function stop({ app, listeners, logger, config }: Running, signal: string): Promise<void> {
  logger.info({ signal }, 'holdfast is shutting down');
  app.get(ShutdownState).beginShutdown();
  await listeners.close(config.shutdownGraceMs);
  await app.close();
  logger.info('holdfast has stopped');
}

/** The first signal shuts down gracefully, even during the start. The second one exits at once. */
function stopOnSignal(starting: Promise<Running>): void {
  let stopping = false;
  for (const signal of ['SIGTERM', 'SIGINT'] as const) {
    process.on(signal, () => {
      if (stopping) {
        process.exit(1);
      }
      stopping = true;
      setTimeout(() => {
        process.stderr.write('holdfast: the shutdown took too long\n', () => process.exit(1));
      }, HARD_LIMIT_MS).unref();
      starting
        .then((running) => stop(running, signal))
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
