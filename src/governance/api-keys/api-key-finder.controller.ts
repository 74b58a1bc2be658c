import { Controller, Get, Param, Req } from '@nestjs/common';
import type { FastifyRequest } from 'fastify';
import {
  Access,
  type Answer,
  Answers,
  type Confinement,
  LimitedQuery,
  Operation,
  ownerOfApiKey,
} from '../../http/index.js';
import { ApiKeysService, HASHED_SECRET, keyIdOf } from './api-keys.service.js';

/** To the tenant of the key, however that is named. */
const OF_FOUND_KEY: Confinement = {
  what: 'API key',
  param: 'key_id',
  ownerOf: async (redis, idOrHash) => ownerOfApiKey(redis, (await keyIdOf(redis, idOrHash)) ?? ''),
};

@Controller('ops/api-keys')
export class ApiKeyFinderController {
  constructor(private readonly service: ApiKeysService) {}

  @Get(':key_id')
  @Access({ plane: 'admin', admin: true, confinement: OF_FOUND_KEY })
  @LimitedQuery()
  @Operation(
    'findApiKey',
    'Get an API key by its id, or by the SHA-256 of its secret',
    'Instead of an id, `key_id` may be how the secret begins, which says where the key is stored, a colon, and the SHA-256 of the ' +
      'whole secret as base64url: `cyc_live_1f:<hash>`. So a secret that was found somewhere need not be sent.',
  )
  @Answers(200, 'ApiKey')
  find(@Param('key_id') keyId: string, @Req() request: FastifyRequest): Promise<Answer<'ApiKey'>> {
    // Whoever shows a row of the log asks for the name of its key; that would fill the log with reads of itself.
    request.isUnaudited = !HASHED_SECRET.test(keyId);
    return this.service.find(keyId);
  }
}
