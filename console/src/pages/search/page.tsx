import { useQuery } from '@tanstack/react-query';
import { getRouteApi, Link, Navigate } from '@tanstack/react-router';
import type { ReactNode } from 'react';
import { Loaded } from '../../parts/loaded';
import { PageHead, Panel } from '../../parts/panel';
import { Empty } from '../../parts/states';
import { useTitle } from '../../parts/title';
import { find, findSecret, type Found, type Hit, SHOWN } from './find';

const route = getRouteApi('/search');

/** What a text of the search box is, or the names that have it. */
export function Search(): ReactNode {
  useTitle('Search');
  const { q = '', prefix, hash } = route.useSearch();
  const found = useQuery({
    queryKey: ['search', q, prefix, hash],
    queryFn: () => (prefix === undefined || hash === undefined ? find(q) : findSecret(prefix, hash)),
    enabled: q !== '' || hash !== undefined,
  });
  if (hash === 'none') {
    return (
      <Empty title="This browser cannot look for a secret">
        It can compute the hash of a secret only on a page that came over TLS, or from the same machine.
      </Empty>
    );
  }
  return (
    <>
      <PageHead title={prefix === undefined ? `Search: ${q}` : `The secret ${prefix}…`} />
      {q === '' && prefix === undefined ? (
        <Empty title="Nothing to look for">Type an id, a name, a scope or a secret into the search.</Empty>
      ) : (
        <Loaded query={found}>{(read) => <Results found={read} />}</Loaded>
      )}
    </>
  );
}

function Results({ found: { exact, groups, further } }: { found: Found }): ReactNode {
  if (exact !== undefined) {
    return <Navigate {...(exact.to as { to: '/' })} replace />;
  }
  const filled = Object.entries(groups).filter(([, hits]) => hits.length > 0);
  return (
    <div className="stack">
      {filled.length === 0 && (
        <Empty title="Nothing has this id or name">
          Looked for: tenants, budgets, API keys and webhooks by name, and ids of every kind. Ended
          reservations, events and requests are kept for a limited time.
        </Empty>
      )}
      {filled.map(([title, hits]) => (
        <Panel key={title} title={title} aside={hits.length >= SHOWN ? `the first ${SHOWN}` : undefined}>
          <Hits hits={hits} />
        </Panel>
      ))}
      {further.length > 0 && (
        <Panel title="Not searched here">
          <Hits hits={further} />
        </Panel>
      )}
    </div>
  );
}

function Hits({ hits }: { hits: readonly Hit[] }): ReactNode {
  return (
    <ul className="hits">
      {hits.map(({ label, detail, to }) => (
        <li key={`${label} ${detail ?? ''}`}>
          <Link {...(to as { to: '/' })}>{label}</Link>
          {detail !== undefined && <span className="muted small id"> {detail}</span>}
        </li>
      ))}
    </ul>
  );
}
