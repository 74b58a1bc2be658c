import { refused, type OperationRow, type Provocation } from './table.js';
import type { Sample } from './world.js';

const KINDS = '/v1/action-kinds';

const get = (path: string): Sample => ({ method: 'GET', path: KINDS + path });

const throttled = (path: string): Provocation => ({
  status: 429,
  code: 'LIMIT_EXCEEDED',
  how: 'more requests from an address than are allowed',
  run: (world) => world.whileThrottled(() => get(path), { rateLimitPublicPerMinute: 1 }),
});

const CONSTANT = { 500: 'the registry is a constant' } as const;

export const ACTION_KIND_ROWS: readonly OperationRow[] = [
  {
    id: 'listActionKinds',
    success: 200,
    isPublic: true,
    readsNothing: true,
    impossible: CONSTANT,
    sample: () => Promise.resolve(get('')),
    others: [
      refused(400, 'INVALID_REQUEST', 'a risk class that does not exist', () =>
        Promise.resolve(get('?risk_class=grave')),
      ),
      throttled(''),
    ],
  },
  {
    id: 'getActionKind',
    success: 200,
    isPublic: true,
    readsNothing: true,
    impossible: CONSTANT,
    sample: () => Promise.resolve(get('/llm.completion')),
    others: [
      refused(404, 'NOT_FOUND', 'a kind outside the registry', () => Promise.resolve(get('/llm'))),
      throttled('/llm.completion'),
    ],
  },
];
