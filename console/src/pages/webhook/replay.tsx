import { TextInput } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { type ReactNode, useState } from 'react';
import { call, get } from '../../api/client';
import { queryClient } from '../../api/session';
import type { Schema } from '../../api/operations';
import type { Webhook } from '../../api/types';
import { DELIVERIES, WEBHOOK } from '../../api/webhooks';
import { ChangeDialog } from '../../parts/change-dialog';
import { COUNT, readCount } from '../../parts/numbers';
import { Panel } from '../../parts/panel';
import { Progress } from '../../parts/progress';
import { Failure } from '../../parts/states';

const EVERY_MS = 1000;
const MAX_EVENTS = 1000;
const PAGE_ROWS = 100;

/** An instant as the browser's field for dates shows it, in the reader's zone. */
function fieldOf(instant: string | undefined): string {
  if (instant === undefined) {
    return '';
  }
  const at = new Date(instant);
  return new Date(at.getTime() - at.getTimezoneOffset() * 60_000).toISOString().slice(0, 16);
}

export function Replay({
  webhook,
  started,
  close,
}: {
  webhook: Webhook;
  started: (replay: Schema<'WebhookReplayResponse'>) => void;
  close: () => void;
}): ReactNode {
  const [from, setFrom] = useState(() => fieldOf(webhook.last_success_at));
  const [to, setTo] = useState('');
  const [most, setMost] = useState(COUNT.format(MAX_EVENTS));
  const bound = (field: string): string | undefined =>
    field === '' ? undefined : new Date(field).toISOString();
  const replay = async (): Promise<void> => {
    const body = { from: bound(from), to: bound(to), max_events: readCount(most) };
    started(await call('post', `${WEBHOOK}/replay`, { subscription_id: webhook.subscription_id }, body));
    await queryClient.invalidateQueries({ queryKey: [DELIVERIES] });
  };
  const count = readCount(most) ?? Number.NaN;
  const blocked =
    from !== '' && to !== '' && from > to
      ? 'It ends before it starts'
      : !(count >= 1 && count <= MAX_EVENTS)
        ? `1 to ${COUNT.format(MAX_EVENTS)} events`
        : undefined;
  return (
    <ChangeDialog title="Replay events" action="Replay" change={replay} close={close} blocked={blocked}>
      <p>
        The endpoint gets every event of this window again that the subscription selects, with its original
        id. A window with more events than allowed is refused, and nothing is sent.
      </p>
      <TextInput
        label="From"
        description="In your time zone. Empty: everything that is kept"
        type="datetime-local"
        value={from}
        onChange={(event) => setFrom(event.currentTarget.value)}
        data-autofocus
      />
      <TextInput
        label="To"
        description="Empty: until now"
        type="datetime-local"
        value={to}
        onChange={(event) => setTo(event.currentTarget.value)}
      />
      <TextInput
        label="Events at most"
        inputMode="numeric"
        value={most}
        onChange={(event) => setMost(event.currentTarget.value)}
      />
    </ChangeDialog>
  );
}

/** How many deliveries of the replay wait for their first attempt. Their ids end with the replay's. */
async function waitingOf(id: string, replayId: string): Promise<number> {
  const ending = `_${replayId.slice(replayId.indexOf('_') + 1)}`;
  let [waiting, cursor] = [0, undefined as string | undefined];
  for (let read = 0; read <= MAX_EVENTS; read += PAGE_ROWS) {
    const page = await get(DELIVERIES, {
      subscription_id: id,
      status: 'PENDING',
      limit: PAGE_ROWS,
      cursor,
    });
    waiting += page.deliveries.filter(({ delivery_id: delivery }) => delivery.endsWith(ending)).length;
    if (!page.has_more) {
      break;
    }
    cursor = page.next_cursor;
  }
  return waiting;
}

/** How far a replay has come: it is done when each of its deliveries had its first attempt. */
export function ReplayProgress({
  id,
  replay,
}: {
  id: string;
  replay: Schema<'WebhookReplayResponse'>;
}): ReactNode {
  const { replay_id: replayId, events_queued: queued } = replay;
  const { data: waiting, error } = useQuery({
    queryKey: [DELIVERIES, 'waiting', replayId],
    queryFn: () => waitingOf(id, replayId),
    refetchInterval: ({ state }) => (state.data === 0 ? false : EVERY_MS),
    enabled: queued > 0,
  });
  const isDone = queued === 0 || waiting === 0;
  return (
    <Panel
      title={isDone ? 'Replayed' : 'Replaying'}
      className="span-12"
      aside={<span className="id">{replayId}</span>}
    >
      {queued === 0 ? (
        <p>Nothing was queued: the window has no such events, or the subscription is not active.</p>
      ) : (
        <Progress
          label="Replay"
          done={queued - Math.min(queued, waiting ?? queued)}
          of={queued}
          unit="events attempted"
          isRunning={!isDone}
        />
      )}
      {error !== null && waiting === undefined && <Failure error={error} />}
    </Panel>
  );
}
