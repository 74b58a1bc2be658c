import { GOVERNANCE_ERROR_CODES, RUNTIME_ERROR_CODES } from '../../ledger/index.js';
import { SKIPPED_HEADER } from '../errors/error-answer.js';

export const ERROR_SCHEMA = {
  type: 'object',
  required: ['error', 'message', 'request_id'],
  additionalProperties: false,
  properties: {
    error: { type: 'string', enum: [...RUNTIME_ERROR_CODES, ...GOVERNANCE_ERROR_CODES] },
    message: { type: 'string' },
    request_id: { type: 'string' },
    trace_id: { type: 'string', pattern: '^[0-9a-f]{32}$' },
    details: { type: 'object', additionalProperties: true },
    cycles_evidence: { $ref: '#/components/schemas/CyclesEvidenceRef' },
  },
};

/** Of every answer. */
export const HEADERS = {
  'X-Request-Id': {
    description: 'Names this request in logs, events and support.',
    schema: { type: 'string' },
  },
  'X-Cycles-Trace-Id': {
    description: 'Names the logical operation.',
    schema: { type: 'string', pattern: '^[0-9a-f]{32}$' },
  },
};

export const SKIPPED = {
  [SKIPPED_HEADER]: {
    description:
      'Damaged records that the answer leaves out, as `kind=name`, percent-encoded and separated by commas. After 2,000 characters, `more` says how many others there are.',
    schema: { type: 'string' },
    example: 'budget=tenant:acme/agent:bot%20TOKENS, more=3',
  },
};
