import { Controller, Delete, Get, Param, Put, Req, Res } from '@nestjs/common';
import type { FastifyReply, FastifyRequest } from 'fastify';
import type { Caller } from '../../auth/index.js';
import {
  Access,
  type Answer,
  Answers,
  AnswersNothing,
  BodySchema,
  LimitedChange,
  LimitedQuery,
  Operation,
  originOf,
  QuerySchema,
  sendAnswer,
  sendJson,
} from '../../http/index.js';
import { bodyOf, queryOf, stringifyJson } from '../../wire/index.js';
import { BudgetLookupQueryDto } from '../budgets/budget.dto.js';
import { ownedScope } from '../budgets/budget.js';
import {
  BudgetTemplateDto,
  BudgetTemplateListQueryDto,
  BudgetTemplateQueryDto,
} from './budget-template.dto.js';
import { BudgetTemplatesService } from './budget-templates.service.js';
import { MadeBudgetsService } from './made-budgets.service.js';

@Controller('ops/budget-templates')
export class BudgetTemplatesController {
  constructor(
    private readonly templates: BudgetTemplatesService,
    private readonly made: MadeBudgetsService,
  ) {}

  @Get()
  @Access({ plane: 'admin', admin: true, confinement: { tenantAt: 'query.tenant_id' } })
  @LimitedQuery()
  @Operation('listBudgetTemplates', 'List the templates that make budgets for scopes without one')
  @Answers(200, 'BudgetTemplateList')
  @QuerySchema(BudgetTemplateListQueryDto, { tenant_id: 'acme' })
  async list(@Req() request: FastifyRequest): Promise<Answer<'BudgetTemplateList'>> {
    const { rows, ...rest } = await this.templates.list(queryOf(request, BudgetTemplateListQueryDto));
    return { templates: rows, ...rest };
  }

  @Get(':template_id')
  @Access({ plane: 'admin', admin: true, confinement: { tenantAt: 'query.tenant_id' } })
  @Operation('getBudgetTemplate', 'Get a budget template')
  @Answers(200, 'BudgetTemplate')
  @QuerySchema(BudgetTemplateQueryDto, { tenant_id: 'acme' })
  async read(
    @Req() request: FastifyRequest,
    @Param('template_id') templateId: string,
  ): Promise<Answer<'BudgetTemplate'>> {
    const { tenant_id: tenantId } = queryOf(request, BudgetTemplateQueryDto);
    const { template } = await this.templates.read(tenantId, templateId);
    return template;
  }

  @Put(':template_id')
  @Access({ plane: 'admin', admin: true, confinement: { tenantAt: 'body.tenant_id' } })
  @LimitedChange()
  @Operation(
    'setBudgetTemplate',
    'Create a template that makes budgets for scopes without one, or replace what it sets',
    'The first reserve, decision or debit at a scope that matches `scope_pattern` and has no budget in `unit` finds the budget that the ' +
      'template sets; if it is granted, that budget exists from then on. A change applies to the budgets that the template makes afterwards. ' +
      'With `apply_to_existing`, up to 500 budgets that it has made get it, too, each with its outcome in `existing`; repeat the request ' +
      'with another `idempotency_key` until `existing_left` is 0, or none succeeds.',
  )
  @Answers(201, 'BudgetTemplate')
  @Answers(200, 'BudgetTemplate')
  @BodySchema(BudgetTemplateDto, {
    tenant_id: 'acme',
    scope_pattern: 'tenant:acme/app:chat/agent:*',
    unit: 'TOKENS',
    allocated: { unit: 'TOKENS', amount: 100_000 },
    recurrence: { every: 'month', time_zone: 'Europe/Berlin' },
  })
  async set(
    @Param('template_id') templateId: string,
    @Req() request: FastifyRequest,
    @Res() reply: FastifyReply,
  ): Promise<void> {
    const asked = bodyOf(request, BudgetTemplateDto);
    const origin = originOf(request);
    if (asked.apply_to_existing !== true) {
      const { template, isNew } = await this.templates.set(templateId, asked, origin);
      sendAnswer<'BudgetTemplate'>(reply, isNew ? 201 : 200, template);
      return;
    }
    const { template, isNew, outcome, left } = await this.made.setAndApply(templateId, asked, origin);
    const text = stringifyJson({ ...template, existing_left: left });
    sendJson(reply, isNew ? 201 : 200, `${text.slice(0, -1)},"existing":${outcome}}`);
  }

  @Delete(':template_id')
  @Access({ plane: 'admin', admin: true, confinement: { tenantAt: 'query.tenant_id' } })
  @LimitedChange()
  @Operation('deleteBudgetTemplate', 'Delete a budget template; the budgets that it has made stay')
  @AnswersNothing()
  @QuerySchema(BudgetTemplateQueryDto, { tenant_id: 'acme' })
  async remove(@Param('template_id') templateId: string, @Req() request: FastifyRequest): Promise<void> {
    const { tenant_id: tenantId } = queryOf(request, BudgetTemplateQueryDto);
    await this.templates.remove(tenantId, templateId, originOf(request));
  }
}

@Controller('ops/budgets/template')
export class BudgetOriginController {
  constructor(private readonly made: MadeBudgetsService) {}

  @Get()
  @Access({ plane: 'admin', admin: true, confinement: { scopeAt: 'query.scope' } })
  @Operation('getBudgetOrigin', 'Get the template that has made a budget, if one has')
  @Answers(200, 'BudgetOrigin')
  @QuerySchema(BudgetLookupQueryDto, { scope: 'tenant:acme', unit: 'TOKENS' })
  read(@Req() request: FastifyRequest): Promise<Answer<'BudgetOrigin'>> {
    const { scope: text, unit } = queryOf(request, BudgetLookupQueryDto);
    const { scope, tenantId } = ownedScope(request.caller as Caller, text);
    return this.made.originOf(tenantId, scope, unit);
  }
}
