import { Button } from '@mantine/core';
import type { ReactNode } from 'react';
import { ApiError } from '../api/client';

/** Nothing to show, and what to do about it. */
export function Empty({ title, children }: { title: string; children?: ReactNode }): ReactNode {
  return (
    <div className="empty">
      <strong>{title}</strong>
      {children}
    </div>
  );
}

const NOT_FOUND = 404;

/** What to do about a failure, by its kind. */
function adviceFor(error: Error): string {
  if (!(error instanceof ApiError)) {
    return 'Reload the page. If that does not help, look at the log of the browser.';
  }
  switch (error.status) {
    case 0:
      return 'Check that Holdfast is running and that this browser can reach it.';
    case 429:
      return 'Many questions are being asked at once. Try again in a few seconds.';
    case 503:
      return 'Redis does not answer. The overview says more as soon as it does.';
    default:
      return error.requestId === undefined ? '' : `The log of the service has more under ${error.requestId}.`;
  }
}

export function Failure({ error, retry }: { error: Error; retry?: () => void }): ReactNode {
  const again = retry && (
    <div>
      <Button size="compact-sm" variant="default" mt={8} onClick={retry}>
        Try again
      </Button>
    </div>
  );
  if (error instanceof ApiError && error.status === NOT_FOUND) {
    const { message } = error;
    return (
      <div role="alert">
        <Empty title={message.charAt(0).toUpperCase() + message.slice(1)}>
          Check the address: ids are exact, and some records are kept for a limited time only.
          {again}
        </Empty>
      </div>
    );
  }
  return (
    <div className="notice bad" role="alert">
      <div>{error.message}</div>
      <div className="muted small">{adviceFor(error)}</div>
      {again}
    </div>
  );
}

/** Keeps the place of what is loading, so that nothing moves when it comes. */
export function Loading({ height = 120 }: { height?: number }): ReactNode {
  return (
    <div className="empty" style={{ height }} aria-busy="true">
      Loading
    </div>
  );
}
