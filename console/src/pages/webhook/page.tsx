import { Button } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { getRouteApi, Link } from '@tanstack/react-router';
import { type ReactNode, useState } from 'react';
import { get } from '../../api/client';
import { useMayChange } from '../../api/session';
import type { Schema } from '../../api/operations';
import type { Webhook } from '../../api/types';
import { ownerWord, WEBHOOK, WEBHOOKS } from '../../api/webhooks';
import { KeyName } from '../../parts/key-name';
import { percentOf } from '../../parts/numbers';
import { PageHead, Panel } from '../../parts/panel';
import { Failure, Loading } from '../../parts/states';
import { Status } from '../../parts/status';
import { formatDuration, Time } from '../../parts/time';
import { useTitle } from '../../parts/title';
import { Pause, RotateSecret, SendTest } from './changes';
import { Deliveries } from './deliveries';
import { DeliveryPanel } from './delivery';
import { WebhookForm } from './form';
import { amountWords, filterWords, type Options, OptionsForm, useOptions } from './options';
import { Replay, ReplayProgress } from './replay';

const route = getRouteApi('/webhooks/$id');
const EVERY_MS = 3000;
type Change = 'test' | 'edit' | 'options' | 'pause' | 'replay' | 'rotate';

/** One subscription: how well it does, what it selects, and its deliveries. */
export function WebhookPage(): ReactNode {
  const { id } = route.useParams();
  const { data, error, refetch } = useQuery({
    queryKey: [WEBHOOKS, id],
    queryFn: () => get(WEBHOOK, { subscription_id: id }),
    refetchInterval: EVERY_MS,
  });
  useTitle(data?.name ?? data?.url ?? id);
  if (data === undefined) {
    return error ? <Failure error={error} retry={() => void refetch()} /> : <Loading height={400} />;
  }
  return <WebhookView webhook={data} />;
}

function WebhookView({ webhook }: { webhook: Webhook }): ReactNode {
  const { subscription_id: id, status } = webhook;
  const { status: shown, replay, queued, delivery } = route.useSearch();
  const navigate = route.useNavigate();
  const [change, setChange] = useState<Change>();
  const [tested, setTested] = useState<Schema<'WebhookTestResponse'>>();
  const options = useOptions(webhook);
  const close = (): void => setChange(undefined);
  const open = (chosen: string | undefined): void =>
    void navigate({ search: (old) => ({ ...old, delivery: chosen }), resetScroll: false });
  return (
    <>
      <PageHead title={<span className="id">{webhook.name ?? webhook.url}</span>}>
        <Status value={status} />
        {useMayChange() && (
          <Actions status={status} hasOptions={options.data !== undefined} choose={setChange} />
        )}
      </PageHead>
      <div className="grid" style={{ alignItems: 'start' }}>
        {tested !== undefined && <TestResult result={tested} />}
        <Health webhook={webhook} stopped={options.data?.stopped} />
        <Settings webhook={webhook} options={options} />
        {replay !== undefined && (
          <ReplayProgress id={id} replay={{ replay_id: replay, events_queued: Number(queued) || 0 }} />
        )}
        <Deliveries
          id={id}
          status={shown}
          open={open}
          setStatus={(value) =>
            void navigate({
              search: (old) => ({ ...old, status: value }),
              replace: true,
              resetScroll: false,
            })
          }
        />
      </div>
      {change === 'test' && <SendTest webhook={webhook} close={close} tested={setTested} />}
      {delivery !== undefined && (
        <DeliveryPanel id={delivery} webhook={webhook} open={open} close={() => open(undefined)} />
      )}
      {change === 'edit' && <WebhookForm webhook={webhook} close={close} />}
      {change === 'options' && options.data !== undefined && (
        <OptionsForm webhook={webhook} options={options.data} close={close} />
      )}
      {change === 'pause' && <Pause webhook={webhook} close={close} />}
      {change === 'rotate' && <RotateSecret webhook={webhook} close={close} />}
      {change === 'replay' && (
        <Replay
          webhook={webhook}
          close={close}
          started={({ replay_id: replayId, events_queued: count }) =>
            void navigate({ search: (old) => ({ ...old, replay: replayId, queued: String(count) }) })
          }
        />
      )}
    </>
  );
}

function Actions({
  status,
  hasOptions,
  choose,
}: {
  status: Webhook['status'];
  hasOptions: boolean;
  choose: (change: Change) => void;
}): ReactNode {
  const actions: readonly (readonly [Change, string])[] = [
    ['test', 'Test'],
    ['edit', 'Edit'],
    ['options', 'Options'],
    ['replay', 'Replay'],
    ['pause', status === 'ACTIVE' ? 'Pause' : 'Resume'],
    ['rotate', 'Rotate secret'],
  ];
  return actions.map(([change, label]) => (
    <Button
      key={change}
      size="compact-sm"
      variant="default"
      disabled={change === 'options' && !hasOptions}
      onClick={() => choose(change)}
    >
      {label}
    </Button>
  ));
}

function TestResult({ result }: { result: Schema<'WebhookTestResponse'> }): ReactNode {
  const { success, response_status: status, response_time_ms: tookMs, error_message: problem } = result;
  const took = tookMs === undefined ? '' : ` after ${formatDuration(tookMs)}`;
  return (
    <div className={`notice span-12 ${success ? '' : 'bad'}`} role="status">
      <strong>{success ? 'The test event arrived' : 'The test event did not arrive'}</strong>
      <div className="num">
        {status === undefined ? 'No answer' : `Answer ${status}`}
        {took}
      </div>
      {problem !== undefined && <div className="muted">{problem}</div>}
    </div>
  );
}

