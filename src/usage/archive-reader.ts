import { resolve } from 'node:path';
import { Inject, Injectable } from '@nestjs/common';
import { ArchiveFolder, type ArchiveReading } from '../archive/index.js';
import { CONFIG, type HoldfastConfig } from '../config/index.js';

/** Finds the files that a report is made from. */
@Injectable()
export class ArchiveReader {
  private readonly folder: ArchiveFolder;

  constructor(@Inject(CONFIG) config: HoldfastConfig) {
    this.folder = new ArchiveFolder(resolve(config.dataDir, 'archive'));
  }

  /** The folder of the archive. */
  get root(): string {
    return this.folder.root;
  }

  /** @param tenantId all tenants by default */
  read(fromMs: number, toMs: number, _tenantId: string | undefined): Promise<ArchiveReading> {
    return this.folder.read('charges', fromMs, toMs, new Map());
  }
}
