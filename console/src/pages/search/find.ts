import type { LinkProps } from '@tanstack/react-router';
import { ApiError, get } from '../../api/client';

/** Something that was found, and where it is. */
export interface Hit {
  readonly label: string;
  readonly detail?: string;
  readonly to: Pick<LinkProps, 'to' | 'params' | 'search'>;
}

export interface Found {
  /** What the text is the id, the scope or the secret of: the page goes there at once. */
  readonly exact?: Hit;
  /** What has the text in its name. */
  readonly groups: Readonly<Record<string, readonly Hit[]>>;
  /** Where the text may stand, which nobody has looked through yet. */
  readonly further: readonly Hit[];
}

/** How many of each kind are shown. */
export const SHOWN = 8;
/** What the lists of the API search for at most. */
const MOST_SOUGHT = 128;

const found = (exact: Hit): Found => ({ exact, groups: {}, further: [] });
const nothing = (further: readonly Hit[] = []): Found => ({ groups: {}, further });

/** The ids that say by themselves where they lead. */
const BY_FORM: readonly (readonly [RegExp, (id: string) => Hit['to']])[] = [
  [/^rsv_\w+$/, (id) => ({ to: '/reservations/$id', params: { id } })],
  // A set is named after its first member, whose page has the others.
  [/^set_\w+$/, (id) => ({ to: '/reservations/$id', params: { id: id.replace('set_', 'rsv_') } })],
  [/^whsub_\w+$/, (id) => ({ to: '/webhooks/$id', params: { id } })],
  [/^evt_\w+$/, (event) => ({ to: '/events', search: { event } })],
  [/^log_[0-9a-f]{2}b?\d+-\d+$/, (row) => ({ to: '/audit', search: { row } })],
];

/** Undefined if there is no such thing. @throws ApiError for every other refusal */
async function orNone<T>(asked: Promise<T>): Promise<T | undefined> {
  try {
    return await asked;
  } catch (error) {
    if (error instanceof ApiError && (error.status === 404 || error.status === 400)) {
      return undefined;
    }
    throw error;
  }
}

const keyHit = ({
  key_id: key,
  tenant_id: id,
  name,
}: {
  key_id: string;
  tenant_id: string;
  name: string;
}): Hit => ({
  label: name,
  detail: `${key}, of ${id}`,
  to: { to: '/tenants/$id', params: { id }, search: { key } },
});

/** The key of a secret, by how that begins and its hash. */
export async function findSecret(prefix: string, hash: string): Promise<Found> {
  const key = await orNone(get('/ops/api-keys/{key_id}', { key_id: `${prefix}:${hash}` }));
  return key === undefined ? nothing() : found(keyHit(key));
}

export async function find(text: string): Promise<Found> {
  const place = BY_FORM.find(([form]) => form.test(text))?.[1](text);
  if (place !== undefined) {
    return found({ label: text, to: place });
  }
  if (/^key_\w+$/.test(text)) {
    const key = await orNone(get('/ops/api-keys/{key_id}', { key_id: text }));
    return key === undefined ? nothing() : found(keyHit(key));
  }
  if (/^dlv_\w+$/.test(text)) {
    const delivery = await orNone(get('/ops/webhook-deliveries/{delivery_id}', { delivery_id: text }));
    return delivery === undefined
      ? nothing()
      : found({
          label: text,
          to: { to: '/webhooks/$id', params: { id: delivery.subscription_id }, search: { delivery: text } },
        });
  }
  if (/^req_\w+$/.test(text)) {
    const { requests } = await get('/ops/requests', { request_id: text });
    return requests.length > 0
      ? found({ label: text, to: { to: '/requests', search: { row: text } } })
      : nothing(ofCause({ request_id: text }));
  }
  return /^[0-9a-f]{32}$/.test(text) ? nothing(ofCause({ trace_id: text })) : findNames(text);
}

/** Where what came of a request or a trace may be. */
function ofCause(search: { request_id: string } | { trace_id: string }): Hit[] {
  return [
    { label: 'Its events', to: { to: '/events', search } },
    { label: 'Its audit rows', to: { to: '/audit', search } },
    { label: 'Its refused requests', to: { to: '/requests', search } },
  ];
}

/** Everything whose name has the text. */
async function findNames(text: string): Promise<Found> {
  const query = { search: text.slice(0, MOST_SOUGHT), limit: SHOWN };
  const [{ tenants }, { ledgers }, { keys }, { subscriptions }] = await Promise.all([
    get('/v1/admin/tenants', query),
    get('/v1/admin/budgets', query),
    get('/v1/admin/api-keys', query),
    get('/v1/admin/webhooks', query),
  ]);
  const groups = {
    Tenants: tenants.map(({ tenant_id: id, name }) => ({
      label: id,
      ...(name === id ? {} : { detail: name }),
      to: { to: '/tenants/$id', params: { id } } as const,
    })),
    Budgets: ledgers.map(({ scope, unit }) => ({
      label: scope,
      detail: unit,
      to: { to: '/budgets/$unit', params: { unit }, search: { scope } } as const,
    })),
    'API keys': keys.map(keyHit),
    Webhooks: subscriptions.map(({ subscription_id: id, name, url }) => ({
      label: name ?? url,
      detail: id,
      to: { to: '/webhooks/$id', params: { id } } as const,
    })),
  };
  const hits: readonly Hit[] = Object.values(groups).flat();
  const [exact = hits.length === 1 ? hits[0] : undefined] = hits.filter(({ label }) => label === text);
  return { ...(exact === undefined ? {} : { exact }), groups, further: elsewhere(text) };
}

/** A text that is no name may be that of a user in a scope or a dimension, or the idempotency key of a denied request. */
function elsewhere(text: string): Hit[] {
  const isScope = /^tenant:[^/]+/.test(text);
  return [
    ...(isScope
      ? [
          { label: 'Events at this scope', to: { to: '/events', search: { scope: text } } as const },
          { label: 'Charges at this scope', to: { to: '/usage', search: { scope: text } } as const },
          {
            label: 'Refused requests at this scope',
            to: { to: '/requests', search: { scope: text } } as const,
          },
        ]
      : [
          { label: 'Events with this text', to: { to: '/events', search: { search: text } } as const },
          {
            label: 'Charges of the user with this id (user_id)',
            to: { to: '/usage', search: { dimension: `user_id=${text}` } } as const,
          },
        ]),
  ];
}
