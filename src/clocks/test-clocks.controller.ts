import { Body, Controller, Delete, Get, Param, Post, Req, Res } from '@nestjs/common';
import { ApiOperation } from '@nestjs/swagger';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { TenantCreateDto } from '../governance/index.js';
import { Access, Answers, AnswersNothing, BodySchema, originOf, sendJson } from '../http/index.js';
import { compileValidator, stringifyJson } from '../wire/index.js';
import { TestClockAdvanceDto, TestClockCreateDto, TestClocksService } from './test-clocks.service.js';

const validateCreate = compileValidator(TestClockCreateDto);
const validateTenant = compileValidator(TenantCreateDto);
const validateAdvance = compileValidator(TestClockAdvanceDto);

@Controller('ops/test-clocks')
export class TestClocksController {
  constructor(private readonly service: TestClocksService) {}

  @Post()
  @Access({ plane: 'admin', admin: true })
  @ApiOperation({ operationId: 'createTestClock', summary: 'Create a test clock' })
  @Answers(201, 'TestClock')
  @BodySchema(TestClockCreateDto, { name: 'billing tests', now: '2026-01-01T00:00:00Z' })
  async create(
    @Req() request: FastifyRequest,
    @Body() body: unknown,
    @Res() reply: FastifyReply,
  ): Promise<void> {
    const clock = await this.service.create(validateCreate(body), originOf(request, 'admin'));
    sendJson(reply, 201, stringifyJson(clock));
  }

  @Get()
  @Access({ plane: 'admin', admin: true })
  @ApiOperation({ operationId: 'listTestClocks', summary: 'List all test clocks' })
  @Answers(200, 'TestClockList')
  async list(@Res() reply: FastifyReply): Promise<void> {
    sendJson(reply, 200, stringifyJson({ test_clocks: await this.service.list() }));
  }

  @Get(':clock_id')
  @Access({ plane: 'admin', admin: true })
  @ApiOperation({ operationId: 'getTestClock', summary: 'Get a test clock' })
  @Answers(200, 'TestClock')
  async get(@Param('clock_id') clockId: string, @Res() reply: FastifyReply): Promise<void> {
    sendJson(reply, 200, stringifyJson(await this.service.get(clockId)));
  }

  @Post(':clock_id/tenants')
  @Access({ plane: 'admin', admin: true })
  @ApiOperation({
    operationId: 'createTestClockTenant',
    summary: 'Create a tenant whose time is that of a test clock',
  })
  @Answers(200, 'Tenant')
  @Answers(201, 'Tenant')
  @BodySchema(TenantCreateDto, { tenant_id: 'acme-test', name: 'Acme, in tests' })
  async createTenant(
    @Param('clock_id') clockId: string,
    @Req() request: FastifyRequest,
    @Body() body: unknown,
    @Res() reply: FastifyReply,
  ): Promise<void> {
    const made = await this.service.addTenant(clockId, validateTenant(body), originOf(request, 'admin'));
    sendJson(reply, made.created ? 201 : 200, stringifyJson(made.tenant));
  }

  @Post(':clock_id/advance')
  @Access({ plane: 'admin', admin: true })
  @ApiOperation({
    operationId: 'advanceTestClock',
    summary: 'Let the time of a test clock pass, with everything that is due until then',
  })
  @Answers(200, 'TestClock')
  @BodySchema(TestClockAdvanceDto, { to: '2026-02-01T00:00:00Z' })
  async advance(
    @Param('clock_id') clockId: string,
    @Req() request: FastifyRequest,
    @Body() body: unknown,
    @Res() reply: FastifyReply,
  ): Promise<void> {
    const clock = await this.service.advance(clockId, validateAdvance(body), originOf(request, 'admin'));
    if (clock.status === 'ADVANCING') {
      reply.header('Retry-After', '1');
    }
    sendJson(reply, 200, stringifyJson(clock));
  }

  @Delete(':clock_id')
  @Access({ plane: 'admin', admin: true })
  @ApiOperation({
    operationId: 'deleteTestClock',
    summary: 'Delete a test clock whose tenants are closed',
  })
  @AnswersNothing()
  async remove(
    @Param('clock_id') clockId: string,
    @Req() request: FastifyRequest,
    @Res() reply: FastifyReply,
  ): Promise<void> {
    await this.service.remove(clockId, originOf(request, 'admin'));
    void reply.code(204).send();
  }
}
