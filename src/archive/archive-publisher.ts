import { rename, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { Inject, Injectable, type OnModuleInit } from '@nestjs/common';
import { CONFIG, type HoldfastConfig } from '../config/index.js';
import { DAY_MS } from '../ledger/index.js';
import { RedisService } from '../redis/index.js';
import { LOGGER, type Logger, MetricsRegistry } from '../telemetry/index.js';
import { type Turn, Worker } from '../worker/index.js';
import { type ArchiveFolder, type ArchiveGap, dayOf, type Published } from './archive-folder.js';
import { ARCHIVE_METRICS } from './archive.metrics.js';
import { readPlaces } from './archive-places.js';
import { readArchive } from './archive-reading.js';
import { placeOf } from './archive-staging.js';
import { ArchiverService, type OpenArchive } from './archiver.service.js';
import { ARCHIVED } from './entry-chain.js';
import { type AllPlaces, nextDay, publishDay, removeLeftBehind } from './day-publisher.js';
import { removeSpillsLeftBehind } from './spill.js';
import { StagingKeeper } from './staging-keeper.js';

/** So that the worker sees that a long task makes progress. */
const BEAT_MS = 1000;
const GAPS_NAMED = 10;

/**
 * Publishes the days that every partition has passed, keeps staging small, removes days after their retention, and looks for gaps. Each instance
 * merges in its own partitions; who has the first one does the rest.
 */
@Injectable()
export class ArchivePublisher implements OnModuleInit {
  private readonly counts = this.metrics.of(ARCHIVE_METRICS);
  private keeper: StagingKeeper | undefined;
  private named = '';

  constructor(
    private readonly archiver: ArchiverService,
    private readonly redis: RedisService,
    private readonly worker: Worker,
    private readonly metrics: MetricsRegistry,
    @Inject(CONFIG) private readonly config: HoldfastConfig,
    @Inject(LOGGER) private readonly logger: Logger,
  ) {}

  onModuleInit(): void {
    if (this.config.archiveDir !== undefined) {
      this.worker.addRegular({
        name: 'archive_publishing',
        role: 'archiver',
        intervalMs: this.config.archivePublishMs,
        run: (turn) => this.run(turn),
      });
    }
  }

  /** @throws StoreUnavailable, or an error of the file system. What is published is complete; the rest is done at the next run. */
  run(turn?: Turn): Promise<void> {
    return this.archiver.orFailed('publish', this.work(turn));
  }

  private async work(turn: Turn | undefined): Promise<void> {
    const { open } = this.archiver;
    if (open === undefined) {
      return;
    }
    const beat = setInterval(() => turn?.goesOn(), BEAT_MS);
    try {
      const places = await this.places();
      const { epochs } = await open.folder.identity();
      if (ARCHIVED.some((kind) => [...places[kind].values()].some(({ epoch }) => epoch !== epochs.length))) {
        // Redis was put back, and the next epoch has not begun everywhere.
        return;
      }
      const isFirst = this.archiver.leases.held.has(0);
      if (isFirst) {
        await this.publish(open, places, turn);
      }
      const days = await open.folder.days();
      await this.tidy(open, places, { epochs, manifest: await open.folder.lastManifest() }, turn);
      if (isFirst) {
        await this.removeOld(open.folder, days, places);
        await removeLeftBehind(open.folder, this.redis.clock.nowMs());
        await removeSpillsLeftBehind(open.folder.root, this.redis.clock.nowMs());
        await this.lookForGaps(open.folder, places);
      } else {
        this.found([]);
      }
    } finally {
      clearInterval(beat);
    }
  }

  private async places(): Promise<AllPlaces> {
    const [charges, events, audit] = await Promise.all(ARCHIVED.map((kind) => readPlaces(this.redis, kind)));
    return { charges, events, audit } as AllPlaces;
  }

  private async publish(open: OpenArchive, places: AllPlaces, turn: Turn | undefined): Promise<void> {
    const throughMs = throughOf(places, this.redis.partitions);
    for (;;) {
      const day = await nextDay(open.folder, this.redis.partitions);
      if (day === undefined || Date.parse(day) + DAY_MS - 1 > throughMs || turn?.goesOn() === false) {
        return;
      }
      if (!(await publishDay({ ...open, thread: this.archiver.thread }, day, places))) {
        return;
      }
      this.counts.days.inc({ change: 'published' });
      this.counts.files.inc({ written: 'published' }, ARCHIVED.length);
      this.logger.info({ day }, 'a day of the archive is published');
    }
  }

  private async tidy(
    { folder }: OpenArchive,
    places: AllPlaces,
    published: Published,
    turn: Turn | undefined,
  ): Promise<void> {
    this.keeper ??= new StagingKeeper(folder, this.archiver.thread, this.config.archiveKeepMs);
    for (const partition of this.archiver.leases.held.keys()) {
      for (const kind of ARCHIVED) {
        const place = places[kind].get(partition);
        if (place !== undefined && turn?.goesOn() !== false) {
          const staging = placeOf({ kind, partition, ...place }, published);
          const merged = await this.keeper.merge(staging, place);
          this.counts.files.inc({ written: 'merged' }, merged > 0 ? 1 : 0);
          await this.keeper.removeUnneeded(staging, place, published.manifest?.day);
        }
      }
    }
  }

  /** The last day stays, because what is staged follows it. */
  private async removeOld(folder: ArchiveFolder, days: readonly string[], places: AllPlaces): Promise<void> {
    const through = throughOf(places, this.redis.partitions);
    const oldest = dayOf(Math.max(0, through - this.config.archiveRetentionMs));
    for (const day of days.slice(0, -1).filter((one) => one < oldest)) {
      const removed = join(folder.root, 'published', `.removed-${day}`);
      await rename(folder.publishedOf(day), removed);
      await rm(removed, { recursive: true, force: true });
      this.counts.days.inc({ change: 'removed' });
    }
  }

  private async lookForGaps(folder: ArchiveFolder, places: AllPlaces): Promise<void> {
    const gaps: ArchiveGap[] = [];
    for (const kind of ARCHIVED) {
      gaps.push(...(await readArchive(folder, kind, [0, Infinity], places[kind])).gaps);
    }
    this.found(gaps);
    const named = JSON.stringify(gaps.slice(0, GAPS_NAMED));
    if (gaps.length > 0 && named !== this.named) {
      this.logger.warn({ gaps: gaps.slice(0, GAPS_NAMED), count: gaps.length }, 'THE ARCHIVE HAS GAPS');
    }
    this.named = named;
  }

  /** Warns of files, which can be put back. What is lost for good is counted, logged and in reports: nobody can end such a warning. */
  private found(gaps: readonly ArchiveGap[]): void {
    const names = gaps.flatMap(({ file, why }) => (file === undefined ? [] : [`${file} (${why})`]));
    this.counts.gaps.set(names.length, { kind: 'file' });
    this.counts.gaps.set(gaps.length - names.length, { kind: 'lost' });
    this.archiver.warn(
      'gaps',
      names.length === 0
        ? undefined
        : `the archive has gaps (${names.length}), so reports are not complete: ${names.slice(0, GAPS_NAMED).join(', ')}`,
    );
  }
}

/** 0 while a partition has nothing archived. */
function throughOf(places: AllPlaces, partitions: number): number {
  const all = ARCHIVED.flatMap((kind) => [...places[kind].values()]);
  return all.length < ARCHIVED.length * partitions ? 0 : Math.min(...all.map(({ throughMs }) => throughMs));
}
