import { journalPlacesKey, type RedisService, tagOfPartition } from '../redis/index.js';
import type { ArchivePlace, ArchivePlaces } from './archive-folder.js';
import { type Archived, FIRST } from './entry-chain.js';

/** How far each partition is archived. @throws StoreUnavailable */
export async function readPlaces(redis: RedisService, kind: Archived): Promise<ArchivePlaces> {
  const prefix = kind === 'charges' ? '' : `${kind}-`;
  const partitions = Array.from({ length: redis.partitions }, (_, number) => number);
  const places = await Promise.all(
    partitions.map((number) =>
      redis.client.hmget(
        journalPlacesKey(tagOfPartition(number)),
        `${prefix}cursor`,
        `${prefix}through`,
        'epoch',
        // Of the other streams, the archive has everything that they had.
        ...(kind === 'charges' ? ['first', 'began'] : []),
      ),
    ),
  );
  return new Map(
    places.flatMap(([cursor, through, epoch, first, began], number): [number, ArchivePlace][] =>
      typeof cursor === 'string'
        ? [
            [
              number,
              {
                cursor,
                throughMs: Number(through ?? 0),
                epoch: Number(epoch ?? 1),
                first: first ?? FIRST,
                beganMs: Number(began ?? 0),
              },
            ],
          ]
        : [],
    ),
  );
}
