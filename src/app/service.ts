import cluster from 'node:cluster';
import 'reflect-metadata';
import { configOfWorker, type HoldfastConfig } from '../config/index.js';
import { listen } from '../http/index.js';
import { embeddedSocket } from '../redis/index.js';
import { joinGroupMetrics, type Logger, MetricsRegistry, ShutdownState } from '../telemetry/index.js';
import { createApp } from './create-app.js';
import { type Alive, BEAT_MS, type Listening, type Running } from './worker-messages.js';

/** The parent may have gone; then the worker ends by itself. */
function ignoreClosedChannel(): void {}

function beat(): void {
  process.send?.({ kind: 'alive' } satisfies Alive, undefined, undefined, ignoreClosedChannel);
}

/** Starts the whole service in this process, which may be one worker of several. */
export async function startService(given: HoldfastConfig, parentLogger: Logger): Promise<Running> {
  const { worker } = cluster;
  const config = worker === undefined ? given : configOfWorker(given, () => embeddedSocket(given.dataDir));
  const logger = worker === undefined ? parentLogger : parentLogger.child({ worker: worker.id });
  // The parent logs one line for all of its workers.
  const level = worker === undefined ? 'info' : 'debug';
  const app = await createApp(config, { logger });
  try {
    if (worker !== undefined) {
      joinGroupMetrics(app.get(MetricsRegistry).registry, logger);
    }
    const listeners = await listen(app, config);
    const { port, adminPort } = listeners;
    logger[level](
      { port, admin_port: adminPort, host: config.host, roles: [...config.roles] },
      'holdfast is listening',
    );
    process.send?.({ kind: 'listening', port, adminPort } satisfies Listening);
    if (worker !== undefined) {
      setInterval(beat, BEAT_MS).unref();
    }
    return {
      /** Turns readiness red, stops accepting connections, answers what is in flight, and closes the modules, in this order. */
      stop: async (signal) => {
        logger[level]({ signal }, 'holdfast is shutting down');
        app.get(ShutdownState).beginShutdown();
        await listeners.close(config.shutdownGraceMs);
        await app.close();
        logger[level]('holdfast has stopped');
      },
    };
  } catch (error) {
    await app.close();
    throw error;
  }
}
