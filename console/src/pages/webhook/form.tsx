import { type ReactNode, useState } from 'react';
import { call } from '../../api/client';
import type { Body } from '../../api/operations';
import { queryClient } from '../../api/session';
import type { Webhook } from '../../api/types';
import { SYSTEM_OWNER, WEBHOOK, WEBHOOKS } from '../../api/webhooks';
import { ChangeDialog } from '../../parts/change-dialog';
import { Checks } from '../../parts/checks';
import { type Field, type Form, partsOf, useForm } from '../../parts/form';
import { readDecimal } from '../../parts/numbers';
import { SecretDialog } from '../../parts/secret-dialog';
import { CATEGORIES, categoryOf, EVENT_TYPES, TENANT_EVENT_CATEGORIES } from '../events/event';

type Settings = Body<'patch', typeof WEBHOOK>;
type Name =
  | 'owner'
  | 'url'
  | 'name'
  | 'description'
  | 'scope'
  | 'marks'
  | 'headers'
  | 'retries'
  | 'delay'
  | 'longest'
  | 'limit';

const fieldsOf = (webhook: Webhook | undefined): Readonly<Record<Name, Field>> => ({
  owner: {
    label: 'Owner',
    description:
      'The id of a tenant, whose events it gets. Empty: the system, with the events of all tenants',
    disabled: webhook !== undefined,
  },
  url: { label: 'Endpoint', description: 'Where events are sent, with https' },
  name: { label: 'Name' },
  description: { label: 'Description' },
  scope: {
    label: 'Only in scopes',
    description: 'A scope, in which * stands for any characters. Empty: all',
  },
  marks: {
    label: 'Thresholds in percent',
    description: 'When budget.threshold_crossed is sent, such as 80, 95. Empty: as usual',
  },
  headers: {
    label: 'Own headers',
    description: 'One a line, such as Authorization: Bearer abc. Stars stand for a value that is kept',
    kind: 'lines',
  },
  retries: { label: 'Attempts after the first', kind: 'number', description: 'At most 10. Empty: 5' },
  delay: { label: 'First pause in ms', kind: 'number', description: 'Each further pause is longer' },
  longest: { label: 'Longest pause in ms', kind: 'number' },
  limit: {
    label: 'Disabled after',
    description: 'Deliveries in a row that are given up',
    kind: 'number',
  },
});

const PERCENT = 100;

function valuesOf(webhook: Webhook | undefined): Record<Name, string> {
  const { retry_policy: retry, thresholds, headers = {} } = webhook ?? {};
  return {
    owner: webhook === undefined || webhook.tenant_id === SYSTEM_OWNER ? '' : webhook.tenant_id,
    url: webhook?.url ?? '',
    name: webhook?.name ?? '',
    description: webhook?.description ?? '',
    scope: webhook?.scope_filter ?? '',
    // As the API writes them, a share such as 0.29 is 28.999999999999996 percent.
    marks: (thresholds?.budget_utilization ?? [])
      .map((share) => String(Number((share * PERCENT).toFixed(6))))
      .join(', '),
    headers: Object.entries(headers)
      .map(([name, value]) => `${name}: ${value}`)
      .join('\n'),
    retries: retry?.max_retries.toString() ?? '',
    delay: retry?.initial_delay_ms.toString() ?? '',
    longest: retry?.max_delay_ms.toString() ?? '',
    limit: webhook?.disable_after_failures.toString() ?? '',
  };
}

/** Shares of one, or undefined if one of them is no percentage. */
function sharesOf(text: string): number[] | undefined {
  const shares = partsOf(text.replaceAll('%', '')).map((part) => Number(readDecimal(part) ?? NaN) / PERCENT);
  return shares.every((share) => share >= 0 && share <= 1) ? shares : undefined;
}

