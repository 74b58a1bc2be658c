import { Body, Controller, Get, Put, Req, Res } from '@nestjs/common';
import { ApiOperation, ApiTags } from '@nestjs/swagger';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { Access } from '../../auth/index.js';
import { originOf } from '../../governance/index.js';
import { Answers, BodySchema, compileValidator, sendJson, stringifyJson } from '../../http/index.js';
import { WebhookSecurityConfigDto } from './security-config.dto.js';
import { SecuritySettings } from './security-settings.js';

const validateConfig = compileValidator(WebhookSecurityConfigDto);

@ApiTags('Webhooks')
@Controller('v1/admin/config/webhook-security')
export class SecurityConfigController {
  constructor(private readonly settings: SecuritySettings) {}

  @Get()
  @Access({ plane: 'admin', admin: true })
  @ApiOperation({ operationId: 'getWebhookSecurityConfig', summary: 'Where webhooks may go' })
  @Answers(200, 'WebhookSecurityConfig')
  async get(@Res() reply: FastifyReply): Promise<void> {
    sendJson(reply, 200, stringifyJson((await this.settings.current()).config));
  }

  @Put()
  @Access({ plane: 'admin', admin: true })
  @ApiOperation({
    operationId: 'updateWebhookSecurityConfig',
    summary: 'Replace what says where webhooks may go',
  })
  @Answers(200, 'WebhookSecurityConfig')
  @BodySchema(WebhookSecurityConfigDto)
  async update(
    @Req() request: FastifyRequest,
    @Body() body: unknown,
    @Res() reply: FastifyReply,
  ): Promise<void> {
    sendJson(
      reply,
      200,
      stringifyJson(await this.settings.replace(validateConfig(body), originOf(request, 'admin'))),
    );
  }
}
