import type { ReactNode } from 'react';
import { Panel } from '../../parts/panel';
import { Empty } from '../../parts/states';
import { Table } from '../../parts/table';
import { formatDuration, Time } from '../../parts/time';
import type { Instance } from './state';

/** The sweepers that have announced themselves, and the last thing that each did. */
export function Instances({ instances }: { instances: readonly Instance[] }): ReactNode {
  return (
    <Panel title="Instances" className="span-12" flush>
      {instances.length === 0 ? (
        <Empty title="Nobody sweeps">Start an instance with the role sweeper: see HOLDFAST_ROLES.</Empty>
      ) : (
        <Table
          label="Instances"
          columns={[
            'Instance',
            { right: 'Partitions' },
            { right: 'Lease ends in' },
            { right: 'Last success' },
            'Last pass with work',
          ]}
          items={instances}
        >
          {(instance, index) => (
            <InstanceRow key={instance.instance} instance={instance} number={index + 1} />
          )}
        </Table>
      )}
    </Panel>
  );
}

function InstanceRow({ instance, number }: { instance: Instance; number: number }): ReactNode {
  const [last] = instance.last_ticks ?? [];
  const { last_success_age_ms: age } = instance;
  return (
    <tr>
      <td>
        <span className="muted num">{number} </span>
        <span className="id">{instance.instance}</span>
      </td>
      <td className="right num">{instance.holds.length}</td>
      <td className="right num">{formatDuration(Math.max(0, instance.lapses_in_ms))}</td>
      <td className="right num">{age === undefined ? '–' : `${formatDuration(age)} ago`}</td>
      <td>
        {last === undefined ? (
          <span className="muted">none yet</span>
        ) : (
          <>
            <Time at={last.at_ms} clock />, {last.expired} of {last.judged} expired in{' '}
            {formatDuration(last.duration_ms)}
            {last.failed > 0 && <span className="pill bad">{last.failed} failed</span>}
            {last.cut && <span className="pill warn">Cut off</span>}
          </>
        )}
      </td>
    </tr>
  );
}
