import { Controller, Delete, Get, Patch, Put, Req } from '@nestjs/common';
import type { FastifyRequest } from 'fastify';
import type { Caller } from '../../auth/index.js';
import {
  Access,
  type Answer,
  Answers,
  BodySchema,
  LimitedChange,
  Operation,
  originOf,
  QuerySchema,
} from '../../http/index.js';
import { bodyOf, queryOf } from '../../wire/index.js';
import { BudgetLookupQueryDto, BudgetPeriodUpdateDto } from './budget.dto.js';
import { BudgetChangesService } from './budgets.service.js';
import { BudgetRecurrenceDto } from './recurrence.dto.js';
import { RecurrenceService } from './recurrence.service.js';

@Controller('ops/budgets/period')
export class BudgetPeriodController {
  constructor(private readonly changes: BudgetChangesService) {}

  @Patch()
  @Access({ plane: 'admin', admin: true, confinement: { scopeAt: 'query.scope' } })
  @LimitedChange()
  @Operation('updateBudgetPeriod', "Change a budget's period and rollover policy")
  @Answers(200, 'BudgetLedger')
  @BodySchema(BudgetPeriodUpdateDto, {
    period_end: '2100-01-01T00:00:00Z',
    rollover_policy: 'CARRY_FORWARD',
  })
  @QuerySchema(BudgetLookupQueryDto, { scope: 'tenant:acme', unit: 'TOKENS' })
  update(@Req() request: FastifyRequest): Promise<Answer<'BudgetLedger'>> {
    return this.changes.update(
      request.caller as Caller,
      queryOf(request, BudgetLookupQueryDto),
      bodyOf(request, BudgetPeriodUpdateDto),
      originOf(request),
    );
  }
}

@Controller('ops/budgets/recurrence')
export class BudgetRecurrenceController {
  constructor(private readonly recurrences: RecurrenceService) {}

  @Get()
  @Access({ plane: 'admin', admin: true, confinement: { scopeAt: 'query.scope' } })
  @Operation('getBudgetRecurrence', "Get the calendar of a budget's periods")
  @Answers(200, 'BudgetRecurrence')
  @QuerySchema(BudgetLookupQueryDto, { scope: 'tenant:acme', unit: 'TOKENS' })
  read(@Req() request: FastifyRequest): Promise<Answer<'BudgetRecurrence'>> {
    return this.recurrences.read(request.caller as Caller, queryOf(request, BudgetLookupQueryDto));
  }

  @Put()
  @Access({ plane: 'admin', admin: true, confinement: { scopeAt: 'query.scope' } })
  @LimitedChange()
  @Operation('setBudgetRecurrence', "Let a budget's periods follow the calendar")
  @Answers(200, 'BudgetRecurrence')
  @BodySchema(BudgetRecurrenceDto, { every: 'month', time_zone: 'Europe/Berlin', anchor_day: 1 })
  @QuerySchema(BudgetLookupQueryDto, { scope: 'tenant:acme', unit: 'TOKENS' })
  set(@Req() request: FastifyRequest): Promise<Answer<'BudgetRecurrence'>> {
    return this.recurrences.set(
      request.caller as Caller,
      queryOf(request, BudgetLookupQueryDto),
      bodyOf(request, BudgetRecurrenceDto),
      originOf(request),
    );
  }

  @Delete()
  @Access({ plane: 'admin', admin: true, confinement: { scopeAt: 'query.scope' } })
  @LimitedChange()
  @Operation('removeBudgetRecurrence', "End a budget's periods")
  @Answers(200, 'BudgetRecurrence')
  @QuerySchema(BudgetLookupQueryDto, { scope: 'tenant:acme', unit: 'TOKENS' })
  remove(@Req() request: FastifyRequest): Promise<Answer<'BudgetRecurrence'>> {
    return this.recurrences.remove(
      request.caller as Caller,
      queryOf(request, BudgetLookupQueryDto),
      originOf(request),
    );
  }
}
