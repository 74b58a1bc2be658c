import { type ReactNode, useState } from 'react';
import { call } from '../../api/client';
import { queryClient } from '../../api/session';
import type { Body, Schema } from '../../api/operations';
import type { Webhook } from '../../api/types';
import { WEBHOOK, WEBHOOKS } from '../../api/webhooks';
import { ChangeDialog } from '../../parts/change-dialog';
import { SecretDialog } from '../../parts/secret-dialog';
import { wordOf } from '../../parts/status';

const SECRET_BYTES = 32;

interface ChangeOf {
  readonly webhook: Webhook;
  readonly close: () => void;
}

async function patch({ subscription_id: id }: Webhook, body: Body<'patch', typeof WEBHOOK>): Promise<void> {
  await call('patch', WEBHOOK, { subscription_id: id }, body);
  await queryClient.invalidateQueries({ queryKey: [WEBHOOKS] });
}

export function SendTest({
  webhook,
  close,
  tested,
}: ChangeOf & { tested: (result: Schema<'WebhookTestResponse'>) => void }): ReactNode {
  const send = async (): Promise<void> =>
    tested(await call('post', `${WEBHOOK}/test`, { subscription_id: webhook.subscription_id }));
  return (
    <ChangeDialog title="Send a test event" action="Send" change={send} close={close}>
      <p>
        The endpoint gets one signed event of the type system.webhook_test, whatever the state of the
        subscription. It is not stored, and does not count as a delivery.
      </p>
    </ChangeDialog>
  );
}

/** Pauses an active subscription, or makes another one active. */
export function Pause({ webhook, close }: ChangeOf): ReactNode {
  const isActive = webhook.status === 'ACTIVE';
  return (
    <ChangeDialog
      title={isActive ? 'Pause the subscription' : 'Resume the subscription'}
      action={isActive ? 'Pause' : 'Resume'}
      danger={isActive}
      change={() => patch(webhook, { status: isActive ? 'PAUSED' : 'ACTIVE' })}
      close={close}
      differences={[
        { label: 'Status', before: wordOf(webhook.status), after: isActive ? 'Paused' : 'Active' },
        ...(webhook.status === 'DISABLED'
          ? [{ label: 'Failures in a row', before: webhook.consecutive_failures, after: 0 }]
          : []),
      ]}
    >
      <p>
        {isActive
          ? 'Events that happen while it is paused are not sent. Replay them after it is resumed.'
          : 'It gets events from now on. Replay what it missed.'}
      </p>
    </ChangeDialog>
  );
}

/** A secret as Standard Webhooks writes it. */
function newSecret(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(SECRET_BYTES));
  return `whsec_${btoa(String.fromCharCode(...bytes))}`;
}

export function RotateSecret({ webhook, close }: ChangeOf): ReactNode {
  const [secret] = useState(newSecret);
  const [isShown, setShown] = useState(false);
  if (isShown) {
    return (
      <SecretDialog title="The new secret" secret={secret} close={close}>
        <p>For a day, deliveries are signed with the old secret as well, in webhook-signature.</p>
      </SecretDialog>
    );
  }
  return (
    <ChangeDialog
      title="Rotate the secret"
      action="Rotate"
      danger
      change={() => patch(webhook, { signing_secret: secret }).then(() => setShown(true))}
      close={() => undefined}
      cancel={close}
    >
      <p>
        Deliveries are signed with a new secret at once. An endpoint that checks X-Cycles-Signature refuses
        them until it knows the new one; one that checks webhook-signature has a day.
      </p>
    </ChangeDialog>
  );
}