const HEADER = /^\s*([!#$%&'*+.^_`|~\w-]+)\s*:\s*(.*?)\s*$/;

/** Headers by their names, or undefined if one of the lines is none. */
function headersOf(text: string): Record<string, string> | undefined {
  const lines = text.split('\n').filter((line) => line.trim() !== '');
  const found = lines.map((line) => HEADER.exec(line));
  return found.every((match) => match !== null)
    ? Object.fromEntries(found.map(([, name = '', value = '']) => [name, value]))
    : undefined;
}

/** What was changed: of a subscription that is new, all that is not empty. `null` takes a text back. */
function settingsOf({ values, isChanged, count }: Form<Name>, webhook: Webhook | undefined): Settings {
  const text = (name: 'name' | 'description' | 'scope'): string | null =>
    values[name] === '' ? null : values[name];
  return {
    ...(isChanged('url') ? { url: values.url } : {}),
    ...(isChanged('name') ? { name: text('name') } : {}),
    ...(isChanged('description') ? { description: text('description') } : {}),
    ...(isChanged('scope') ? { scope_filter: text('scope') } : {}),
    ...(isChanged('marks')
      ? { thresholds: { ...webhook?.thresholds, budget_utilization: sharesOf(values.marks) } }
      : {}),
    ...(isChanged('headers') ? { headers: headersOf(values.headers) } : {}),
    ...(isChanged('retries', 'delay', 'longest')
      ? {
          retry_policy: {
            ...webhook?.retry_policy,
            max_retries: count('retries'),
            initial_delay_ms: count('delay'),
            max_delay_ms: count('longest'),
          },
        }
      : {}),
    ...(isChanged('limit') ? { disable_after_failures: count('limit') } : {}),
  };
}

/** A choice of Checks that stands for a category as a whole. */
const ALL = 'all of ';
const TENANTS: readonly string[] = TENANT_EVENT_CATEGORIES;

const groupsFor = (chosen: readonly string[]): Parameters<typeof Checks>[0]['groups'] =>
  Object.keys(CATEGORIES).map((category) => ({
    name: category,
    all: `${ALL}${category}`,
    choices: [...new Set([...EVENT_TYPES, ...chosen])].filter((type) => categoryOf(type) === category),
  }));

/** The API wants at least one type of a new subscription, also beside a category. */
function selectors(chosen: ReadonlySet<string>): Pick<Settings, 'event_types' | 'event_categories'> {
  const categories = [...chosen].flatMap((one) => (one.startsWith(ALL) ? [one.slice(ALL.length)] : []));
  const types = [...chosen].filter((one) => !one.startsWith(ALL));
  const some: readonly string[] =
    types.length > 0 ? types : EVENT_TYPES.filter((type) => categoryOf(type) === categories[0]);
  return {
    event_types: some.slice(0, types.length > 0 ? some.length : 1) as Settings['event_types'],
    event_categories: categories as Settings['event_categories'],
  };
}

/** Creates a subscription, or changes one. */
export function WebhookForm({
  webhook,
  owner = '',
  close,
}: {
  webhook?: Webhook;
  /** The tenant that a new one is proposed for. */
  owner?: string;
  close: () => void;
}): ReactNode {
  const form = useForm(fieldsOf(webhook), { ...valuesOf(webhook), ...(webhook ? {} : { owner }) });
  const { values } = form;
  const [known] = useState<ReadonlySet<string>>(
    () =>
      new Set([
        ...(webhook?.event_types ?? []),
        ...(webhook?.event_categories ?? []).map((category) => `${ALL}${category}`),
      ]),
  );
  const [chosen, setChosen] = useState(known);
  const [secret, setSecret] = useState<string>();
  if (secret !== undefined) {
    return (
      <SecretDialog title="The signing secret" secret={secret} close={close}>
        <p>The endpoint checks with it that what it gets comes from here.</p>
      </SecretDialog>
    );
  }
  const change = async (): Promise<void> => {
    const settings = {
      ...settingsOf(form, webhook),
      ...(chosen === known ? {} : selectors(chosen)),
    };
    if (webhook === undefined) {
      const query = { tenant_id: values.owner === '' ? SYSTEM_OWNER : values.owner };
      const made = await call('post', WEBHOOKS, query, settings as Body<'post', typeof WEBHOOKS>);
      setSecret(made.signing_secret);
    } else {
      await call('patch', WEBHOOK, { subscription_id: webhook.subscription_id }, settings);
    }
    await queryClient.invalidateQueries({ queryKey: [WEBHOOKS] });
  };
  const isOfTenant = values.owner !== '';
  const mayNotHave = (choice: string): boolean =>
    isOfTenant && !chosen.has(choice) && !TENANTS.includes(categoryOf(choice.replace(ALL, '')));
  const differences = [
    ...form.differences,
    ...(chosen === known ? [] : [{ label: 'Events', before: known.size, after: chosen.size }]),
  ];
  const blocked =
    values.url === ''
      ? 'An endpoint is missing'
      : chosen.size === 0
        ? 'No event is chosen'
        : sharesOf(values.marks) === undefined
          ? 'Thresholds are percentages, such as 80, 95'
          : headersOf(values.headers) === undefined
            ? 'A header has a name, a colon and a value'
            : (form.problem ??
              (webhook !== undefined && differences.length === 0 ? 'Nothing changes yet' : undefined));
  return (
    <ChangeDialog
      title={webhook === undefined ? 'Create a subscription' : 'Change the subscription'}
      action={webhook === undefined ? 'Create subscription' : 'Change the subscription'}
      change={change}
      close={webhook === undefined ? () => undefined : close}
      cancel={close}
      blocked={blocked}
      differences={webhook === undefined ? [] : differences}
    >
      {form.input('owner')}
      {form.input('url')}
      <Checks
        legend="Events"
        groups={groupsFor([...known].filter((one) => !one.startsWith(ALL)))}
        chosen={chosen}
        onChange={setChosen}
        disabled={mayNotHave}
      />
      {(
        ['name', 'description', 'scope', 'marks', 'headers', 'retries', 'delay', 'longest', 'limit'] as const
      ).map(form.input)}
    </ChangeDialog>
  );
}
