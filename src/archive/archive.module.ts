import { Module } from '@nestjs/common';
import { WorkerModule } from '../worker/index.js';
import { ArchiverService } from './archiver.service.js';

/** The archive of charges, events and audit rows. */
@Module({ imports: [WorkerModule], providers: [ArchiverService] })
export class ArchiveModule {}
