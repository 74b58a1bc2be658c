import { QueryClient, useQuery } from '@tanstack/react-query';
import type { SessionAnswer } from '../../../src/operators/page-answers';
import { ApiError, ask, onSessionEnd } from './client';
import { learnServerTime } from './server-time';

export type Session = NonNullable<SessionAnswer['session']>;
type Known = Pick<SessionAnswer, 'session'>;

const SESSION = ['session'] as const;

export const queryClient = new QueryClient({
  defaultOptions: {
    queries: {
      // What the API refuses, it refuses again. An outage is worth a second try.
      retry: (count, error) =>
        count < 2 && !(error instanceof ApiError && error.status > 0 && error.status < 500),
      refetchOnWindowFocus: true,
      staleTime: 2000,
    },
  },
});

async function learned(method: string, path: string, body?: unknown): Promise<Known> {
  const { session, now_ms: nowMs } = (await ask<SessionAnswer>(method, `/console/api/${path}`, body)).value;
  learnServerTime(nowMs);
  return { session };
}

/** Nothing of one session is shown in another. */
function setSession(answer: Known): void {
  queryClient.removeQueries({ predicate: ({ queryKey }) => queryKey[0] !== SESSION[0] });
  queryClient.setQueryData(SESSION, answer);
}

export function endSession(): void {
  setSession({ session: null });
}

onSessionEnd(endSession);

/** The session of this browser; null if nobody is logged in. */
export function useSession(): {
  session: Session | null | undefined;
  error: Error | null;
  retry: () => void;
} {
  const { data, error, refetch } = useQuery({
    queryKey: SESSION,
    queryFn: () => learned('GET', 'session'),
    staleTime: Infinity,
  });
  return { session: data?.session, error, retry: () => void refetch() };
}

/** Whether this session may change anything. The server decides; this only hides what it would refuse. */
export function useMayChange(): boolean {
  const role = useSession().session?.role;
  return role === 'operator' || role === 'admin';
}

/** @throws ApiError 401 if the key is wrong, 429 after too many attempts */
export async function logIn(key: string): Promise<void> {
  setSession(await learned('POST', 'login', { key }));
}

export async function logOut(): Promise<void> {
  setSession(await learned('POST', 'logout'));
}
