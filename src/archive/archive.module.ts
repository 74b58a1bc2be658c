import { Module } from '@nestjs/common';
import { WorkerModule } from '../worker/index.js';
import { ArchivePublisher } from './archive-publisher.js';
import { ArchiverService } from './archiver.service.js';

/** The archive of charges, events and audit rows. */
@Module({ imports: [WorkerModule], providers: [ArchivePublisher, ArchiverService] })
export class ArchiveModule {}
