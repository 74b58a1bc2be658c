import { Button, PasswordInput } from '@mantine/core';
import { type ReactNode, type SubmitEvent, useEffect, useRef, useState } from 'react';
import { ApiError } from '../api/client';
import { beginProviderLogIn, finishProviderLogIn, logIn } from '../api/session';
import icon from '../app/icon.svg';
import { focusNextHeading } from '../parts/heading';
import { useTitle } from '../parts/title';

function wordsFor(error: unknown): string {
  return error instanceof ApiError ? error.message : String(error);
}

interface Ways {
  readonly hasProvider: boolean;
  /** Whether the provider has just sent the browser back. */
  readonly isReturning: boolean;
}

export function LogIn({ hasProvider, isReturning }: Ways): ReactNode {
  useTitle('Log in');
  useEffect(focusNextHeading, []);
  return (
    <main className="login">
      <div className="login-ways">
        <div className="brand" style={{ padding: 0 }}>
          <img src={icon} alt="" />
          Holdfast
        </div>
        <h1>Log in to the console</h1>
        {hasProvider && <ByProvider isReturning={isReturning} />}
        <ByKey isFirst={!hasProvider} />
      </div>
    </main>
  );
}

function ByProvider({ isReturning }: Pick<Ways, 'isReturning'>): ReactNode {
  const [problem, setProblem] = useState<string>();
  const [isBusy, setBusy] = useState(isReturning);
  // The provider accepts a code once, and React may run an effect twice.
  const finished = useRef(false);

  const attempt = (step: () => Promise<void>): void => {
    setBusy(true);
    setProblem(undefined);
    step().catch((error: unknown) => {
      setProblem(wordsFor(error));
      setBusy(false);
    });
  };
  useEffect(() => {
    if (isReturning && !finished.current) {
      finished.current = true;
      attempt(finishProviderLogIn);
    }
  }, [isReturning]);

  return (
    <>
      {problem !== undefined && (
        <div className="notice bad" role="alert">
          {problem}
        </div>
      )}
      <Button loading={isBusy} onClick={() => attempt(beginProviderLogIn)}>
        Continue with your account
      </Button>
      <p className="muted small">or with the key of an operator:</p>
    </>
  );
}

function ByKey({ isFirst }: { isFirst: boolean }): ReactNode {
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
      const isWrong = error instanceof ApiError && error.status === 401;
      setProblem(isWrong ? 'This is not the key of an operator.' : wordsFor(error));
      setBusy(false);
    }
  };

  return (
    <form onSubmit={(event) => void submit(event)}>
      {/* Password managers store the key under a name. */}
      <input type="text" autoComplete="username" defaultValue="holdfast" hidden />
      <PasswordInput
        label="Key"
        description="Your own, the admin key, or the viewer key to read only."
        value={key}
        error={problem}
        onChange={(event) => setKey(event.currentTarget.value)}
        autoComplete="current-password"
        visibilityToggleButtonProps={{ 'aria-label': 'Show the key' }}
        autoFocus={isFirst}
        required
        withAsterisk={false}
      />
      <Button type="submit" variant={isFirst ? 'filled' : 'default'} loading={isBusy} disabled={key === ''}>
        Log in
      </Button>
      <p className="muted small">
        With the embedded Redis, the first start writes the admin key to{' '}
        <span className="id">.data/admin-api-key</span>. Otherwise, it is what ADMIN_API_KEY was set to.
      </p>
    </form>
  );
}
