import { Controller, Delete, Get, Put, Req, Res } from '@nestjs/common';
import { ApiOperation } from '@nestjs/swagger';
import type { FastifyReply, FastifyRequest } from 'fastify';
import type { Caller } from '../../auth/index.js';
import {
  Access,
  Answers,
  BodySchema,
  LimitedChange,
  originOf,
  QuerySchema,
  sendAnswer,
} from '../../http/index.js';
import { compileQuery, compileValidator } from '../../wire/index.js';
import { BudgetLookupQueryDto } from './budget.dto.js';
import { BudgetWindowsDto, WindowsService } from './windows.service.js';

const validateLookup = compileQuery(BudgetLookupQueryDto);
const validateWindows = compileValidator(BudgetWindowsDto);

@Controller('ops/budgets/windows')
export class BudgetWindowsController {
  constructor(private readonly windows: WindowsService) {}

  @Get()
  @Access({ plane: 'admin', admin: true, confinement: { scopeAt: 'query.scope' } })
  @ApiOperation({
    operationId: 'getBudgetWindows',
    summary: 'Get the windows of a budget and what is used of them',
  })
  @Answers(200, 'BudgetWindows')
  @QuerySchema(BudgetLookupQueryDto, { scope: 'tenant:acme', unit: 'TOKENS' })
  async read(@Req() request: FastifyRequest, @Res() reply: FastifyReply): Promise<void> {
    const found = await this.windows.read(request.caller as Caller, validateLookup(request.query));
    sendAnswer<'BudgetWindows'>(reply, 200, found);
  }

  @Put()
  @Access({ plane: 'admin', admin: true, confinement: { scopeAt: 'query.scope' } })
  @LimitedChange()
  @ApiOperation({
    operationId: 'setBudgetWindows',
    summary: 'Limit what may be used of a budget in a day, a week or another window of the calendar',
  })
  @Answers(200, 'BudgetWindows')
  @BodySchema(BudgetWindowsDto, {
    windows: [
      { name: 'day', limit: { unit: 'TOKENS', amount: 50_000 }, every: 'day', time_zone: 'Europe/Berlin' },
    ],
  })
  @QuerySchema(BudgetLookupQueryDto, { scope: 'tenant:acme', unit: 'TOKENS' })
  async set(@Req() request: FastifyRequest, @Res() reply: FastifyReply): Promise<void> {
    const changed = await this.windows.set(
      request.caller as Caller,
      validateLookup(request.query),
      validateWindows(request.body),
      originOf(request),
    );
    sendAnswer<'BudgetWindows'>(reply, 200, changed);
  }

  @Delete()
  @Access({ plane: 'admin', admin: true, confinement: { scopeAt: 'query.scope' } })
  @LimitedChange()
  @ApiOperation({ operationId: 'removeBudgetWindows', summary: 'End the windows of a budget' })
  @Answers(200, 'BudgetWindows')
  @QuerySchema(BudgetLookupQueryDto, { scope: 'tenant:acme', unit: 'TOKENS' })
  async remove(@Req() request: FastifyRequest, @Res() reply: FastifyReply): Promise<void> {
    const changed = await this.windows.remove(
      request.caller as Caller,
      validateLookup(request.query),
      originOf(request),
    );
    sendAnswer<'BudgetWindows'>(reply, 200, changed);
  }
}
