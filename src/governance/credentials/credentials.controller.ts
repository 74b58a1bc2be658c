import { Body, Controller, Get, Post, Req, Res } from '@nestjs/common';
import { ApiOperation, ApiTags } from '@nestjs/swagger';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { Access, type Caller } from '../../auth/index.js';
import { Answers, BodySchema, compileValidator, sendJson, stringifyJson } from '../../http/index.js';
import { originOf } from '../origin.js';
import { ApiKeyValidationDto } from './credentials.dto.js';
import { CredentialsService } from './credentials.service.js';

const validate = compileValidator(ApiKeyValidationDto);

@Controller('v1/auth')
export class CredentialsController {
  constructor(private readonly service: CredentialsService) {}

  @Get('introspect')
  @ApiTags('Dashboard')
  @Access({ plane: 'admin', tenant: 'any', admin: true })
  @ApiOperation({
    operationId: 'introspectAuth',
    summary: 'Introspect authenticated credential and return effective capabilities',
  })
  @Answers(200, 'AuthIntrospectResponse')
  introspect(@Req() request: FastifyRequest, @Res() reply: FastifyReply): void {
    sendJson(reply, 200, stringifyJson(this.service.introspect(request.caller as Caller)));
  }

  @Post('validate')
  @ApiTags('Authentication')
  @Access({ plane: 'admin', admin: true })
  @ApiOperation({ operationId: 'validateApiKey', summary: 'Validate an API key and resolve tenant' })
  @Answers(200, 'ApiKeyValidationResponse')
  @BodySchema(ApiKeyValidationDto)
  async validate(
    @Req() request: FastifyRequest,
    @Body() body: unknown,
    @Res() reply: FastifyReply,
  ): Promise<void> {
    const { key_secret: secret } = validate(body);
    sendJson(reply, 200, stringifyJson(await this.service.validate(secret, originOf(request, 'admin'))));
  }
}
