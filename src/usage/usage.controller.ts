import { Controller, Get, Req, Res } from '@nestjs/common';
import { ApiProduces } from '@nestjs/swagger';
import type { FastifyReply, FastifyRequest } from 'fastify';
import type { Caller } from '../auth/index.js';
import { Access, Answers, inTurn, Operation, QuerySchema, sendJson } from '../http/index.js';
import { EXPORT_TYPES, formatOf, queryOf, stringifyJson } from '../wire/index.js';
import { reportCsv, reportJson, reportNdjson } from './report-formats.js';
import { UsageQueryDto } from './usage.dto.js';
import { type UsageReport, UsageService } from './usage.service.js';

const SUMMARY = 'what was spent in a span of time, by time, scope, action and more, as JSON, CSV or NDJSON';
const EXAMPLE = {
  from: '2026-01-01T00:00:00Z',
  to: '2026-02-01T00:00:00Z',
  group_by: ['day', 'action_kind'],
};

/** Answers in the form that the request asks for. Forms that are only rows tell in headers how much they have of the span, and of its rows. */
async function answerReport(
  service: UsageService,
  request: FastifyRequest,
  reply: FastifyReply,
): Promise<void> {
  const asked = queryOf(request, UsageQueryDto);
  const report = await inTurn(request, reply, {
    admit: (owner, signal) => service.admit(owner, signal),
    work: (signal) => service.report(request.caller as Caller, asked, signal),
  });
  const format = formatOf(asked.format, request.headers.accept);
  if (format === 'json') {
    sendJson(reply, 200, stringifyJson({ ...reportJson(report), ...completeness(report) }));
    return;
  }
  void reply
    .code(200)
    .header('content-type', EXPORT_TYPES[format])
    .header('content-disposition', `attachment; filename="${fileName(report)}.${format}"`)
    .header('x-holdfast-complete-from-ms', String(report.completeFromMs))
    .header('x-holdfast-complete-through-ms', String(report.completeThroughMs))
    .header('x-holdfast-gaps', String(report.gaps.length))
    .header('x-holdfast-has-more', String(report.hasMore))
    .send(format === 'csv' ? reportCsv(report) : reportNdjson(report));
}

/** A file that ends at the limit says so. */
const fileName = ({ rows, hasMore }: UsageReport): string =>
  hasMore ? `usage-first-${rows.length}-rows` : 'usage';

function completeness({ completeFromMs, completeThroughMs, gaps, epochsMs }: UsageReport): object {
  return {
    complete_from_ms: completeFromMs,
    complete_through_ms: completeThroughMs,
    epochs_ms: epochsMs,
    gaps: gaps.map(({ partition, fromMs, toMs, file, why }) => ({
      from_ms: fromMs,
      to_ms: toMs,
      partition,
      file,
      why,
    })),
  };
}

/** Usage of one tenant, for its keys. */
@Controller('v1/usage')
export class UsageController {
  constructor(private readonly service: UsageService) {}

  @Get()
  @Access({ plane: 'runtime', tenant: 'usage:read' })
  @Operation('getUsage', `Report ${SUMMARY}`)
  @QuerySchema(UsageQueryDto, EXAMPLE)
  @ApiProduces('application/json', 'application/x-ndjson', 'text/csv')
  @Answers(200, 'UsageReport')
  async report(@Req() request: FastifyRequest, @Res() reply: FastifyReply): Promise<void> {
    await answerReport(this.service, request, reply);
  }
}

/** Usage of all tenants, for operators. */
@Controller('ops/usage')
export class OperatorsUsageController {
  constructor(private readonly service: UsageService) {}

  @Get()
  @Access({ plane: 'admin', admin: true, confinement: { filteredAt: 'query.tenant_id' } })
  @Operation('getUsageOfAll', `Report, of all tenants, ${SUMMARY}`)
  @QuerySchema(UsageQueryDto, EXAMPLE)
  @ApiProduces('application/json', 'application/x-ndjson', 'text/csv')
  @Answers(200, 'UsageReport')
  async report(@Req() request: FastifyRequest, @Res() reply: FastifyReply): Promise<void> {
    await answerReport(this.service, request, reply);
  }
}
