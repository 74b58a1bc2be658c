import { randomInt } from 'node:crypto';
import { toEvent, type CyclesEvent } from '../../event-log/index.js';
import type { Origin } from '../../governance/index.js';
import { partitionCode, partitionOfTenant } from '../../redis/index.js';

/** No event log ever gets so far within one millisecond, so a probe never has the id of an event. */
const FIRST_SEQUENCE = 0xf000_0000;
const LAST_SEQUENCE = 0xffff_ffff;

/** The event that a probe sends: in the form of all others, but in no log. */
export function probeEvent(
  owner: string,
  subscriptionId: string,
  [actor, keyId, requestId, trace]: Origin,
  partitions: number,
): CyclesEvent {
  const fields = new Map([
    ['ty', 'system.webhook_test'],
    ['tn', owner],
    ['ac', actor],
    ['rq', requestId],
    ['tr', trace.split(' ', 1)[0] as string],
    ['component', 'webhook_dispatcher'],
    ['message', `A test of the subscription ${subscriptionId}; nothing happened.`],
    ['severity', 'info'],
  ]);
  if (keyId !== '') {
    fields.set('ki', keyId);
  }
  const entryId = `${new Date().getTime()}-${randomInt(FIRST_SEQUENCE, LAST_SEQUENCE)}`;
  return toEvent(partitionCode(partitionOfTenant(owner, partitions)), entryId, fields);
}
