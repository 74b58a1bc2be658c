import { journalPlacesKey, partitionCode, type RedisService, tagOf } from '../redis/index.js';
import type { Archived, ArchivePlace, ArchivePlaces } from './archive-folder.js';

/** How far each partition is archived. @throws StoreUnavailable */
export async function readPlaces(redis: RedisService, kind: Archived): Promise<ArchivePlaces> {
  const prefix = kind === 'charges' ? '' : `${kind}-`;
  const partitions = Array.from({ length: redis.partitions }, (_, number) => number);
  const places = await Promise.all(
    partitions.map((number) =>
      redis.client.hmget(
        journalPlacesKey(tagOf(partitionCode(number))),
        `${prefix}cursor`,
        `${prefix}through`,
      ),
    ),
  );
  return new Map(
    places.flatMap(([cursor, through], number): [number, ArchivePlace][] =>
      typeof cursor === 'string' ? [[number, { cursor, throughMs: Number(through ?? 0) }]] : [],
    ),
  );
}
