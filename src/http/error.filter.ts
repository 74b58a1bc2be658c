import { Catch, Inject, type ArgumentsHost, type ExceptionFilter } from '@nestjs/common';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { answerTo, sendError } from './error-answer.js';
import { RouteTable } from './route-table.js';
import { UnexpectedErrors } from './unexpected-errors.js';

/** The one place where something thrown becomes an answer, whether a controller, a guard, a hook or Fastify threw it. */
@Catch()
export class ErrorFilter implements ExceptionFilter {
  constructor(
    @Inject(UnexpectedErrors) private readonly unexpected: UnexpectedErrors,
    @Inject(RouteTable) private readonly routes: RouteTable,
  ) {}

  catch(error: unknown, host: ArgumentsHost): void {
    const http = host.switchToHttp();
    const request = http.getRequest<FastifyRequest>();
    const reply = http.getResponse<FastifyReply>();
    const answer = answerTo(error, request, this.routes);
    if (answer.unexpected === true) {
      this.unexpected.report(error, request);
    }
    // An answer that is under way cannot be replaced; the log has what happened.
    if (!reply.sent) {
      sendError(reply, answer, request.trace);
    }
  }
}
