import type { FastifyReply } from 'fastify';
import type { Answer, SchemaName } from '../answers/index.js';
import { stringifyJson } from '../wire/index.js';
import { sendJson } from './errors/error-answer.js';

/** Sends a body that `Answers` documents. Its type is that of the schema, so the two cannot differ. */
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
