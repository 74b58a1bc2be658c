import { Controller, Get, Put, Req } from '@nestjs/common';
import type { FastifyRequest } from 'fastify';
import { Access, type Answer, Answers, BodySchema, Operation, originOf } from '../../http/index.js';
import { bodyOf } from '../../wire/index.js';
import { SecuritySettings, WebhookSecurityConfigDto } from './security-settings.js';

@Controller('v1/admin/config/webhook-security')
export class SecurityConfigController {
  constructor(private readonly settings: SecuritySettings) {}

  @Get()
  @Access({ plane: 'admin', admin: true })
  @Operation('getWebhookSecurityConfig', 'Get the rules for where webhooks may be sent')
  @Answers(200, 'WebhookSecurityConfig')
  async get(): Promise<Answer<'WebhookSecurityConfig'>> {
    return (await this.settings.current()).config;
  }

  @Put()
  @Access({ plane: 'admin', admin: true, role: 'admin' })
  @Operation('updateWebhookSecurityConfig', 'Replace the rules for where webhooks may be sent')
  @Answers(200, 'WebhookSecurityConfig')
  @BodySchema(WebhookSecurityConfigDto, { allowed_url_patterns: ['https://*.example.com/*'] })
  update(@Req() request: FastifyRequest): Promise<Answer<'WebhookSecurityConfig'>> {
    return this.settings.replace(bodyOf(request, WebhookSecurityConfigDto), originOf(request));
  }
}
