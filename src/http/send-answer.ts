import { FastifyAdapter } from '@nestjs/platform-fastify';
import type { FastifyReply } from 'fastify';
import type { Answer, SchemaName } from '../answers/index.js';
import { stringifyJson } from '../wire/index.js';
import { sendJson } from './errors/error-answer.js';

/** Sends what handlers return, with the status that `Answers` documents. A text is JSON already. */
export class AnswerAdapter extends FastifyAdapter {
  override reply(reply: FastifyReply, body: unknown, status = reply.statusCode): FastifyReply {
    if (body === undefined) {
      return reply.code(status).send();
    }
    sendJson(reply, status, typeof body === 'string' ? body : stringifyJson(body));
    return reply;
  }
}

/** Sends a body that `Answers` documents, for a handler that says more than its body. Its type is that of the schema. */
export function sendAnswer<Name extends SchemaName = never>(
  reply: FastifyReply,
  status: number,
  body: Answer<Name>,
): void {
  sendJson(reply, status, stringifyJson(body));
}

/** The same for a body that contains a secret, which no cache may store. */
export function sendSecret<Name extends SchemaName = never>(
  reply: FastifyReply,
  status: number,
  body: Answer<Name>,
): void {
  sendAnswer<Name>(reply.header('cache-control', 'no-store'), status, body);
}
