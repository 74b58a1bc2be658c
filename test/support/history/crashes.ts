import type { Crash } from '../cluster-site.js';
import type { Attempt, Model } from './order.js';

/** A master loses what its replica had not received: everything since the replica was cut off. */
export type Loss = { readonly kind: 'cut' | 'crash' };

interface Lossy<State> {
  readonly now: State;
  /** The replica's state once it is cut off. */
  readonly kept?: State;
}

/** The moments of a crash, as requests that took effect within their time span. */
export function momentsOf({ keptUntil, killedAt, replacedAt }: Omit<Crash, 'hadSlot'>): Attempt<Loss>[] {
  return [
    { request: { kind: 'cut' }, sentAt: keptUntil, answeredAt: killedAt, answer: 'cut' },
    { request: { kind: 'crash' }, sentAt: killedAt, answeredAt: replacedAt, answer: 'crash' },
  ];
}

function isLoss(request: { readonly kind: string }): request is Loss {
  return request.kind === 'cut' || request.kind === 'crash';
}

/** Extends a model with a replica that takes over. */
export function withLosses<State, Request extends { readonly kind: string }>({
  initial,
  apply,
  nameOf,
}: Model<State, Request>): Model<Lossy<State>, Request | Loss> {
  return {
    initial: { now: initial },
    apply: (state, request) => {
      if (isLoss(request)) {
        const { now, kept = now } = state;
        return { state: request.kind === 'cut' ? { now, kept: now } : { now: kept }, answer: request.kind };
      }
      const { state: now, answer } = apply(state.now, request);
      return { state: now === state.now ? state : { ...state, now }, answer };
    },
    nameOf: ({ now, kept }) => (kept === undefined ? nameOf(now) : `${nameOf(now)} kept ${nameOf(kept)}`),
  };
}
