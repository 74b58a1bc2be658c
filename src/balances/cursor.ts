import { hash } from 'node:crypto';
import { Refusal } from '../ledger/index.js';

/** A cursor names where the page before ended, and the question it belongs to, so that another question cannot use it. */
const mark = (question: string): string => hash('sha256', question, 'base64url').slice(0, 12);

export function encodeCursor(position: string, question: string): string {
  return Buffer.from(`${mark(question)}.${position}`).toString('base64url');
}

/** @throws Refusal INVALID_REQUEST when the cursor is none of ours or belongs to another query. */
export function decodeCursor(cursor: string, question: string): string {
  const text = Buffer.from(cursor, 'base64url').toString();
  const start = `${mark(question)}.`;
  if (!text.startsWith(start)) {
    throw new Refusal('INVALID_REQUEST', 'cursor does not belong to this query; start again without one', { field: 'cursor' });
  }
  return text.slice(start.length);
}
