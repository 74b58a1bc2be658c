import { type ReactNode, useState } from 'react';
import { call } from '../../api/client';
import { queryClient } from '../../api/session';
import type { Budget } from '../../api/types';
import { ChangeDialog } from '../../parts/change-dialog';
import { type BudgetWindow, WINDOWS } from './recurrence';
import { differencesOf, type Draft, draftOf, missingIn, WindowDrafts, windowsOf } from './window-drafts';

async function change({ scope, unit }: Budget, drafts: readonly Draft[]): Promise<void> {
  await (drafts.length === 0
    ? call('delete', WINDOWS, { scope, unit })
    : call('put', WINDOWS, { scope, unit }, { windows: windowsOf(drafts, unit) }));
  await Promise.all(
    [WINDOWS, '/v1/admin/budgets'].map((path) => queryClient.invalidateQueries({ queryKey: [path] })),
  );
}

export function ChangeWindows({
  budget,
  windows,
  close,
}: {
  budget: Budget;
  windows: readonly BudgetWindow[];
  close: () => void;
}): ReactNode {
  const { unit } = budget;
  const [drafts, setDrafts] = useState<readonly Draft[]>(() => windows.map(draftOf));
  const missing = missingIn(drafts, unit);
  const differences = missing === undefined ? differencesOf(windows, drafts, unit) : [];
  return (
    <ChangeDialog
      title="Change the windows of the budget"
      action="Change the windows"
      danger={drafts.length === 0}
      change={() => change(budget, drafts)}
      close={close}
      blocked={missing ?? (differences.length === 0 ? 'Nothing changes yet' : undefined)}
      differences={differences}
    >
      <WindowDrafts drafts={drafts} setDrafts={setDrafts} />
      <p className="muted small">
        A window whose name stays keeps what is spent in it. A new one begins now, with nothing spent.
      </p>
    </ChangeDialog>
  );
}
