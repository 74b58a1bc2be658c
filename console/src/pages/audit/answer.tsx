import type { ReactNode } from 'react';
import type { AuditRow } from './row';

/** The status of an answer, and why it was a refusal. */
export function Answer({ row: { status, error_code: code } }: { row: AuditRow }): ReactNode {
  const look = status >= 500 ? 'bad' : status >= 400 ? 'warn' : 'good';
  return (
    <>
      <span className={`pill num ${look}`}>{status}</span>
      {code !== undefined && <span className="small muted"> {code}</span>}
    </>
  );
}
