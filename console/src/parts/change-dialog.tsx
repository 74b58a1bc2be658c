import { Button, Modal } from '@mantine/core';
import { type ReactNode, type SubmitEvent, useState } from 'react';
import { ApiError } from '../api/client';
import { useReturnFocus } from './return-focus';

export interface Difference {
  readonly label: string;
  readonly before: ReactNode;
  readonly after: ReactNode;
}

/**
 * Asks before a change and shows what it will do. `change` makes it; what the API refuses is shown, and the dialog stays open.
 * Give `blocked` a reason while the form is not complete.
 */
export function ChangeDialog({
  title,
  action,
  danger = false,
  differences = [],
  blocked,
  change,
  close,
  cancel = close,
  children,
}: {
  title: string;
  action: string;
  danger?: boolean;
  differences?: readonly Difference[];
  blocked?: string | undefined;
  change: () => Promise<unknown>;
  /** Called after the change. */
  close: () => void;
  /** Called without a change; by default the same. */
  cancel?: () => void;
  children?: ReactNode;
}): ReactNode {
  useReturnFocus();
  const [problem, setProblem] = useState<string>();
  const [isBusy, setBusy] = useState(false);

  const submit = async (event: SubmitEvent): Promise<void> => {
    event.preventDefault();
    setBusy(true);
    setProblem(undefined);
    try {
      await change();
      close();
    } catch (error) {
      setProblem(error instanceof ApiError ? error.message : String(error));
      setBusy(false);
    }
  };

  return (
    <Modal
      opened
      onClose={cancel}
      title={title}
      centered
      transitionProps={{ duration: 0 }}
      closeButtonProps={{ 'aria-label': 'Close' }}
    >
      <form className="stack" onSubmit={(event) => void submit(event)}>
        {children}
        {differences.length > 0 && <Differences rows={differences} />}
        {problem !== undefined && (
          <div className="notice bad" role="alert">
            {problem}
          </div>
        )}
        <div className="dialog-foot">
          {blocked !== undefined && <span className="muted small">{blocked}</span>}
          <Button variant="default" size="xs" onClick={cancel}>
            Cancel
          </Button>
          <Button
            type="submit"
            size="xs"
            loading={isBusy}
            disabled={blocked !== undefined}
            {...(danger ? { color: 'red.8' } : {})}
          >
            {action}
          </Button>
        </div>
      </form>
    </Modal>
  );
}

function Differences({ rows }: { rows: readonly Difference[] }): ReactNode {
  return (
    <table className="table differences" aria-label="What changes">
      <thead>
        <tr>
          <th>Figure</th>
          <th className="right">Before</th>
          <th className="right">After</th>
        </tr>
      </thead>
      <tbody>
        {rows.map(({ label, before, after }) => (
          <tr key={label}>
            <td className="muted">{label}</td>
            <td className="right">{before}</td>
            <td className="right">
              <strong>{after}</strong>
            </td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}
