import { Controller, Get, Put, Req, Res } from '@nestjs/common';
import { ApiOperation } from '@nestjs/swagger';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { Access, Answers, BodySchema, originOf, sendAnswer } from '../../http/index.js';
import { compileValidator } from '../../wire/index.js';
import { SecuritySettings, WebhookSecurityConfigDto } from './security-settings.js';

const validateConfig = compileValidator(WebhookSecurityConfigDto);

@Controller('v1/admin/config/webhook-security')
export class SecurityConfigController {
  constructor(private readonly settings: SecuritySettings) {}

  @Get()
  @Access({ plane: 'admin', admin: true })
  @ApiOperation({
    operationId: 'getWebhookSecurityConfig',
    summary: 'Get the rules for where webhooks may be sent',
  })
  @Answers(200, 'WebhookSecurityConfig')
  async get(@Res() reply: FastifyReply): Promise<void> {
    sendAnswer<'WebhookSecurityConfig'>(reply, 200, (await this.settings.current()).config);
  }

  @Put()
  @Access({ plane: 'admin', admin: true, role: 'admin' })
  @ApiOperation({
    operationId: 'updateWebhookSecurityConfig',
    summary: 'Replace the rules for where webhooks may be sent',
  })
  @Answers(200, 'WebhookSecurityConfig')
  @BodySchema(WebhookSecurityConfigDto, { allowed_url_patterns: ['https://*.example.com/*'] })
  async update(@Req() request: FastifyRequest, @Res() reply: FastifyReply): Promise<void> {
    sendAnswer<'WebhookSecurityConfig'>(
      reply,
      200,
      await this.settings.replace(validateConfig(request.body), originOf(request)),
    );
  }
}
