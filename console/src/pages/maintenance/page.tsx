import type { ReactNode } from 'react';
import type { LiveSnapshot } from '../../../../src/console/page-answers';
import { useLive } from '../../api/live';
import { PageHead, Panel } from '../../parts/panel';
import { Loading } from '../../parts/states';
import { Time } from '../../parts/time';
import { useTitle } from '../../parts/title';

type Details = LiveSnapshot['readiness']['details'];

/** What a restore and an upgrade take here, and the commands. The documents have the rest. */
export function Maintenance(): ReactNode {
  useTitle('Restore and upgrade');
  const { snapshot } = useLive();
  return (
    <>
      <PageHead title="Restore and upgrade" />
      {snapshot === undefined ? (
        <Loading height={420} />
      ) : (
        <div className="grid" style={{ alignItems: 'start' }}>
          <Facts snapshot={snapshot} />
          {snapshot.readiness.details['redis']?.embedded === true ? (
            <>
              <RestoreEmbedded isArchived={isArchived(snapshot.readiness.details)} />
              <UpgradeEmbedded />
            </>
          ) : (
            <>
              <RestoreExternal isArchived={isArchived(snapshot.readiness.details)} />
              <UpgradeExternal />
            </>
          )}
        </div>
      )}
    </>
  );
}

const isArchived = (details: Details): boolean => details['archiver'] !== undefined;

function Facts({ snapshot: { version, readiness } }: { snapshot: LiveSnapshot }): ReactNode {
  const { embedded, persistence } = readiness.details['redis'] ?? {};
  return (
    <Panel title="What runs" className="span-4" aside="the instance that answers">
      <dl className="facts">
        <dt>Version</dt>
        <dd>{version}</dd>
        <dt>Redis</dt>
        <dd>{embedded === true ? 'embedded' : 'external'}</dd>
        <dt>Append-only log</dt>
        <dd>{persistence === undefined ? 'not known' : persistence.appendLog ? 'kept' : 'none'}</dd>
        <dt>Last dump</dt>
        <dd>
          {persistence === undefined ? (
            'not known'
          ) : persistence.lastDumpAtMs === undefined ? (
            'none since Redis started'
          ) : (
            <Time at={persistence.lastDumpAtMs} />
          )}
        </dd>
        <dt>Archive</dt>
        <dd>{isArchived(readiness.details) ? 'written by this instance' : 'not written by this instance'}</dd>
      </dl>
      <p className="muted small" style={{ marginTop: 10 }}>
        {persistence?.appendLog === false
          ? 'Without the log, only a dump can be restored: what came after it is lost.'
          : 'A copy of the log has everything up to the moment it was made.'}{' '}
        Holdfast does not know when somebody made one.
      </p>
    </Panel>
  );
}

const Command = ({ children }: { children: string }): ReactNode => <pre className="answer">{children}</pre>;

const Read = ({ name, section }: { name: string; section: string }): ReactNode => (
  <p className="muted small">
    More: <span className="id">docs/{name}.md</span>, under {section}.
  </p>
);

/** What is true of every restore. */
function Restored({ isArchived }: { isArchived: boolean }): ReactNode {
  return (
    <>
      <p>
        The ledger is then as it was when the copy was made. It knows nothing of later spending, and holds
        that are overdue by then expire within seconds, with their events.
      </p>
      <p>
        {isArchived
          ? 'Keep the folder of the archive: it goes on, and what it has of after the copy is superseded in reports.'
          : 'If another instance writes an archive, keep its folder: it goes on, and what it has of after the copy is superseded in reports.'}
      </p>
    </>
  );
}

function RestoreEmbedded({ isArchived: archived }: { isArchived: boolean }): ReactNode {
  return (
    <Panel title="Restore" className="span-4">
      <div className="stack">
        <p>Try the copy first. It starts on loopback, tells nobody, is verified and removed:</p>
        <Command>npm run restore -- backup --rehearse</Command>
        <p>
          Then stop Holdfast for good, and move all but the archive out of DATA_DIR. The command puts the copy
          there{archived && ', and says whether the archive goes along'}:
        </p>
        <Command>npm run restore -- backup</Command>
        <Restored isArchived={archived} />
        <p>A copy is made while Holdfast runs, or not:</p>
        <Command>npm run backup -- backup</Command>
        <Read name="backup" section="Restore" />
      </div>
    </Panel>
  );
}

function RestoreExternal({ isArchived: archived }: { isArchived: boolean }): ReactNode {
  return (
    <Panel title="Restore" className="span-4">
      <div className="stack">
        <p>
          Redis is restored with its own means: stop every instance, start Redis on a copy of its append-only
          log, and start Holdfast with the same ADMIN_API_KEY and WEBHOOK_SECRET_ENCRYPTION_KEY. Without the
          latter, no webhook can be signed. Then verify:
        </p>
        <Command>npm run verify</Command>
        <Restored isArchived={archived} />
        <p>
          To copy the log, let Redis not rewrite it, wait until INFO persistence has
          aof_rewrite_in_progress:0, copy appendonlydir, and set the percentage to what it was:
        </p>
        <Command>redis-cli CONFIG SET auto-aof-rewrite-percentage 0</Command>
        <Read name="backup" section="Backup and restore" />
      </div>
    </Panel>
  );
}

function UpgradeEmbedded(): ReactNode {
  return (
    <Panel title="Upgrade" className="span-4">
      <div className="stack">
        <p>
          <strong>Seconds of downtime:</strong> this instance stops together with its Redis, and the next one
          loads the log first. 6 to 11 s were measured; a larger log takes longer. Clients that retry with
          their idempotency keys lose nothing.
        </p>
        <p>Read CHANGELOG.md, and take a copy:</p>
        <Command>npm run backup -- backup</Command>
        <p>Then stop it (SIGTERM), and start the new version on the same DATA_DIR:</p>
        <Command>{'npm ci && npm run build && npm start'}</Command>
        <p>Without downtime, it needs a Redis of your own and two instances.</p>
        <Read name="operations" section="Upgrades" />
      </div>
    </Panel>
  );
}

function UpgradeExternal(): ReactNode {
  return (
    <Panel title="Upgrade" className="span-4">
      <div className="stack">
        <p>
          <strong>No downtime with two instances or more:</strong> replace one after the other. Old and new
          run side by side unless the changelog says otherwise. A single instance is away while it restarts.
        </p>
        <p>Read CHANGELOG.md, and take a copy of Redis. With the chart:</p>
        <Command>helm upgrade holdfast deploy/helm/holdfast -f my-values.yaml</Command>
        <p>Back again:</p>
        <Command>helm rollback holdfast</Command>
        <p>With Compose, whose one instance is away meanwhile:</p>
        <Command>docker compose up --build -d</Command>
        <p>PARTITIONS can never be changed. Upgrade Redis itself replica first, then fail over.</p>
        <Read name="operations" section="Upgrades" />
      </div>
    </Panel>
  );
}
