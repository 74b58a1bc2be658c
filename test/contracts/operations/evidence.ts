import { expectStatus } from '../../support/holdfast.js';
import { refused, type OperationRow } from './table.js';
import type { Sample, World } from './world.js';

const EVIDENCE = '/v1/evidence/';
const KEYS: Sample = { method: 'GET', path: '/v1/.well-known/cycles-jwks.json' };

async function envelope(world: World): Promise<Sample> {
  const decided = await world.send(world.example('decide', await world.tenant()));
  const { evidence_id: id } = expectStatus(decided, 200).cycles_evidence as { evidence_id: string };
  return { method: 'GET', path: EVIDENCE + id };
}

const LIMIT = { rateLimitPublicPerMinute: 1 };

export const EVIDENCE_ROWS: readonly OperationRow[] = [
  {
    id: 'getEvidence',
    success: 200,
    isPublic: true,
    sample: envelope,
    others: [
      refused(400, 'INVALID_REQUEST', 'an id that is not a hash', () =>
        Promise.resolve({ method: 'GET', path: `${EVIDENCE}x` }),
      ),
      refused(404, 'NOT_FOUND', 'an id that was never issued', () =>
        Promise.resolve({ method: 'GET', path: EVIDENCE + '0'.repeat(64) }),
      ),
      {
        status: 429,
        code: 'LIMIT_EXCEEDED',
        how: 'more requests from an address than are allowed',
        run: async (world) => {
          const sample = await envelope(world);
          return world.whileThrottled(() => sample, LIMIT);
        },
      },
    ],
  },
  {
    id: 'getEvidenceJwks',
    success: 200,
    isPublic: true,
    readsNothing: true,
    impossible: { 500: 'it reads nothing but the configuration' },
    sample: () => Promise.resolve(KEYS),
    others: [
      {
        status: 404,
        code: 'NOT_FOUND',
        how: 'a server that issues no evidence',
        run: (world) => world.withoutEvidence(KEYS),
      },
      {
        status: 429,
        code: 'LIMIT_EXCEEDED',
        how: 'more requests from an address than are allowed',
        run: (world) => world.whileThrottled(() => KEYS, LIMIT),
      },
    ],
  },
];
