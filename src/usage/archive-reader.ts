import { resolve } from 'node:path';
import { Inject, Injectable } from '@nestjs/common';
import {
  ArchiveFolder,
  type ArchivePlaces,
  type ArchiveReading,
  readArchive,
  readPlaces,
} from '../archive/index.js';
import { CONFIG, type HoldfastConfig } from '../config/index.js';
import { QueryUnavailable } from '../ledger/index.js';
import { partitionOfTenant, RedisService } from '../redis/index.js';

const NO_ARCHIVE =
  'this instance has no archive: set ARCHIVE_DIR to a folder on a volume, the same for all archivers and all instances that answer reports';

/** What a report is made from, and how much of a span that is. */
export type UsageReading = Omit<ArchiveReading, 'owner'>;

/** Finds the files that a report is made from. */
@Injectable()
export class ArchiveReader {
  private readonly folder: ArchiveFolder | undefined =
    this.config.archiveDir === undefined ? undefined : new ArchiveFolder(resolve(this.config.archiveDir));

  constructor(
    private readonly redis: RedisService,
    @Inject(CONFIG) private readonly config: HoldfastConfig,
  ) {}

  /** The folder of the archive. @throws QueryUnavailable without one */
  get root(): string {
    return this.required.root;
  }

  /**
   * @param tenantId all tenants by default
   * @throws QueryUnavailable without an archive of this deployment, StoreUnavailable
   */
  async read(fromMs: number, toMs: number, tenantId: string | undefined): Promise<UsageReading> {
    const places = await readPlaces(this.redis, 'charges');
    if (tenantId === undefined) {
      const reading = await this.own(fromMs, toMs, places);
      // A partition that no archiver has begun yet may have charges.
      return places.size < this.redis.partitions ? { ...reading, completeThroughMs: 0 } : reading;
    }
    // All charges of a tenant are in one partition, so the files and the gaps of the others do not concern it.
    const own = partitionOfTenant(tenantId, this.redis.partitions);
    const ofOwn = new Map([...places].filter(([partition]) => partition === own));
    const { gaps, ...reading } = await this.own(fromMs, toMs, ofOwn);
    return {
      ...reading,
      gaps: gaps.filter(({ partition }) => partition === undefined || partition === own),
    };
  }

  private async own(fromMs: number, toMs: number, places: ArchivePlaces): Promise<UsageReading> {
    const { owner, ...reading } = await readArchive(this.required, 'charges', [fromMs, toMs], places);
    if (owner !== undefined && owner !== this.redis.deployment.id) {
      throw new QueryUnavailable(
        503,
        `ARCHIVE_DIR is the archive of deployment ${owner}, and this is deployment ${this.redis.deployment.id}`,
        'foreign_archive',
      );
    }
    return reading;
  }

  private get required(): ArchiveFolder {
    if (this.folder === undefined) {
      throw new QueryUnavailable(501, NO_ARCHIVE, 'no_archive');
    }
    return this.folder;
  }
}
