import { QueryClient, useQuery } from '@tanstack/react-query';
import type { SessionAnswer } from '../../../src/console/page-answers';
import { ApiError, ask, onSessionEnd } from './client';
import { learnServerTime } from './server-time';

export type Session = NonNullable<SessionAnswer['session']>;
type Known = Omit<SessionAnswer, 'now_ms'>;

const SESSION = ['session'] as const;
const NOT_IMPLEMENTED = 501;

export const queryClient = new QueryClient({
  defaultOptions: {
    queries: {
      // What the API refuses, and what is not set up, stays so. An outage is worth a second try.
      retry: (count, error) =>
        count < 2 &&
        !(
          error instanceof ApiError &&
          error.status > 0 &&
          error.status <= NOT_IMPLEMENTED &&
          error.status !== 500
        ),
      refetchOnWindowFocus: true,
      staleTime: 2000,
    },
  },
});

async function learned(method: string, path: string, body?: unknown): Promise<Known> {
  const { now_ms: nowMs, ...known } = (await ask<SessionAnswer>(method, `/console/api/${path}`, body)).value;
  learnServerTime(nowMs);
  return known;
}

/** Nothing of one session is shown in another. */
function setSession(answer: Known): void {
  queryClient.removeQueries({ predicate: ({ queryKey }) => queryKey[0] !== SESSION[0] });
  queryClient.setQueryData(SESSION, answer);
}

export function endSession(): void {
  const known = queryClient.getQueryData<Known>(SESSION);
  setSession({ session: null, has_provider: known?.has_provider === true });
}

onSessionEnd(endSession);

/** The session of this browser; null if nobody is logged in. */
export function useSession(): {
  session: Session | null | undefined;
  /** Whether one can log in by the identity provider, too. */
  hasProvider: boolean;
  /** How far a test clock is ahead; 0 without one. */
  clockAheadMs: number;
  error: Error | null;
  retry: () => void;
} {
  const { data, error, refetch } = useQuery({
    queryKey: SESSION,
    queryFn: () => learned('GET', 'session'),
    staleTime: Infinity,
  });
  return {
    session: data?.session,
    hasProvider: data?.has_provider === true,
    clockAheadMs: data?.clock_ahead_ms ?? 0,
    error,
    retry: () => void refetch(),
  };
}

/** Whether this session may change anything. The server decides; this only hides what it would refuse. */
export function useMayChange(): boolean {
  const role = useSession().session?.role;
  return role === 'operator' || role === 'admin';
}

/** The same for what only an admin may do: manage operators. */
export function useIsAdmin(): boolean {
  return useSession().session?.role === 'admin';
}

/** @throws ApiError 401 if the key is wrong, 429 after too many attempts */
export async function logIn(key: string): Promise<void> {
  setSession(await learned('POST', 'login', { key }));
}

export async function logOut(): Promise<void> {
  const answer = await learned('POST', 'logout');
  setSession(answer);
  if (answer.log_out_url !== undefined) {
    // Otherwise, the next log-in by the provider would ask nobody.
    window.location.assign(answer.log_out_url);
  }
}

/** Where the provider sends the browser back to. */
export const SIGNED_IN_PATH = '/console/signed-in';
const RETURN_TO = 'holdfast:return-to';

/** Sends the browser to the identity provider. @throws ApiError 503 if that is away */
export async function beginProviderLogIn(): Promise<void> {
  const { pathname, search } = window.location;
  if (pathname !== SIGNED_IN_PATH) {
    sessionStorage.setItem(RETURN_TO, pathname + search);
  }
  const { url } = (await ask<{ url: string }>('POST', '/console/api/provider/begin')).value;
  window.location.assign(url);
}

/** Finishes the log-in with what the provider has sent back, and goes on to the page that was asked for. @throws ApiError */
export async function finishProviderLogIn(): Promise<void> {
  await learned('POST', 'provider/finish', { query: window.location.search.slice(1) });
  // Replaces the address with the code, which is used up.
  window.location.replace(sessionStorage.getItem(RETURN_TO) ?? '/console/');
}
