import { Controller, Get, Post, Req } from '@nestjs/common';
import type { FastifyRequest } from 'fastify';
import type { Caller } from '../../auth/index.js';
import { Access, type Answer, Answers, BodySchema, Operation, originOf } from '../../http/index.js';
import { bodyOf, Length } from '../../wire/index.js';
import { CredentialsService } from './credentials.service.js';

/** ApiKeyValidationRequest of cycles-governance-admin-v0.1.25. */
export class ApiKeyValidationDto {
  @Length(0, 1024)
  key_secret!: string;
}

@Controller('v1/auth')
export class CredentialsController {
  constructor(private readonly service: CredentialsService) {}

  @Get('introspect')
  @Access({ plane: 'admin', tenant: 'any', admin: true, confinement: 'nothing' })
  @Operation('introspectAuth', 'Introspect authenticated credential and return effective capabilities')
  @Answers(200, 'AuthIntrospectResponse')
  introspect(@Req() request: FastifyRequest): Answer<'AuthIntrospectResponse'> {
    return this.service.introspect(request.caller as Caller);
  }

  @Post('validate')
  @Access({ plane: 'admin', admin: true })
  @Operation('validateApiKey', 'Validate an API key and resolve tenant')
  @Answers(200, 'ApiKeyValidationResponse')
  @BodySchema(ApiKeyValidationDto, { key_secret: '*** the key_secret of createApiKey ***' })
  validate(@Req() request: FastifyRequest): Promise<Answer<'ApiKeyValidationResponse'>> {
    const { key_secret: secret } = bodyOf(request, ApiKeyValidationDto);
    return this.service.validate(secret, originOf(request));
  }
}
