import { Controller, Post, Req } from '@nestjs/common';
import type { FastifyRequest } from 'fastify';
import { Access, type Answer, Answers, BodySchema, Operation, originOf } from '../../http/index.js';
import { bodyOf } from '../../wire/index.js';
import { CleanupDto, CleanupService } from './cleanup.service.js';

@Controller('ops/reservations/cleanup')
export class CleanupController {
  constructor(private readonly service: CleanupService) {}

  @Post()
  @Access({ plane: 'admin', admin: true, confinement: { tenantAt: 'body.tenant_id' } })
  @Operation('cleanupReservations', 'Expire reservations under MANUAL_CLEANUP whose grace is over')
  @Answers(200, 'CleanupReport')
  @BodySchema(CleanupDto, { tenant_id: 'acme', dry_run: true })
  cleanup(@Req() request: FastifyRequest): Promise<Answer<'CleanupReport'>> {
    return this.service.cleanup(bodyOf(request, CleanupDto), originOf(request));
  }
}
