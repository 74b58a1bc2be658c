import { Button, NativeSelect, TextInput } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { type ReactNode, useId } from 'react';
import { QUOTA_WINDOWS, type QuotaWindow, RISK_CLASSES } from '../../../../src/ledger/actions';
import { get } from '../../api/client';
import type { Schema } from '../../api/operations';
import { COUNT, readCount } from '../../parts/numbers';

type Quota = Pick<Schema<'ActionQuota'>, 'max_calls' | 'window'>;
type RiskClass = Schema<'RiskClassQuota'>['risk_class'];

const WINDOWS: Readonly<Record<QuotaWindow, string>> = {
  per_run: 'a run',
  per_minute_tumbling: 'a minute',
  per_hour_tumbling: 'an hour',
  per_day_tumbling: 'a day',
  per_tenant_per_day: 'a day in all scopes',
};
export const MAX_CALLS = 100_000;

/** For example `50 message.email.send an hour`. */
export const quotaWords = (kind: string, { max_calls: most, window }: Quota): string =>
  `${COUNT.format(most)} ${kind} ${WINDOWS[window]}`;

/** A quota as it is typed. */
export interface QuotaDraft {
  readonly kind: string;
  readonly most: string;
  readonly window: QuotaWindow;
  /** What else a stored quota says, which the form leaves as it is. */
  readonly rest?: object;
}

export const EMPTY_QUOTA: QuotaDraft = { kind: '', most: '', window: 'per_hour_tumbling' };

/** The quotas of a stored policy. */
export function draftsOf(policy: Schema<'Policy'> | undefined): readonly QuotaDraft[] {
  const draft = (kind: string, { max_calls: most, window, ...rest }: Quota): QuotaDraft => ({
    kind,
    most: String(most),
    window,
    rest,
  });
  return [
    ...(policy?.action_quotas ?? []).map(({ action_kind: kind, ...quota }) => draft(kind, quota)),
    ...(policy?.risk_class_quotas ?? []).map(({ risk_class: kind, ...quota }) => draft(kind, quota)),
  ];
}

export function isComplete({ kind, most }: QuotaDraft): boolean {
  const count = readCount(most) ?? Number.NaN;
  return kind !== '' && count >= 1 && count <= MAX_CALLS;
}

const isRiskClass = ({ kind }: QuotaDraft): boolean => (RISK_CLASSES as readonly string[]).includes(kind);

/** The quotas as the API takes them, those of kinds apart from those of risk classes. */
export function quotaLists(
  drafts: readonly QuotaDraft[],
): Pick<Schema<'Policy'>, 'action_quotas' | 'risk_class_quotas'> {
  const quotaOf = ({ most, window, rest }: QuotaDraft): Quota => ({
    ...rest,
    max_calls: readCount(most) ?? 0,
    window,
  });
  return {
    action_quotas: drafts
      .filter((draft) => !isRiskClass(draft))
      .map((draft) => ({ action_kind: draft.kind, ...quotaOf(draft) })),
    risk_class_quotas: drafts
      .filter(isRiskClass)
      .map((draft) => ({ risk_class: draft.kind as RiskClass, ...quotaOf(draft) })),
  };
}

/** The quotas of a policy that is being created. */
export function Quotas({
  drafts,
  onChange,
}: {
  drafts: readonly QuotaDraft[];
  onChange: (drafts: readonly QuotaDraft[]) => void;
}): ReactNode {
  const kinds = useId();
  const { data = [] } = useQuery({
    queryKey: ['/v1/action-kinds'],
    queryFn: () => get('/v1/action-kinds', { limit: 100 }),
    select: ({ kinds: known }) => known.map(({ kind }) => kind),
    staleTime: Infinity,
  });
  const set = (index: number, changed: Partial<QuotaDraft>): void =>
    onChange(drafts.map((draft, place) => (place === index ? { ...draft, ...changed } : draft)));
  return (
    <fieldset className="stack fields">
      <legend>Quotas of actions</legend>
      <datalist id={kinds}>
        {[...RISK_CLASSES, ...data].map((kind) => (
          <option key={kind} value={kind} />
        ))}
      </datalist>
      {drafts.map(({ kind, most, window }, index) => (
        <div key={index} className="quota">
          <TextInput
            label="Kind or risk class"
            list={kinds}
            value={kind}
            onChange={({ currentTarget: { value } }) => set(index, { kind: value.trim() })}
          />
          <TextInput
            label="Actions"
            inputMode="numeric"
            value={most}
            onChange={({ currentTarget: { value } }) => set(index, { most: value })}
          />
          <NativeSelect
            label="In"
            data={QUOTA_WINDOWS.map((value) => ({ value, label: WINDOWS[value] }))}
            value={window}
            onChange={({ currentTarget: { value } }) => set(index, { window: value as QuotaWindow })}
          />
          <Button
            size="xs"
            variant="default"
            aria-label={`Remove quota ${index + 1}`}
            onClick={() => onChange(drafts.filter((_, place) => place !== index))}
          >
            Remove
          </Button>
        </div>
      ))}
      <div>
        <Button size="compact-sm" variant="default" onClick={() => onChange([...drafts, EMPTY_QUOTA])}>
          Add quota
        </Button>
      </div>
    </fieldset>
  );
}
