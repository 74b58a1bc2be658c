import type { StoreClient } from './store.js';

/** What the field `su` of a live record holds, in its order. */
const SUBJECT_FIELDS = ['tn', 'ws', 'ap', 'wf', 'ag', 'ts', 'un', 'bm'];
const SEPARATOR = '\u001f';

type Stored = Readonly<Record<string, string>>;

/** A stored record by the names of its fields, with its subject taken apart. */
export function holdFields({ su: subject, ...others }: Stored): Record<string, string> {
  const parts =
    subject === undefined
      ? []
      : subject.split(SEPARATOR).map((part, index) => [SUBJECT_FIELDS[index] as string, part] as const);
  return { ...others, ...Object.fromEntries(parts.filter(([, part]) => part !== '')) };
}

/** Overwrites a field of a record, or removes it, wherever the record has it. */
export async function damageHold(
  redis: StoreClient,
  key: string,
  field: string,
  value?: string,
): Promise<void> {
  const subject = (await redis.hget(key, 'su'))?.split(SEPARATOR);
  if (subject !== undefined && SUBJECT_FIELDS.includes(field)) {
    subject[SUBJECT_FIELDS.indexOf(field)] = value ?? '';
    await redis.hset(key, 'su', subject.join(SEPARATOR));
  } else if (value === undefined) {
    await redis.hdel(key, field);
  } else {
    await redis.hset(key, field, value);
  }
}

/** Gives a record the form that it has where its subject is long, and had before 0.5: a field for each part of the subject. */
export async function takeSubjectApart(redis: StoreClient, key: string): Promise<void> {
  const fields = holdFields(await redis.hgetall(key));
  await redis.hdel(key, 'su');
  await redis.hset(key, fields);
}
