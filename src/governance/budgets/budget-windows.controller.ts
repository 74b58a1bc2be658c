import { Controller, Delete, Get, Put, Req } from '@nestjs/common';
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
import { BudgetLookupQueryDto } from './budget.dto.js';
import { BudgetWindowsDto, WindowsService } from './windows.service.js';

@Controller('ops/budgets/windows')
export class BudgetWindowsController {
  constructor(private readonly windows: WindowsService) {}

  @Get()
  @Access({ plane: 'admin', admin: true, confinement: { scopeAt: 'query.scope' } })
  @Operation('getBudgetWindows', 'Get the windows of a budget and what is used of them')
  @Answers(200, 'BudgetWindows')
  @QuerySchema(BudgetLookupQueryDto, { scope: 'tenant:acme', unit: 'TOKENS' })
  read(@Req() request: FastifyRequest): Promise<Answer<'BudgetWindows'>> {
    return this.windows.read(request.caller as Caller, queryOf(request, BudgetLookupQueryDto));
  }

  @Put()
  @Access({ plane: 'admin', admin: true, confinement: { scopeAt: 'query.scope' } })
  @LimitedChange()
  @Operation(
    'setBudgetWindows',
    'Limit what may be used of a budget in a day, a week or another window of the calendar',
  )
  @Answers(200, 'BudgetWindows')
  @BodySchema(BudgetWindowsDto, {
    windows: [
      { name: 'day', limit: { unit: 'TOKENS', amount: 50_000 }, every: 'day', time_zone: 'Europe/Berlin' },
    ],
  })
  @QuerySchema(BudgetLookupQueryDto, { scope: 'tenant:acme', unit: 'TOKENS' })
  set(@Req() request: FastifyRequest): Promise<Answer<'BudgetWindows'>> {
    return this.windows.set(
      request.caller as Caller,
      queryOf(request, BudgetLookupQueryDto),
      bodyOf(request, BudgetWindowsDto),
      originOf(request),
    );
  }

  @Delete()
  @Access({ plane: 'admin', admin: true, confinement: { scopeAt: 'query.scope' } })
  @LimitedChange()
  @Operation('removeBudgetWindows', 'End the windows of a budget')
  @Answers(200, 'BudgetWindows')
  @QuerySchema(BudgetLookupQueryDto, { scope: 'tenant:acme', unit: 'TOKENS' })
  remove(@Req() request: FastifyRequest): Promise<Answer<'BudgetWindows'>> {
    return this.windows.remove(
      request.caller as Caller,
      queryOf(request, BudgetLookupQueryDto),
      originOf(request),
    );
  }
}
