import { Button, PasswordInput } from '@mantine/core';
import { type ReactNode, type SubmitEvent, useEffect, useState } from 'react';
import { ApiError } from '../api/client';
import { logIn } from '../api/session';
import icon from '../app/icon.svg';
import { focusNextHeading } from '../parts/heading';
import { useTitle } from '../parts/title';

function wordsFor(error: unknown): string {
  if (!(error instanceof ApiError)) {
    return String(error);
  }
  return error.status === 401 ? 'This is neither the admin key nor the viewer key.' : error.message;
}

export function LogIn(): ReactNode {
  useTitle('Log in');
  useEffect(focusNextHeading, []);
  const [key, setKey] = useState('');
  const [problem, setProblem] = useState<string>();
  const [isBusy, setBusy] = useState(false);

  const submit = async (event: SubmitEvent): Promise<void> => {
    event.preventDefault();
    setBusy(true);
    setProblem(undefined);
    try {
      await logIn(key);
    } catch (error) {
      setProblem(wordsFor(error));
      setBusy(false);
    }
  };

  return (
    <main className="login">
      <form onSubmit={(event) => void submit(event)}>
        <div className="brand" style={{ padding: 0 }}>
          <img src={icon} alt="" />
          Holdfast
        </div>
        <h1>Log in to the console</h1>
        {/* Password managers store the key under a name. */}
        <input type="text" autoComplete="username" defaultValue="holdfast" hidden />
        <PasswordInput
          label="Key"
          description="The admin key, or the viewer key to read only."
          value={key}
          error={problem}
          onChange={(event) => setKey(event.currentTarget.value)}
          autoComplete="current-password"
          visibilityToggleButtonProps={{ 'aria-label': 'Show the key' }}
          autoFocus
          required
          withAsterisk={false}
        />
        <Button type="submit" loading={isBusy} disabled={key === ''}>
          Log in
        </Button>
        <p className="muted small">
          With the embedded Redis, the first start writes the admin key to{' '}
          <span className="id">.data/admin-api-key</span>. Otherwise, it is what ADMIN_API_KEY was set to.
        </p>
      </form>
    </main>
  );
}