function Health({ webhook, stopped }: { webhook: Webhook; stopped: Options['stopped'] }): ReactNode {
  const { consecutive_failures: failures, disable_after_failures: limit } = webhook;
  const times = [
    ['Last success', webhook.last_success_at],
    ['Last failure', webhook.last_failure_at],
    ['Last event', webhook.last_triggered_at],
  ] as const;
  return (
    <Panel title="Health" className="span-4">
      <div className="figure">
        {failures}
        <small>{failures === 1 ? 'failure' : 'failures'} in a row</small>
      </div>
      <dl className="facts" style={{ marginTop: 10 }}>
        {times.map(([label, at]) => (
          <Facts key={label} label={label}>
            {at === undefined ? 'none yet' : <Time at={at} />}
          </Facts>
        ))}
        <Facts label="Disabled after">{limit} in a row</Facts>
      </dl>
      {webhook.status !== 'ACTIVE' && <Stopped stopped={stopped} />}
      {webhook.status === 'DISABLED' && (
        <p className="notice bad" style={{ marginTop: 12 }}>
          Nothing is sent any more. Repair the endpoint, send a test event, resume, and replay from the last
          success.
        </p>
      )}
    </Panel>
  );
}

const WHY: Readonly<Record<NonNullable<Options['stopped']>['reason'], string>> = {
  consecutive_failures_exceeded_threshold: 'Disabled, because too many deliveries failed in a row',
  endpoint_gone: 'Disabled, because the endpoint answered 410 Gone',
  tenant_closed: 'Disabled, because its tenant was closed',
  paused: 'Paused',
};

function Stopped({ stopped }: { stopped: Options['stopped'] }): ReactNode {
  return (
    <p style={{ marginTop: 12 }}>
      {stopped === undefined ? (
        'Why it was stopped is not known: that was before version 0.8. The events of its owner may say it.'
      ) : (
        <>
          {WHY[stopped.reason]}, <Time at={stopped.at} />
          {stopped.by !== 'system' && (
            <>
              , by <KeyName id={stopped.by} />
            </>
          )}
          .
        </>
      )}
    </p>
  );
}

function Facts({ label, children }: { label: string; children: ReactNode }): ReactNode {
  return (
    <>
      <dt>{label}</dt>
      <dd>{children}</dd>
    </>
  );
}

/** Shares are percentages; the others are factors and seconds. */
const thresholdWords =
  (name: string) =>
  (value: number): string =>
    name === 'budget_utilization' || name.endsWith('_threshold') ? percentOf(value) : String(value);

function Settings({
  webhook,
  options,
}: {
  webhook: Webhook;
  options: ReturnType<typeof useOptions>;
}): ReactNode {
  const { tenant_id: owner, retry_policy: retries, headers = {}, thresholds = {} } = webhook;
  const selected = [
    ...webhook.event_types,
    ...webhook.event_categories.map((category) => `all of ${category}`),
  ];
  return (
    <Panel title="Subscription" className="span-8">
      <dl className="facts">
        <Facts label="Endpoint">
          <span className="id">{webhook.url}</span>
        </Facts>
        <Facts label="Id">
          <span className="id">{webhook.subscription_id}</span>
        </Facts>
        <Facts label="Owner">
          <Link to="/webhooks" search={{ tenant_id: owner }}>
            {ownerWord(owner)}
          </Link>
        </Facts>
        <Facts label="Events">{selected.join(', ')}</Facts>
        <Facts label="Only in scopes">
          <span className="id">{webhook.scope_filter ?? 'all'}</span>
        </Facts>
        {Object.keys(thresholds).length > 0 && (
          <Facts label="Thresholds">
            {Object.entries(thresholds).map(([name, value]) => (
              <div key={name}>
                {name.replaceAll('_', ' ')}{' '}
                <span className="num">{[value].flat().map(thresholdWords(name)).join(', ')}</span>
              </div>
            ))}
          </Facts>
        )}
        <OptionFacts options={options} />
        <Facts label="Attempts">{retries.max_retries + 1} at most</Facts>
        {Object.keys(headers).length > 0 && (
          <Facts label="Own headers">
            <span className="id">{Object.keys(headers).join(', ')}</span>
          </Facts>
        )}
        {webhook.description !== undefined && <Facts label="Description">{webhook.description}</Facts>}
        <Facts label="Created">
          <Time at={webhook.created_at} />
        </Facts>
      </dl>
    </Panel>
  );
}

function OptionFacts({ options: { data, error } }: { options: ReturnType<typeof useOptions> }): ReactNode {
  if (data === undefined) {
    return error && <Facts label="Options">{error.message}</Facts>;
  }
  const {
    payload_filter: filter,
    used_amounts: amounts,
    end_on_gone: endsOnGone,
    events_per_request: inRequest,
    thresholds_once_a_period: isOnce,
  } = data;
  const words = filterWords(filter);
  return (
    <>
      {words.length > 0 && (
        <Facts label="Only with">
          {words.map((one) => (
            <div key={one}>{one}</div>
          ))}
        </Facts>
      )}
      {amounts.length > 0 && (
        <Facts label="Amounts">
          <span className="num">{amounts.map(amountWords).join(', ')}</span>
        </Facts>
      )}
      {isOnce && <Facts label="Once a period">each threshold of a budget</Facts>}
      {inRequest > 1 && <Facts label="In groups">{inRequest} events a request at most</Facts>}
      {endsOnGone && <Facts label="Ends">when the endpoint answers 410 Gone</Facts>}
    </>
  );
}
