import type { AddressInfo } from 'node:net';
import { randomBytes } from 'node:crypto';
import {
  Body,
  Controller,
  Delete,
  Get,
  HttpException,
  Module,
  Param,
  Post,
  Query,
  Req,
  Res,
} from '@nestjs/common';
import { IsIn } from 'class-validator';
import type { NestFastifyApplication } from '@nestjs/platform-fastify';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { pino } from 'pino';
import { createApp } from '../../src/app/create-app.js';
import { type HoldfastConfig, loadConfig } from '../../src/config/config.js';
import { sendJson } from '../../src/http/errors/error-answer.js';
import { BodySchema, QuerySchema } from '../../src/http/openapi/document.js';
import { Refusal } from '../../src/ledger/refusal.js';
import { StoreUnavailable } from '../../src/redis/errors.js';
import { stringifyJson } from '../../src/wire/exact-json.js';
import { compileQuery, compileValidator } from '../../src/wire/rules/compile.js';
import { IsFreeObject, IsInt, IsInt64, Length, Optional } from '../../src/wire/rules/decorators.js';
import { sharedStoreUrl, storeSettings } from '../support/store.js';

export const ADMIN_KEY = 'admin-key-for-tests-only';

class ProbeDto {
  @Length(1, 256)
  key!: string;

  @Optional()
  @IsInt64({ min: 0 })
  amount?: number | bigint;

  @Optional()
  @IsFreeObject()
  metadata?: Record<string, unknown>;
}

class ProbeQuery {
  @Optional()
  @IsInt({ min: 1, max: 200 })
  limit?: number;

  @Optional()
  @IsIn(['asc', 'desc'])
  sort_dir?: string;
}

const validate = compileValidator(ProbeDto);
const validateQuery = compileQuery(ProbeQuery);

/** Lets a test keep a request in flight for as long as it needs. */
export class Gate {
  private readonly arrivals: (() => void)[] = [];
  private release: () => void = () => undefined;
  private readonly opened = new Promise<void>((done) => {
    this.release = done;
  });

  readonly entered = new Promise<void>((done) => {
    this.arrivals.push(done);
  });

  open(): void {
    this.release();
  }

  async pass(): Promise<void> {
    for (const arrived of this.arrivals) {
      arrived();
    }
    await this.opened;
  }
}

export const gates = new Map<string, Gate>();

@Controller('probe')
class ProbeController {
  @Post('echo')
  @BodySchema(ProbeDto, { key: 'probe' })
  echo(@Body() body: unknown, @Res() reply: FastifyReply): void {
    sendJson(reply, 200, stringifyJson(validate(body)));
  }

  @Get('list')
  @QuerySchema(ProbeQuery)
  list(@Query() query: unknown, @Res() reply: FastifyReply): void {
    sendJson(reply, 200, stringifyJson(validateQuery(query)));
  }

  @Get('items/:id')
  item(@Param('id') id: string): object {
    return { id, big: 9223372036854775807n };
  }

  @Delete('items/:id')
  remove(@Param('id') id: string): object {
    return { id };
  }

  @Get('trace')
  trace(@Req() request: FastifyRequest): object {
    return request.trace;
  }

  @Get('refuse')
  refuse(): never {
    throw new Refusal('BUDGET_EXCEEDED', 'not enough in tenant:acme', {
      scope: 'tenant:acme',
      missing: 9007199254740993n,
    });
  }

  @Get('unavailable')
  unavailable(): never {
    throw new StoreUnavailable('memory');
  }

  @Get('forbidden')
  forbidden(): never {
    throw new HttpException('no', 403);
  }

  @Get('defect/:id')
  defect(): never {
    throw new Error('secret internals');
  }

  @Get('gate/:name')
  async gate(@Param('name') name: string): Promise<object> {
    await gates.get(name)?.pass();
    return { passed: name };
  }
}

@Module({ controllers: [ProbeController] })
class ProbeModule {}

export interface ProbeApp {
  readonly app: NestFastifyApplication;
  readonly url: string;
  readonly port: number;
  /** Every log line of the app so far. */
  readonly logs: Record<string, unknown>[];
  close(): Promise<void>;
}

export interface ProbeOptions {
  readonly redisUrl?: string;
  readonly env?: NodeJS.ProcessEnv;
  readonly listen?: boolean;
}

export function probeConfig({ redisUrl, env = {} }: ProbeOptions = {}): HoldfastConfig {
  return loadConfig({
    ...storeSettings({ REDIS_URL: redisUrl ?? sharedStoreUrl() }),
    ADMIN_API_KEY: ADMIN_KEY,
    WEBHOOK_SECRET_ENCRYPTION_KEY: '5e'.repeat(32),
    HOLDFAST_ROLES: 'api',
    LOG_LEVEL: 'info',
    ...env,
  });
}

/** The real application on a free loopback port, with a controller that provokes each kind of response. */
export async function startProbeApp(options: ProbeOptions = {}): Promise<ProbeApp> {
  const logs: Record<string, unknown>[] = [];
  const logger = pino(
    { level: 'info' },
    { write: (line: string) => logs.push(JSON.parse(line) as Record<string, unknown>) },
  );
  const app = await createApp(probeConfig(options), { logger, modules: [ProbeModule] });
  if (options.listen === false) {
    return { app, url: '', port: 0, logs, close: () => app.close() };
  }
  await app.listen(0, '127.0.0.1');
  const { port } = app.getHttpServer().address() as AddressInfo;
  return { app, url: `http://127.0.0.1:${port}`, port, logs, close: () => app.close() };
}

export function randomName(): string {
  return `t-${randomBytes(6).toString('hex')}`;
}
