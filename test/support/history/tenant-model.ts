import type { Model } from './order.js';

/**
 * A request to one tenant's ledger. `key` is its idempotency key. A hold is identified by the key of its
 * reserve.
 */
export type LedgerRequest =
  | { readonly kind: 'reserve'; readonly key: string; readonly workspace: string; readonly amount: number }
  | { readonly kind: 'commit'; readonly key: string; readonly hold: string; readonly amount: number }
  | { readonly kind: 'release'; readonly key: string; readonly hold: string }
  | { readonly kind: 'extend'; readonly key: string; readonly hold: string; readonly byMs: number }
  | { readonly kind: 'fund'; readonly key: string; readonly amount: number };

interface Figures {
  readonly allocated: number;
  readonly reserved: number;
  readonly spent: number;
}

interface ModelHold {
  readonly workspace: string;
  readonly amount: number;
  readonly state: 'ACTIVE' | 'COMMITTED' | 'RELEASED';
  readonly extendedMs: number;
}

/** The figures of the root, whose name is '', and of each workspace. */
export interface TenantState {
  readonly budgets: Readonly<Record<string, Figures>>;
  readonly holds: Readonly<Record<string, ModelHold>>;
  /** Responses to replay. */
  readonly answers: Readonly<Record<string, string>>;
}

interface Outcome {
  readonly state: TenantState;
  readonly answer: string;
}

/** A balance as in responses: scope, remaining, reserved, spent, allocated. */
export function balanceText(scope: string, { allocated, reserved, spent }: Figures): string {
  return `${scope}:${allocated - reserved - spent},${reserved},${spent},${allocated}`;
}

function balances({ budgets }: TenantState, workspace: string): string {
  return ['', workspace].map((scope) => balanceText(scope, budgets[scope] as Figures)).join(' ');
}

function moved(state: TenantState, workspace: string, reserved: number, spent: number): TenantState {
  const change = (scope: string): [string, Figures] => {
    const former = state.budgets[scope] as Figures;
    return [scope, { ...former, reserved: former.reserved + reserved, spent: former.spent + spent }];
  };
  return { ...state, budgets: { ...state.budgets, ...Object.fromEntries(['', workspace].map(change)) } };
}

function reserve(
  state: TenantState,
  { key, workspace, amount }: LedgerRequest & { kind: 'reserve' },
): Outcome {
  const isShort = ['', workspace].some((scope) => {
    const { allocated, reserved, spent } = state.budgets[scope] as Figures;
    return allocated - reserved - spent < amount;
  });
  if (isShort) {
    return { state, answer: 'BUDGET_EXCEEDED' };
  }
  const held = moved(state, workspace, amount, 0);
  const hold: ModelHold = { workspace, amount, state: 'ACTIVE', extendedMs: 0 };
  return {
    state: { ...held, holds: { ...state.holds, [key]: hold } },
    answer: `ALLOW ${balances(held, workspace)}`,
  };
}

function settle(state: TenantState, request: Extract<LedgerRequest, { hold: string }>): Outcome {
  const hold = state.holds[request.hold];
  if (hold === undefined) {
    return { state, answer: 'NOT_FOUND' };
  }
  const { workspace, amount } = hold;
  const keep = (after: TenantState, change: Partial<ModelHold>): TenantState => ({
    ...after,
    holds: { ...after.holds, [request.hold]: { ...hold, ...change } },
  });
  if (hold.state !== 'ACTIVE') {
    return { state, answer: 'RESERVATION_FINALIZED' };
  }
  switch (request.kind) {
    case 'extend': {
      const extendedMs = hold.extendedMs + request.byMs;
      return { state: keep(state, { extendedMs }), answer: `ACTIVE +${extendedMs}` };
    }
    case 'release': {
      const after = moved(state, workspace, -amount, 0);
      return {
        state: keep(after, { state: 'RELEASED' }),
        answer: `RELEASED ${balances(after, workspace)}`,
      };
    }
    case 'commit': {
      if (request.amount > amount) {
        return { state, answer: 'BUDGET_EXCEEDED' };
      }
      const after = moved(state, workspace, -amount, request.amount);
      return {
        state: keep(after, { state: 'COMMITTED' }),
        answer: `COMMITTED ${balances(after, workspace)}`,
      };
    }
  }
}

function fund(state: TenantState, amount: number): Outcome {
  const root = state.budgets[''] as Figures;
  const funded = { ...root, allocated: root.allocated + amount };
  return {
    state: { ...state, budgets: { ...state.budgets, '': funded } },
    answer: `FUNDED ${funded.allocated} ${funded.allocated - funded.reserved - funded.spent}`,
  };
}

function perform(state: TenantState, request: LedgerRequest): Outcome {
  switch (request.kind) {
    case 'reserve':
      return reserve(state, request);
    case 'fund':
      return fund(state, request.amount);
    default:
      return settle(state, request);
  }
}

/**
 * One tenant's ledger under overage policy REJECT, with leases that never end.
 * @param allocated by scope; the root is ''
 * @param repeated the keys of requests that were sent more than once; only their responses are needed again
 */
export function tenantModel(
  allocated: Readonly<Record<string, number>>,
  repeated: ReadonlySet<string>,
): Model<TenantState, LedgerRequest> {
  const budgets = Object.fromEntries(
    Object.entries(allocated).map(([scope, amount]) => [scope, { allocated: amount, reserved: 0, spent: 0 }]),
  );
  return {
    initial: { budgets, holds: {}, answers: {} },
    apply: (state, request) => {
      const earlier = state.answers[request.key];
      if (earlier !== undefined) {
        return { state, answer: earlier };
      }
      const { state: after, answer } = perform(state, request);
      const isKept = after !== state && repeated.has(request.key);
      return {
        state: isKept ? { ...after, answers: { ...after.answers, [request.key]: answer } } : after,
        answer,
      };
    },
    nameOf: ({ budgets: figures, holds, answers }) =>
      [
        ...Object.entries(figures).map(([scope, one]) => balanceText(scope, one)),
        // Later responses do not depend on how a hold ended.
        ...Object.entries(holds)
          .map(([key, { state, extendedMs }]) => (state === 'ACTIVE' ? `${key}+${extendedMs}` : key))
          .sort(),
        ...Object.entries(answers)
          .map(([key, answer]) => `${key}=${answer}`)
          .sort(),
      ].join(' '),
  };
}
