import { Controller, Get, Param, Res } from '@nestjs/common';
import { ApiOperation } from '@nestjs/swagger';
import type { FastifyReply } from 'fastify';
import { Access, Answers, LimitedQuery, sendAnswer } from '../../http/index.js';
import {} from '../../wire/index.js';
import { ApiKeysService } from './api-keys.service.js';

@Controller('ops/api-keys')
export class ApiKeyFinderController {
  constructor(private readonly service: ApiKeysService) {}

  @Get(':key_id')
  @Access({ plane: 'admin', admin: true })
  @LimitedQuery()
  @ApiOperation({
    operationId: 'findApiKey',
    summary: 'Get an API key by its id, or by the SHA-256 of its secret',
    description:
      'Instead of an id, `key_id` may be how the secret begins, which says where the key is stored, a colon, and the SHA-256 of the ' +
      'whole secret as base64url: `cyc_live_1f:<hash>`. So a secret that was found somewhere need not be sent.',
  })
  @Answers(200, 'ApiKey')
  async find(@Param('key_id') keyId: string, @Res() reply: FastifyReply): Promise<void> {
    sendAnswer<'ApiKey'>(reply, 200, await this.service.find(keyId));
  }
}
