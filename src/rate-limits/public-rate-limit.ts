import { Inject, Injectable, type CanActivate, type ExecutionContext } from '@nestjs/common';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { RateLimits } from './rate-limits.js';
import { sourceOf } from './source.js';

/** Limits, by source address, what anybody may ask for without a key. Not for health: an orchestrator must always get an answer. */
@Injectable()
export class PublicRateLimit implements CanActivate {
  constructor(@Inject(RateLimits) private readonly limits: RateLimits) {}

  canActivate(context: ExecutionContext): true {
    const http = context.switchToHttp();
    this.limits.public?.admit(
      sourceOf(http.getRequest<FastifyRequest>().ip),
      http.getResponse<FastifyReply>(),
    );
    return true;
  }
}
