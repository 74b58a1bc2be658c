import { AsyncLocalStorage } from 'node:async_hooks';
import { Readable } from 'node:stream';
import { Controller, Get, Req, Res } from '@nestjs/common';
import { ApiProduces } from '@nestjs/swagger';
import type { FastifyReply, FastifyRequest } from 'fastify';
import {
  Access,
  type Answer,
  Answers,
  LimitedQuery,
  OF_RESERVATION,
  Operation,
  QuerySchema,
  ReservationId,
  sendJson,
  tenantsOf,
} from '../http/index.js';
import { EXPORT_TYPES, formatOf, queryOf } from '../wire/index.js';
import { ExpirationCountsQueryDto, ExpirationCounts } from './expiration-counts.js';
import { ExpirationsQueryDto, ExpirationsService, TenantFilterDto, tenantOf } from './expirations.service.js';
import { HistoryService } from './reservation-history.js';
import { VerifyService } from './verify.service.js';

/** The operators' queries on the ledger and its history. */
@Controller('ops')
export class OpsController {
  constructor(
    private readonly histories: HistoryService,
    private readonly expirations: ExpirationsService,
    private readonly counts: ExpirationCounts,
    private readonly verification: VerifyService,
  ) {}

  @Get('reservations/:reservation_id')
  @Access({ plane: 'admin', admin: true, confinement: OF_RESERVATION })
  @LimitedQuery()
  @Operation('getReservationHistory', 'Get the full history of a reservation, whatever its state')
  @Answers(200, 'ReservationHistory')
  history(@ReservationId() reservationId: string, @Req() request: FastifyRequest): Promise<object> {
    return this.histories.get(reservationId, request.trace);
  }

  @Get('expirations')
  @Access({ plane: 'admin', admin: true, confinement: { filteredAt: 'query.tenant_id' } })
  @LimitedQuery()
  @Operation(
    'listExpirations',
    'List the expirations in a time window, as JSON, or as NDJSON or CSV for export',
  )
  @QuerySchema(ExpirationsQueryDto, { tenant_id: 'acme' })
  @ApiProduces('application/json', 'application/x-ndjson', 'text/csv')
  @Answers(200, 'ExpirationListResponse')
  async listExpirations(@Req() request: FastifyRequest, @Res() reply: FastifyReply): Promise<void> {
    const dto = queryOf(request, ExpirationsQueryDto);
    const format = formatOf(dto.format, request.headers.accept);
    if (format === 'json') {
      sendJson(reply, 200, await this.expirations.page(dto, tenantsOf(request)));
      return;
    }
    const chunks = this.expirations.export(dto, format, tenantsOf(request));
    // An error before the first chunk gets an error response. A later one closes the connection, so that a partial export is not taken
    // for a complete one.
    const first = await chunks.next();
    const inThisQuery = AsyncLocalStorage.snapshot();
    const all = async function* (): AsyncGenerator<string> {
      // The stream reads on whenever its socket drains, which is outside this request's async context.
      for (let chunk = first; chunk.done !== true; chunk = await inThisQuery(() => chunks.next())) {
        yield chunk.value;
      }
    };
    void reply
      .code(200)
      .header('content-type', EXPORT_TYPES[format])
      .header('content-disposition', `attachment; filename="expirations.${format}"`)
      .send(Readable.from(all(), { objectMode: false }));
  }

  @Get('expirations/counts')
  @Access({ plane: 'admin', admin: true, confinement: { filteredAt: 'query.tenant_id' } })
  @LimitedQuery()
  @Operation('countExpirations', 'Count the expirations in each slot of a time window')
  @QuerySchema(ExpirationCountsQueryDto, { from: '0', to: '59999', slot_ms: 1000 })
  @Answers(200, 'ExpirationCountsResponse')
  countExpirations(@Req() request: FastifyRequest): Promise<Answer<'ExpirationCountsResponse'>> {
    return this.counts.page(queryOf(request, ExpirationCountsQueryDto), tenantsOf(request));
  }

  @Get('verify')
  @Access({ plane: 'admin', admin: true, confinement: { filteredAt: 'query.tenant_id' } })
  @LimitedQuery()
  @Operation('verifyLedger', 'Recompute every budget from its live reservations and report drift')
  @QuerySchema(TenantFilterDto, { tenant_id: 'acme' })
  @Answers(200, 'VerifyReport')
  verify(@Req() request: FastifyRequest): Promise<Answer<'VerifyReport'>> {
    const asked = queryOf(request, TenantFilterDto);
    return this.verification.page(tenantOf(asked), asked.cursor, tenantsOf(request));
  }
}
