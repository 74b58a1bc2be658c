import type { LoggerService } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import type { NestFastifyApplication } from '@nestjs/platform-fastify';
import { AuditedRequests } from '../audit/index.js';
import {
  type HoldfastConfig,
  resolveAdminApiKey,
  resolveEvidenceKeys,
  resolveWebhookSecretKey,
} from '../config/index.js';
import { eventWebhooks } from '../events/index.js';
import { AnswerAdapter, CallerFinder, createFastify, OpenApiDocument, traceRequests } from '../http/index.js';
import { createLogger, type Logger, MetricsRegistry, RequestMetrics, Tracing } from '../telemetry/index.js';
import { AppModule, type AppModuleImport } from './app.module.js';

type PinoLevel = 'info' | 'error' | 'warn' | 'debug' | 'trace' | 'fatal';

/** Sends the lines of Nest and of its `Logger` class to our logger. */
export class NestLogger implements LoggerService {
  constructor(private readonly logger: Logger) {}

  /** At start Nest logs every module and route, which belongs to the debug level. */
  log(message: unknown, ...rest: unknown[]): void {
    this.write(isBootDetail(rest) ? 'debug' : 'info', message, rest);
  }

  /** A failure to start is also thrown; main.ts prints it in one line. */
  error(message: unknown, ...rest: unknown[]): void {
    this.write(isBootDetail(rest) ? 'debug' : 'error', message, rest);
  }

  warn(message: unknown, ...rest: unknown[]): void {
    this.write('warn', message, rest);
  }

  debug(message: unknown, ...rest: unknown[]): void {
    this.write('debug', message, rest);
  }

  verbose(message: unknown, ...rest: unknown[]): void {
    this.write('trace', message, rest);
  }

  fatal(message: unknown, ...rest: unknown[]): void {
    this.write('fatal', message, rest);
  }

  private write(level: PinoLevel, message: unknown, rest: readonly unknown[]): void {
    const context = rest.at(-1);
    const stack = rest.length > 1 ? rest[0] : undefined;
    const fields = {
      ...(typeof context === 'string' ? { context } : {}),
      ...(typeof stack === 'string' ? { stack } : {}),
      ...(message instanceof Error ? { err: message } : {}),
    };
    this.logger[level](fields, message instanceof Error ? message.message : textOf(message));
  }
}

const BOOT_CONTEXTS: ReadonlySet<unknown> = new Set([
  'NestFactory',
  'InstanceLoader',
  'RoutesResolver',
  'RouterExplorer',
  'NestApplication',
  'ExceptionHandler',
]);

function isBootDetail(rest: readonly unknown[]): boolean {
  return BOOT_CONTEXTS.has(rest.at(-1));
}

function textOf(message: unknown): string {
  return typeof message === 'string' ? message : JSON.stringify(message);
}

export interface AppOptions {
  readonly logger?: Logger;
  /** Additional modules, with which tests mount controllers of their own. */
  readonly modules?: readonly AppModuleImport[];
}

/**
 * Creates the whole application, ready to `listen`, for main.ts and for tests. With the embedded Redis, it loads or generates the
 * keys that the configuration lacks.
 * @throws whatever stops the start, without logging it.
 */
export async function createApp(
  config: HoldfastConfig,
  options: AppOptions = {},
): Promise<NestFastifyApplication> {
  const logger = options.logger ?? createLogger(config.logLevel);
  const adminApiKey = resolveAdminApiKey(config, logger);
  const webhookSecretEncryptionKey = resolveWebhookSecretKey(config, logger);
  const evidenceKeys = resolveEvidenceKeys(config, logger);
  const { fastify, routes, largeBodies, onRouterRefusal } = await createFastify(logger, config);
  const app = await NestFactory.create<NestFastifyApplication>(
    AppModule.forRoot(
      { ...config, adminApiKey, webhookSecretEncryptionKey, ...(evidenceKeys && { evidenceKeys }) },
      { logger, routes, modules: options.modules ?? [] },
    ),
    new AnswerAdapter(fastify as never),
    { bodyParser: false, abortOnError: false, logger: new NestLogger(logger) },
  );
  largeBodies.countIn(app.get(MetricsRegistry));
  const callers = app.get(CallerFinder, { strict: false });
  largeBodies.recogniseBy((request) => callers.turnOf(request));
  const requests = app.get(RequestMetrics);
  const audit = app.get(AuditedRequests);
  const tracing = app.get(Tracing);
  if (tracing.isOn) {
    traceRequests(fastify, tracing);
  }
  fastify.addHook('onResponse', (request, reply, done) => {
    requests.observe(request, reply);
    done();
  });
  fastify.addHook('onSend', (request, reply, payload, done) => {
    audit.follow(request, reply);
    done(null, payload);
  });
  onRouterRefusal((request, reply) => audit.follow(request, reply));
  app.get(OpenApiDocument).describe(app, eventWebhooks);
  return app;
}
