import { Fragment, type ReactNode } from 'react';

/** The levels of a scope: `tenant:acme/agent:bot` is `{ tenant: 'acme', agent: 'bot' }`. A part that is no level is left out. */
export function levelsOf(scope: string): Readonly<Record<string, string>> {
  const levels = [...scope.matchAll(/([^/:]+):([^/]+)/g)];
  return Object.fromEntries(levels.map(([, level = '', name = '']) => [level, name]));
}

/** A scope path, which may break between its levels. The levels above the last one are muted. */
export function Scope({ path }: { path: string }): ReactNode {
  const levels = path.split('/');
  return (
    <span className="id">
      {levels.map((level, index) => (
        <Fragment key={`${index} ${level}`}>
          {index > 0 && (
            <>
              <span className="muted">/</span>
              <wbr />
            </>
          )}
          <span className={index < levels.length - 1 ? 'muted' : ''}>{level}</span>
        </Fragment>
      ))}
    </span>
  );
}
