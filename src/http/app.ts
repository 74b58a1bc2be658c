import { NestFactory } from '@nestjs/core';
import { FastifyAdapter, type NestFastifyApplication } from '@nestjs/platform-fastify';
import { AuditTrail } from '../audit-trail/index.js';
import { AppModule, type AppModuleImport } from '../app.module.js';
import { resolveAdminApiKey, resolveWebhookSecretKey, type HoldfastConfig } from '../config/index.js';
import { createLogger, type Logger } from '../logging/index.js';
import { RequestMetrics } from '../metrics/index.js';
import { createFastify } from './fastify.js';
import { NestLogger } from './nest-logger.js';
import { OpenApiDocument } from './openapi.js';
import { useMetadataLimit } from './validation/index.js';

export interface AppOptions {
  readonly logger?: Logger;
  /** Modules beside the product's own; tests mount their controllers with them. */
  readonly modules?: readonly AppModuleImport[];
}

/**
 * The whole application, ready to `listen`; used by main.ts and by the tests. With the embedded Redis it finds or makes the keys that are not given.
 * @throws whatever stops the start; nothing has been printed about it then.
 */
export async function createApp(
  config: HoldfastConfig,
  options: AppOptions = {},
): Promise<NestFastifyApplication> {
  const logger = options.logger ?? createLogger(config.logLevel);
  useMetadataLimit(config.metadataLimitBytes);
  const adminApiKey = resolveAdminApiKey(config, logger);
  const webhookSecretEncryptionKey = resolveWebhookSecretKey(config, logger);
  const { fastify, routes, onRouterRefusal } = await createFastify(logger, config);
  const app = await NestFactory.create<NestFastifyApplication>(
    AppModule.forRoot(
      { ...config, adminApiKey, webhookSecretEncryptionKey },
      { logger, routes, modules: options.modules ?? [] },
    ),
    new FastifyAdapter(fastify as never),
    { bodyParser: false, abortOnError: false, logger: new NestLogger(logger) },
  );
  const requests = app.get(RequestMetrics);
  const audit = app.get(AuditTrail);
  fastify.addHook('onResponse', (request, reply, done) => {
    requests.observe(request, reply);
    done();
  });
  fastify.addHook('onSend', (request, reply, payload, done) => {
    audit.follow(request, reply);
    done(null, payload);
  });
  onRouterRefusal((request, reply) => audit.follow(request, reply));
  app.get(OpenApiDocument).describe(app);
  return app;
}
