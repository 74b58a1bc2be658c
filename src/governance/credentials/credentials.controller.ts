import { Controller, Get, Post, Req, Res } from '@nestjs/common';
import { ApiOperation } from '@nestjs/swagger';
import { IsString } from 'class-validator';
import type { FastifyReply, FastifyRequest } from 'fastify';
import type { Caller } from '../../auth/index.js';
import { Access, Answers, BodySchema, originOf, sendAnswer } from '../../http/index.js';
import { compileValidator, Length } from '../../wire/index.js';
import { CredentialsService } from './credentials.service.js';

/** ApiKeyValidationRequest of cycles-governance-admin-v0.1.25. */
export class ApiKeyValidationDto {
  @IsString()
  @Length(0, 1024)
  key_secret!: string;
}

const validate = compileValidator(ApiKeyValidationDto);

@Controller('v1/auth')
export class CredentialsController {
  constructor(private readonly service: CredentialsService) {}

  @Get('introspect')
  @Access({ plane: 'admin', tenant: 'any', admin: true, confinement: 'nothing' })
  @ApiOperation({
    operationId: 'introspectAuth',
    summary: 'Introspect authenticated credential and return effective capabilities',
  })
  @Answers(200, 'AuthIntrospectResponse')
  introspect(@Req() request: FastifyRequest, @Res() reply: FastifyReply): void {
    sendAnswer<'AuthIntrospectResponse'>(reply, 200, this.service.introspect(request.caller as Caller));
  }

  @Post('validate')
  @Access({ plane: 'admin', admin: true })
  @ApiOperation({ operationId: 'validateApiKey', summary: 'Validate an API key and resolve tenant' })
  @Answers(200, 'ApiKeyValidationResponse')
  @BodySchema(ApiKeyValidationDto, { key_secret: '*** the key_secret of createApiKey ***' })
  async validate(@Req() request: FastifyRequest, @Res() reply: FastifyReply): Promise<void> {
    const { key_secret: secret } = validate(request.body);
    sendAnswer<'ApiKeyValidationResponse'>(
      reply,
      200,
      await this.service.validate(secret, originOf(request)),
    );
  }
}
