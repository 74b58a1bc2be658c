import { Button } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { type ReactNode, useState } from 'react';
import { get } from '../../api/client';
import { serverNowMs } from '../../api/server-time';
import { useMayChange } from '../../api/session';
import type { Budget, Credit } from '../../api/types';
import { Amount } from '../../parts/amount';
import { perMille } from '../../parts/budget-bar';
import { Loaded } from '../../parts/loaded';
import { Panel } from '../../parts/panel';
import { Status } from '../../parts/status';
import { Table } from '../../parts/table';
import { Time } from '../../parts/time';
import { CREDITS, GrantCredit, MoveEnd, VoidCredit } from './change-credits';

const EVERY_MS = 5000;
const WEEK_MS = 7 * 86_400_000;

type Change = 'grant' | { readonly kind: 'void' | 'move'; readonly credit: Credit };

const isLive = ({ status }: Credit): boolean => status === 'ACTIVE' || status === 'SCHEDULED';

/** The parts of the budget that end: what burns first, what is left of each, and what ends this week. */
export function Credits({ budget }: { budget: Budget }): ReactNode {
  const { scope, unit, tenant_id: tenantId } = budget;
  const [change, setChange] = useState<Change>();
  const mayChange = useMayChange() && budget.status !== 'CLOSED';
  const credits = useQuery({
    queryKey: [CREDITS, scope, unit],
    queryFn: () => get(CREDITS, { tenant_id: tenantId, scope, unit }),
    refetchInterval: EVERY_MS,
  });
  const isEmpty = credits.data?.credits.length === 0;
  const close = (): void => setChange(undefined);
  return (
    <Panel
      title="Credits"
      className="span-12"
      aside={
        mayChange &&
        budget.status === 'ACTIVE' && (
          <Button size="compact-xs" variant="default" onClick={() => setChange('grant')}>
            Grant a credit
          </Button>
        )
      }
      flush={!isEmpty}
    >
      <Loaded query={credits} height={40}>
        {({ credits: items, has_more: hasMore }) =>
          isEmpty ? (
            <p>It has no credits: nothing of its allocation ends, or burns before the rest.</p>
          ) : (
            <>
              <BurnOrder budget={budget} credits={items.filter(({ status }) => status === 'ACTIVE')} />
              <CreditTable
                unit={unit}
                items={items}
                change={mayChange ? (kind, credit) => setChange({ kind, credit }) : undefined}
              />
              {hasMore === true && <p className="panel-note">More credits have ended within 30 days.</p>}
            </>
          )
        }
      </Loaded>
      {change === 'grant' && <GrantCredit budget={budget} close={close} />}
      {typeof change === 'object' && change.kind === 'void' && (
        <VoidCredit budget={budget} credit={change.credit} close={close} />
      )}
      {typeof change === 'object' && change.kind === 'move' && (
        <MoveEnd credit={change.credit} close={close} />
      )}
    </Panel>
  );
}

/** What is left of each credit as a share of all that is left, in burn order; the rest is the budget's own. */
function BurnOrder({ budget, credits }: { budget: Budget; credits: readonly Credit[] }): ReactNode {
  const { unit, allocated, spent } = budget;
  const whole = BigInt(allocated.amount) - BigInt(spent.amount);
  // Nothing ends in a closed budget.
  const soon = credits.filter(
    ({ expires_at: ends }) =>
      budget.status !== 'CLOSED' && ends !== undefined && Date.parse(ends) - serverNowMs() < WEEK_MS,
  );
  const ending = soon.reduce((sum, { remaining }) => sum + BigInt(remaining.amount), 0n);
  return (
    <div className="panel-note">
      <div className="bar" aria-hidden="true">
        {credits.map(({ credit_id: id, name, remaining }, index) => (
          <span
            key={id}
            title={name}
            style={{
              width: `${perMille(remaining.amount, whole) / 10}%`,
              background: `color-mix(in srgb, var(--accent) ${index % 2 === 0 ? 100 : 60}%, var(--sunken))`,
            }}
          />
        ))}
      </div>
      {ending > 0n && (
        <p style={{ marginTop: 8 }}>
          Ends this week: <Amount amount={ending} unit={unit} withUnit exact /> of {soon.length}{' '}
          {soon.length === 1 ? 'credit' : 'credits'}, unless it is used or held before.
        </p>
      )}
    </div>
  );
}

const COLUMNS = [
  'Credit',
  'Status',
  { right: 'Left' },
  'Ends',
  { right: 'Pinned' },
  { right: 'Used' },
  { right: 'Lapsed' },
  { right: 'Voided' },
  { right: 'Granted' },
  { right: 'Change' },
] as const;

function CreditTable({
  unit,
  items,
  change,
}: {
  unit: string;
  items: readonly Credit[];
  change: ((kind: 'void' | 'move', credit: Credit) => void) | undefined;
}): ReactNode {
  return (
    <Table label="Credits" columns={COLUMNS} items={items}>
      {(credit) => (
        <tr key={credit.credit_id}>
          <td>
            {credit.name}
            <div className="muted small">
              {credit.category !== undefined && `${credit.category}, `}priority {String(credit.priority)}
            </div>
          </td>
          <td>
            <Status value={credit.status} />
          </td>
          <td className="num right">
            <Amount amount={credit.remaining.amount} unit={unit} />
          </td>
          <td>
            {credit.status === 'SCHEDULED' && (
              <div className="muted small">
                from <Time at={credit.effective_at} />
              </div>
            )}
            {credit.expires_at === undefined ? (
              <span className="muted">never</span>
            ) : (
              <Time at={credit.expires_at} />
            )}
          </td>
          {[credit.pinned, credit.consumed, credit.lapsed, credit.voided, credit.amount].map(
            ({ amount }, index) => (
              <td key={index} className="num right">
                <Amount amount={amount} unit={unit} />
              </td>
            ),
          )}
          <td className="right">
            {change !== undefined && isLive(credit) && (
              <div className="row actions">
                <Button variant="default" size="compact-xs" onClick={() => change('move', credit)}>
                  Move the end
                </Button>
                <Button variant="default" size="compact-xs" onClick={() => change('void', credit)}>
                  Void
                </Button>
              </div>
            )}
          </td>
        </tr>
      )}
    </Table>
  );
}
