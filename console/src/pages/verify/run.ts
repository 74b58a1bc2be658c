import { useQuery } from '@tanstack/react-query';
import { get } from '../../api/client';
import type { Schema } from '../../api/operations';
import { serverNowMs } from '../../api/server-time';
import { queryClient } from '../../api/session';

type Report = Schema<'VerifyReport'>;
export type Drift = Report['drift'][number];
export type Unreadable = Report['unreadable'][number];
export type JournalFault = Report['journal'][number];

export interface Run {
  /** Of all tenants if undefined. */
  readonly tenant: string | undefined;
  readonly state: 'running' | 'done' | 'stopped' | 'failed';
  readonly startedMs: number;
  readonly endedMs?: number;
  readonly tenants: number;
  readonly budgets: number;
  readonly drift: readonly Drift[];
  readonly unreadable: readonly Unreadable[];
  readonly journal: readonly JournalFault[];
  readonly error?: Error;
  /** Where the next page starts. */
  readonly cursor?: string | undefined;
}

const RUN = ['verify'] as const;

/** The run that goes on or ended last. It lives in the cache, so it goes on while other pages are open, and ends with the session. */
export function useRun(): Run | undefined {
  return useQuery<Run>({ queryKey: RUN, enabled: false, gcTime: Infinity }).data;
}

const current = (): Run | undefined => queryClient.getQueryData<Run>(RUN);

export async function start(tenant: string | undefined): Promise<void> {
  const empty = { tenants: 0, budgets: 0, drift: [], unreadable: [], journal: [] };
  await proceed({ tenant, state: 'running', startedMs: serverNowMs(), ...empty });
}

/** Goes on where a run was stopped or failed. */
export async function resume({ error: _error, endedMs: _endedMs, ...run }: Run): Promise<void> {
  await proceed({ ...run, state: 'running' });
}

export function stop(run: Run): void {
  queryClient.setQueryData<Run>(RUN, { ...run, state: 'stopped', endedMs: serverNowMs() });
}

async function proceed(first: Run): Promise<void> {
  // The cache may keep an equal object of its own. While it holds the one it returned, nobody stopped or replaced the run.
  let run = queryClient.setQueryData<Run>(RUN, first);
  while (run?.state === 'running') {
    const next = await afterNextPage(run);
    if (current() !== run) {
      return;
    }
    run = queryClient.setQueryData<Run>(RUN, next);
  }
}

async function afterNextPage(run: Run): Promise<Run> {
  try {
    const page = await get('/ops/verify', { tenant_id: run.tenant, cursor: run.cursor });
    return {
      ...run,
      tenants: run.tenants + page.tenants,
      budgets: run.budgets + page.budgets,
      drift: [...run.drift, ...page.drift],
      unreadable: [...run.unreadable, ...page.unreadable],
      journal: [...run.journal, ...page.journal],
      cursor: page.next_cursor,
      ...(page.next_cursor === undefined ? { state: 'done', endedMs: serverNowMs() } : {}),
    };
  } catch (error) {
    return { ...run, state: 'failed', endedMs: serverNowMs(), error: error as Error };
  }
}
