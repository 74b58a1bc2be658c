import { Button, useComputedColorScheme, useMantineColorScheme } from '@mantine/core';
import { Link, Outlet, useRouterState } from '@tanstack/react-router';
import { Fragment, type ReactNode, useEffect, useRef, useState } from 'react';
import { logOut, type Session, SIGNED_IN_PATH, useSession } from '../api/session';
import { forgetSkipped, useSkipped } from '../api/skipped';
import { LogIn } from '../pages/login';
import { operatorIn } from '../parts/actor';
import { Empty, Failure } from '../parts/states';
import { formatDuration } from '../parts/time';
import { useTitle } from '../parts/title';
import icon from './icon.svg';
import { isOfAll, NAV } from './nav';
import { SearchBox } from './search-box';

/** The frame of all pages. Without a session it shows the log-in, and the page that was asked for follows. */
export function Shell(): ReactNode {
  const { session, hasProvider, error, retry } = useSession();
  if (session === undefined) {
    return (
      <main className="login">
        {error === null ? <span className="muted">Loading</span> : <Failure error={error} retry={retry} />}
      </main>
    );
  }
  const isReturning = window.location.pathname === SIGNED_IN_PATH;
  return session === null || isReturning ? (
    <LogIn hasProvider={hasProvider} isReturning={isReturning} />
  ) : (
    <Frame {...session} />
  );
}

function Frame({ role, name, tenants }: Session): ReactNode {
  const [isOpen, setOpen] = useState(false);
  const main = useRef<HTMLElement>(null);
  const path = useRouterState({ select: (state) => state.location.pathname });
  useEffect(() => {
    setOpen(false);
    return forgetSkipped;
  }, [path]);
  return (
    <div className="shell">
      <a
        className="skip"
        href="#content"
        onClick={(event) => {
          // The address is that of the view, with its filters.
          event.preventDefault();
          // Where a page failed, there is only a button to try again.
          main.current?.querySelector<HTMLElement>('h1, a, button')?.focus();
        }}
      >
        Skip to content
      </a>
      <header className="side" data-open={isOpen}>
        <div className="brand">
          <img src={icon} alt="" />
          Holdfast
        </div>
        <Button
          className="menu-button"
          variant="default"
          size="compact-sm"
          aria-expanded={isOpen}
          onClick={() => setOpen(!isOpen)}
        >
          Menu
        </Button>
        <SearchBox />
        <Navigation tenants={tenants} />
        <div className="side-foot">
          <TestClock />
          {role === 'viewer' && <span className="pill">Read only</span>}
          <SignedInAs name={name} />
          {tenants !== undefined && (
            <span className="muted small signed-in">Only for {tenants.join(', ')}</span>
          )}
          <SchemeButton />
          <Button variant="default" size="compact-sm" onClick={() => void logOut()}>
            Log out
          </Button>
        </div>
      </header>
      <main className="main" id="content" ref={main}>
        <Skipped />
        {tenants !== undefined && isOfAll(path) ? <NotForTenants tenants={tenants} /> : <Outlet />}
      </main>
    </div>
  );
}

/** Without the notice, nobody who sees only the page would know that something is missing in it. */
function Skipped(): ReactNode {
  const names = useSkipped();
  return (
    names.length > 0 && (
      <div className="notice warn" role="status">
        Left out here, because their records are damaged: {names.join(', ')}.
      </div>
    )
  );
}

/** The pages of the whole deployment would ask for what is refused, again and again. */
function NotForTenants({ tenants }: { tenants: readonly string[] }): ReactNode {
  useTitle('Of the whole deployment');
  return (
    <Empty title="This page is of the whole deployment">
      You act only for {tenants.join(', ')}. <Link to="/tenants">Go to the tenants</Link>
    </Empty>
  );
}

function Navigation({ tenants }: { tenants: readonly string[] | undefined }): ReactNode {
  return (
    <nav aria-label="Pages">
      <ul className="nav">
        {NAV.map(({ label, entries }) => (
          <Fragment key={label ?? ''}>
            {label !== undefined && <li className="nav-label">{label}</li>}
            {entries
              .filter((entry) => tenants === undefined || entry.isOfAll !== true)
              .map((entry) => (
                <li key={entry.to}>
                  <Link to={entry.to} activeOptions={{ exact: entry.to === '/' }}>
                    {entry.label}
                  </Link>
                </li>
              ))}
          </Fragment>
        ))}
      </ul>
    </nav>
  );
}

/** Every time on the pages is that of the clock. */
function TestClock(): ReactNode {
  const { clockAheadMs } = useSession();
  return clockAheadMs === 0 ? null : (
    <span className="pill warn">Test clock: {formatDuration(clockAheadMs)} ahead</span>
  );
}

/** A session that the admin key or the viewer key opened belongs to nobody by name. */
function SignedInAs({ name }: Pick<Session, 'name'>): ReactNode {
  const who = operatorIn(name);
  return who === undefined ? null : <span className="muted small signed-in">Signed in as {who}</span>;
}

function SchemeButton(): ReactNode {
  const { setColorScheme } = useMantineColorScheme();
  const other = useComputedColorScheme('light') === 'dark' ? 'light' : 'dark';
  return (
    <Button variant="default" size="compact-sm" onClick={() => setColorScheme(other)}>
      {other === 'dark' ? 'Dark' : 'Light'} colours
    </Button>
  );
}

export function NotFound(): ReactNode {
  useTitle('No such page');
  return (
    <Empty title="There is no such page">
      <Link to="/">Go to the overview</Link>
    </Empty>
  );
}
