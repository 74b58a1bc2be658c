import { type ReactNode, useId } from 'react';
import { useHeadingFocus } from './heading';

export function Panel({
  title,
  aside,
  className = '',
  flush = false,
  children,
}: {
  title: ReactNode;
  aside?: ReactNode;
  className?: string;
  /** Tables reach the border. */
  flush?: boolean;
  children: ReactNode;
}): ReactNode {
  const id = useId();
  return (
    <section className={`panel ${className}`} aria-labelledby={id}>
      <div className="panel-head">
        <h2 id={id}>{title}</h2>
        {aside !== undefined && <div className="muted small">{aside}</div>}
      </div>
      <div className={flush ? '' : 'panel-body'} style={flush ? { paddingTop: 6 } : undefined}>
        {children}
      </div>
    </section>
  );
}

export function PageHead({ title, children }: { title: ReactNode; children?: ReactNode }): ReactNode {
  const heading = useHeadingFocus();
  return (
    <header className="page-head">
      <h1 ref={heading} tabIndex={-1}>
        {title}
      </h1>
      <div className="row">{children}</div>
    </header>
  );
}
