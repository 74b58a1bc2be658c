import type { StoreClient } from './store.js';

/** The parts of a live record's field `su`, in order. */
const SUBJECT_FIELDS = ['tn', 'ws', 'ap', 'wf', 'ag', 'ts', 'un', 'bm'];
const SEPARATOR = '\u001f';

type Stored = Readonly<Record<string, string>>;

/** The parts of its field `cn` that follow the letter of the overage policy. */
const CONSTANT_FIELDS = ['op', 'mx', 'ki', 'ak', 'an'];
const POLICIES: Stored = { r: 'REJECT', a: 'ALLOW_IF_AVAILABLE', o: 'ALLOW_WITH_OVERDRAFT' };

function subjectParts(text: string | undefined): Record<string, string> {
  const parts = text?.split(SEPARATOR).map((part, index) => [SUBJECT_FIELDS[index] as string, part] as const);
  return Object.fromEntries((parts ?? []).filter(([, part]) => part !== ''));
}

function constantParts(text: string | undefined): Record<string, string> {
  if (text === undefined) {
    return {};
  }
  const [terms = '', keyId = '', kind = '', ...name] = text.split(SEPARATOR);
  const values = [POLICIES[terms.charAt(0)] ?? terms, terms.slice(1), keyId, kind, name.join(SEPARATOR)];
  return Object.fromEntries(CONSTANT_FIELDS.map((field, index) => [field, values[index] as string]));
}

/** The idempotency key from a field that stores the key's bytes in base64url. */
function keyPart(uuid: string | undefined): Record<string, string> {
  if (uuid?.length !== 22) {
    return uuid === undefined ? {} : { iu: uuid };
  }
  const digits = Buffer.from(uuid, 'base64url').toString('hex');
  return { ik: digits.replace(/^(.{8})(.{4})(.{4})(.{4})/, '$1-$2-$3-$4-') };
}

/** The field in which a reserve stores the idempotency key. */
export function keyField(key: string): Record<string, string> {
  return /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/.test(key)
    ? { iu: Buffer.from(key.replaceAll('-', ''), 'hex').toString('base64url') }
    : { ik: key };
}

/** A stored record by field name, with subject, constants and UUID unpacked. */
export function holdFields({
  su: subject,
  cn: constants,
  iu: uuid,
  ...others
}: Stored): Record<string, string> {
  return { ...subjectParts(subject), ...constantParts(constants), ...keyPart(uuid), ...others };
}

/** Overwrites or removes a field of a record, whether it is packed or not. */
export async function damageHold(
  redis: StoreClient,
  key: string,
  field: string,
  value?: string,
): Promise<void> {
  const subject = (await redis.hget(key, 'su'))?.split(SEPARATOR);
  const constants = await redis.hget(key, 'cn');
  if (subject !== undefined && SUBJECT_FIELDS.includes(field)) {
    subject[SUBJECT_FIELDS.indexOf(field)] = value ?? '';
    await redis.hset(key, 'su', subject.join(SEPARATOR));
    return;
  }
  if (constants !== null && CONSTANT_FIELDS.includes(field)) {
    await redis.hdel(key, 'cn');
    await redis.hset(key, constantParts(constants));
  }
  if (field === 'ik') {
    await redis.hdel(key, 'iu');
  }
  if (value === undefined) {
    await redis.hdel(key, field);
  } else {
    await redis.hset(key, field, value);
  }
}

/**
 * Unpacks a record's subject into one field per level. Records with a long subject have this form.
 */
export async function takeSubjectApart(redis: StoreClient, key: string): Promise<void> {
  const fields = holdFields(await redis.hgetall(key));
  await redis.hdel(key, 'su', 'cn', 'iu');
  await redis.hset(key, fields);
}
