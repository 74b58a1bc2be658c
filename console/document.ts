import 'reflect-metadata';
import { NestFactory } from '@nestjs/core';
import { FastifyAdapter } from '@nestjs/platform-fastify';
import { AppModule } from '../src/app/app.module.js';
import { loadConfig } from '../src/config/index.js';
import { eventWebhooks } from '../src/events/index.js';
import { OpenApiDocument } from '../src/http/index.js';
import { RouteTable } from '../src/http/route-table.js';
import { createLogger } from '../src/telemetry/index.js';

/** The service's OpenAPI document without a service: in preview mode, Nest reads the modules and creates nothing of them. */
export async function openApiDocument(environment: Readonly<Record<string, string>> = {}): Promise<string> {
  const app = await NestFactory.create(
    AppModule.forRoot(loadConfig(environment), { logger: createLogger('fatal'), routes: new RouteTable() }),
    new FastifyAdapter(),
    { preview: true, logger: false, abortOnError: false },
  );
  const document = new OpenApiDocument();
  document.describe(app, eventWebhooks);
  return document.json();
}
