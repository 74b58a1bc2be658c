import { Controller, Get, Param, Res, UseGuards } from '@nestjs/common';
import { ApiParam } from '@nestjs/swagger';
import type { FastifyReply } from 'fastify';
import { Answers, Operation, PublicAccess, PublicRateLimit, sendJson } from '../http/index.js';
import { invalidField, Refusal } from '../ledger/index.js';
import { EvidenceService } from './evidence.service.js';

const EVIDENCE_ID = /^[0-9a-f]{64}$/;

/** Both operations are public: the id of an envelope is a capability, and the other keys are public ones. */
@UseGuards(PublicRateLimit)
@Controller('v1')
export class EvidenceController {
  constructor(private readonly evidence: EvidenceService) {}

  @Get('evidence/:evidence_id')
  @PublicAccess()
  @Operation('getEvidence', 'Get a signed evidence envelope')
  @ApiParam({ name: 'evidence_id', schema: { type: 'string', pattern: EVIDENCE_ID.source } })
  @Answers(200, 'CyclesEvidenceEnvelope', 'The envelope, in canonical JSON')
  async get(@Param('evidence_id') evidenceId: string, @Res() reply: FastifyReply): Promise<void> {
    if (!EVIDENCE_ID.test(evidenceId)) {
      throw invalidField('evidence_id', 'evidence_id must be 64 lower-case hex digits');
    }
    const text = await this.evidence.read(evidenceId);
    sendJson(reply.header('cache-control', 'public, max-age=31536000, immutable'), 200, text);
  }

  @Get('.well-known/cycles-jwks.json')
  @PublicAccess()
  @Operation('getEvidenceJwks', 'Get the public keys that sign evidence')
  @Answers(200, 'CyclesEvidenceJwks', 'The keys, retired ones included')
  keys(@Res() reply: FastifyReply): void {
    const keySet = this.evidence.keySet();
    if (keySet === undefined) {
      throw new Refusal('NOT_FOUND', 'this server issues no evidence, so it has no keys');
    }
    sendJson(reply.header('cache-control', 'public, max-age=300'), 200, keySet);
  }
}
