import { Fragment, type ReactNode } from 'react';

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
