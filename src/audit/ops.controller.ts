import { AsyncLocalStorage } from 'node:async_hooks';
import { Readable } from 'node:stream';
import { Controller, Get, Query, Req, Res } from '@nestjs/common';
import { ApiOperation, ApiProduces } from '@nestjs/swagger';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { Access, Answers, LimitedQuery, QuerySchema, ReservationId, sendJson } from '../http/index.js';
import { compileQuery, stringifyJson } from '../wire/index.js';
import { ExpirationsService, formatOf } from './expirations.service.js';
import { ExpirationsQueryDto, type Format, VerifyQueryDto } from './ops.dto.js';
import { StoryService } from './reservation-history.js';
import { VerifyService } from './verify.service.js';

const validateExpirations = compileQuery(ExpirationsQueryDto);
const validateVerify = compileQuery(VerifyQueryDto);

const EXPORT_TYPES: Readonly<Record<Exclude<Format, 'json'>, string>> = {
  ndjson: 'application/x-ndjson; charset=utf-8',
  csv: 'text/csv; charset=utf-8; header=present',
};

/** What operators ask about the ledger and its past. */
@Controller('ops')
export class OpsController {
  constructor(
    private readonly stories: StoryService,
    private readonly expirations: ExpirationsService,
    private readonly verification: VerifyService,
  ) {}

  @Get('reservations/:reservation_id')
  @Access({ plane: 'admin', admin: true })
  @LimitedQuery()
  @ApiOperation({
    operationId: 'getReservationStory',
    summary: 'All that is known of a reservation, whatever became of it',
  })
  @Answers(200, 'ReservationStory')
  async story(
    @ReservationId() reservationId: string,
    @Req() request: FastifyRequest,
    @Res() reply: FastifyReply,
  ): Promise<void> {
    sendJson(reply, 200, stringifyJson(await this.stories.tell(reservationId, request.trace)));
  }

  @Get('expirations')
  @Access({ plane: 'admin', admin: true })
  @LimitedQuery()
  @ApiOperation({
    operationId: 'listExpirations',
    summary: 'What expired in a window of time, in order; JSON, or NDJSON and CSV for export',
  })
  @QuerySchema(ExpirationsQueryDto, { tenant: 'acme' })
  @ApiProduces('application/json', 'application/x-ndjson', 'text/csv')
  @Answers(200, 'ExpirationListResponse')
  async expired(
    @Req() request: FastifyRequest,
    @Query() query: unknown,
    @Res() reply: FastifyReply,
  ): Promise<void> {
    const asked = validateExpirations(query);
    const format = formatOf(asked.format, request.headers.accept);
    if (format === 'json') {
      sendJson(reply, 200, await this.expirations.page(asked));
      return;
    }
    const portions = this.expirations.export(asked, format);
    // An error before the first portion is still answered as one; later ones cut the connection, so that nobody takes a part for the whole.
    const first = await portions.next();
    const inThisQuery = AsyncLocalStorage.snapshot();
    const whole = async function* (): AsyncGenerator<string> {
      // The stream asks for more from wherever its socket is drained.
      for (let portion = first; portion.done !== true; portion = await inThisQuery(() => portions.next())) {
        yield portion.value;
      }
    };
    void reply
      .code(200)
      .header('content-type', EXPORT_TYPES[format])
      .header('content-disposition', `attachment; filename="expirations.${format}"`)
      .send(Readable.from(whole(), { objectMode: false }));
  }

  @Get('verify')
  @Access({ plane: 'admin', admin: true })
  @LimitedQuery()
  @ApiOperation({
    operationId: 'verifyLedger',
    summary: 'Recompute every budget from its live reservations and report drift',
  })
  @QuerySchema(VerifyQueryDto, { tenant: 'acme' })
  @Answers(200, 'VerifyReport')
  async verify(@Query() query: unknown, @Res() reply: FastifyReply): Promise<void> {
    const { tenant, cursor } = validateVerify(query);
    sendJson(reply, 200, stringifyJson(await this.verification.page(tenant, cursor)));
  }
}
