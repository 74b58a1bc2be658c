import { Button } from '@mantine/core';
import { Link } from '@tanstack/react-router';
import { type ReactNode, useState } from 'react';
import { call } from '../../api/client';
import { useList } from '../../api/list';
import type { Schema } from '../../api/operations';
import { queryClient } from '../../api/session';
import { Amount } from '../../parts/amount';
import { ChangeDialog } from '../../parts/change-dialog';
import { Listing } from '../../parts/loaded';
import { Panel } from '../../parts/panel';
import { Empty } from '../../parts/states';
import { wordOf } from '../../parts/status';
import { Table } from '../../parts/table';
import { formatDuration, Time } from '../../parts/time';
import { calendarOf, wordsOf } from '../budget/recurrence';
import { TEMPLATE, TEMPLATES, TemplateForm } from './template-form';

type Template = Schema<'BudgetTemplate'>;

/** What the budgets of a template get besides their amount, in words. */
function termsOf({ overdraft_limit: overdraft, ...template }: Template): ReactNode[] {
  const calendar = template.recurrence && calendarOf(template.recurrence);
  const { period_ms: periodMs, commit_overage_policy: overage, unit } = template;
  const { windows = [], credits = [] } = template;
  return [
    ...(calendar === undefined ? [] : [`new ${wordsOf(calendar)}`]),
    ...(periodMs === undefined ? [] : [`new every ${formatDuration(periodMs)}`]),
    ...windows.map(({ name, limit, ...rule }) => {
      const every = calendarOf(rule);
      return (
        <>
          window {name}: <Amount amount={limit.amount} unit={unit} />
          {every !== undefined && ` ${wordsOf(every)}`}
        </>
      );
    }),
    ...credits.map(({ name, amount, lasts_ms: lastsMs }) => (
      <>
        credit {name}: <Amount amount={amount.amount} unit={unit} /> for {formatDuration(lastsMs)}
      </>
    )),
    ...(overdraft === undefined || BigInt(overdraft.amount) === 0n
      ? []
      : [
          <>
            overdraft of <Amount amount={overdraft.amount} unit={unit} />
          </>,
        ]),
    ...(overage === undefined ? [] : [`overage: ${wordOf(overage).toLowerCase()}`]),
  ];
}

/** The templates that make budgets for scopes of a tenant that have none. */
export function Templates({ tenantId, mayChange }: { tenantId: string; mayChange: boolean }): ReactNode {
  const [isCreating, setCreating] = useState(false);
  const [changed, setChanged] = useState<Template>();
  const [removed, setRemoved] = useState<Template>();
  const list = useList(TEMPLATES, { tenant_id: tenantId }, ({ templates }) => templates);
  return (
    <Panel
      title="Budget templates"
      className="span-12"
      flush
      aside={
        mayChange && (
          <Button size="compact-xs" variant="default" onClick={() => setCreating(true)}>
            Create template
          </Button>
        )
      }
    >
      <Listing
        list={list}
        height={120}
        empty={
          <Empty title="No templates">
            With one, the first request at a scope without a budget makes it, for example for each new agent.
          </Empty>
        }
      >
        {(templates) => (
          <Table
            label="Budget templates"
            columns={['Template', 'Scopes', { right: 'Allocated' }, 'Also', 'Changed', { hidden: 'Change' }]}
            items={templates}
          >
            {(template) => (
              <TemplateRow
                key={template.template_id}
                template={template}
                {...(mayChange ? { edit: setChanged, remove: setRemoved } : {})}
              />
            )}
          </Table>
        )}
      </Listing>
      {isCreating && <TemplateForm tenantId={tenantId} close={() => setCreating(false)} />}
      {changed !== undefined && (
        <TemplateForm tenantId={tenantId} template={changed} close={() => setChanged(undefined)} />
      )}
      {removed !== undefined && <Remove template={removed} close={() => setRemoved(undefined)} />}
    </Panel>
  );
}

function TemplateRow({
  template,
  edit,
  remove,
}: {
  template: Template;
  edit?: (template: Template) => void;
  remove?: (template: Template) => void;
}): ReactNode {
  const { template_id: id, scope_pattern: pattern, allocated, unit } = template;
  return (
    <tr>
      <td className="id">{id}</td>
      <td className="id">
        <Link to="/budgets" search={{ tenant_id: template.tenant_id, search: fixedPart(pattern) }}>
          {pattern}
        </Link>
      </td>
      <td className="right">
        <Amount amount={allocated.amount} unit={unit} withUnit />
      </td>
      <td style={{ minWidth: 160 }}>
        {termsOf(template).map((term, index) => (
          <div key={index}>{term}</div>
        ))}
      </td>
      <td>
        <Time at={template.updated_at} />
      </td>
      <td className="right">
        {edit !== undefined && (
          <div className="row actions">
            <Button
              size="compact-xs"
              variant="default"
              aria-label={`Edit ${id}`}
              onClick={() => edit(template)}
            >
              Edit
            </Button>
            <Button
              size="compact-xs"
              variant="default"
              aria-label={`Delete ${id}`}
              onClick={() => remove?.(template)}
            >
              Delete
            </Button>
          </div>
        )}
      </td>
    </tr>
  );
}

/** What stands before the first star. */
const fixedPart = (pattern: string): string => pattern.split('*', 1)[0] ?? '';

function Remove({ template, close }: { template: Template; close: () => void }): ReactNode {
  const { template_id: id, tenant_id: tenantId } = template;
  const remove = async (): Promise<void> => {
    await call('delete', TEMPLATE, { template_id: id, tenant_id: tenantId });
    await queryClient.invalidateQueries({ queryKey: [TEMPLATES] });
  };
  return (
    <ChangeDialog title={`Delete ${id}`} action="Delete the template" danger change={remove} close={close}>
      <p>
        The budgets that it has made stay. A scope that has no budget by then gets none any more, unless
        another template matches.
      </p>
    </ChangeDialog>
  );
}
