import type { ReactNode } from 'react';
import { Incomplete } from '../usage/incomplete';
import type { Month } from './sums';

/** What the sums of “Charged in 30 days” are without. */
export function MonthNote({ month }: { month: Month | null | undefined }): ReactNode {
  return (
    month && (
      <>
        <Incomplete {...month} title="Charged in 30 days" />
        {month.report.has_more && (
          <p className="panel-note">Charged in 30 days: only the largest sums were read.</p>
        )}
      </>
    )
  );
}
