import { Controller, Post, Req, Res } from '@nestjs/common';
import { ApiOperation } from '@nestjs/swagger';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { Access, Answers, BodySchema, originOf, sendAnswer } from '../../http/index.js';
import { compileValidator } from '../../wire/index.js';
import { CleanupDto, CleanupService } from './cleanup.service.js';

const validate = compileValidator(CleanupDto);

@Controller('ops/reservations/cleanup')
export class CleanupController {
  constructor(private readonly service: CleanupService) {}

  @Post()
  @Access({ plane: 'admin', admin: true, confinement: { tenantAt: 'body.tenant_id' } })
  @ApiOperation({
    operationId: 'cleanupReservations',
    summary: 'Expire reservations under MANUAL_CLEANUP whose grace is over',
  })
  @Answers(200, 'CleanupReport')
  @BodySchema(CleanupDto, { tenant_id: 'acme', dry_run: true })
  async cleanup(@Req() request: FastifyRequest, @Res() reply: FastifyReply): Promise<void> {
    const report = await this.service.cleanup(validate(request.body), originOf(request));
    sendAnswer<'CleanupReport'>(reply, 200, report);
  }
}
