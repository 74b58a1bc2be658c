import { Controller, Delete, Get, Param, Patch, Post, Req, Res } from '@nestjs/common';
import { ApiParam } from '@nestjs/swagger';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { OPERATOR_ROLES, ROLE_WORDS } from '../../auth/index.js';
import {
  Access,
  type Answer,
  Answers,
  BodySchema,
  LimitedChange,
  LimitedQuery,
  Operation,
  originOf,
  QuerySchema,
  sendSecret,
} from '../../http/index.js';
import { bodyOf, queryOf } from '../../wire/index.js';
import {
  OperatorCreateDto,
  OperatorListQueryDto,
  OperatorRevokeQueryDto,
  OperatorRotateDto,
  OperatorUpdateDto,
} from './operator.dto.js';
import { OperatorsService } from './operators.service.js';

const ROLES = OPERATOR_ROLES.map((role) => `- \`${role}\`: ${ROLE_WORDS[role]}`).join('\n');

const EXAMPLE = 'alice@example.com';
const NAME = { name: 'name', schema: { type: 'string', examples: [EXAMPLE] } } as const;

@Controller('ops/operators')
export class OperatorsController {
  constructor(private readonly service: OperatorsService) {}

  @Post()
  @Access({ plane: 'admin', admin: true, role: 'admin' })
  @LimitedChange()
  @Operation(
    'createOperator',
    'Create a named operator with a key',
    `Only this answer contains the key. A name is never given twice. Each role includes those before it:\n\n${ROLES}\n\nWith \`tenants\`, it may act only for these tenants; what is of the whole deployment is refused to it.`,
  )
  @Answers(201, 'OperatorWithKey')
  @BodySchema(OperatorCreateDto, { name: EXAMPLE, role: 'operator' })
  async create(@Req() request: FastifyRequest, @Res() reply: FastifyReply): Promise<void> {
    const made = await this.service.create(bodyOf(request, OperatorCreateDto), originOf(request));
    sendSecret<'OperatorWithKey'>(reply, 201, made);
  }

  @Get()
  @Access({ plane: 'admin', admin: true })
  @LimitedQuery()
  @Operation('listOperators', 'List the named operators')
  @Answers(200, 'OperatorListResponse')
  @QuerySchema(OperatorListQueryDto)
  async list(@Req() request: FastifyRequest): Promise<Answer<'OperatorListResponse'>> {
    const { rows, ...rest } = await this.service.list(queryOf(request, OperatorListQueryDto));
    return { operators: rows, ...rest };
  }

  @Get(':name')
  @ApiParam(NAME)
  @Access({ plane: 'admin', admin: true })
  @Operation('getOperator', 'Get a named operator')
  @Answers(200, 'Operator')
  get(@Param('name') name: string): Promise<Answer<'Operator'>> {
    return this.service.get(name);
  }

  @Patch(':name')
  @ApiParam(NAME)
  @Access({ plane: 'admin', admin: true, role: 'admin' })
  @LimitedChange()
  @Operation(
    'updateOperator',
    'Give an operator another role or other tenants',
    'Its keys and sessions have them within a second, on every instance.',
  )
  @Answers(200, 'Operator')
  @BodySchema(OperatorUpdateDto, { role: 'operator', tenants: ['acme', 'team-*'] })
  update(@Req() request: FastifyRequest, @Param('name') name: string): Promise<Answer<'Operator'>> {
    return this.service.update(name, bodyOf(request, OperatorUpdateDto), originOf(request));
  }

  @Post(':name/rotate')
  @ApiParam(NAME)
  @Access({ plane: 'admin', admin: true, role: 'admin' })
  @LimitedChange()
  @Operation(
    'rotateOperator',
    'Give an operator a new key',
    'Only this answer contains the new key. The key before works for `overlap_ms` more, a day by default; 0 ends it at once. The expiry stays, unless another one is given. An operator that has expired is not brought back.',
  )
  @Answers(200, 'OperatorWithKey')
  @BodySchema(OperatorRotateDto, { overlap_ms: 3_600_000 })
  async rotate(
    @Req() request: FastifyRequest,
    @Param('name') name: string,
    @Res() reply: FastifyReply,
  ): Promise<void> {
    const rotated = await this.service.rotate(name, bodyOf(request, OperatorRotateDto), originOf(request));
    sendSecret<'OperatorWithKey'>(reply, 200, rotated);
  }

  @Delete(':name')
  @ApiParam(NAME)
  @Access({ plane: 'admin', admin: true, role: 'admin' })
  @LimitedChange()
  @Operation('revokeOperator', "End an operator's keys and sessions for good")
  @Answers(200, 'Operator')
  @QuerySchema(OperatorRevokeQueryDto, { reason: 'Left the company' })
  revoke(@Req() request: FastifyRequest, @Param('name') name: string): Promise<Answer<'Operator'>> {
    const { reason } = queryOf(request, OperatorRevokeQueryDto);
    return this.service.revoke(name, reason, originOf(request));
  }
}
