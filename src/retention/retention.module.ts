import { Module } from '@nestjs/common';
import { WorkerModule } from '../worker/index.js';
import { LogJanitor } from './log-janitor.js';
import { RecordJanitor } from './record-janitor.js';

/** What is kept small, or ends with its time: records of ended reservations, indexes, events, audit rows, API keys. */
@Module({ imports: [WorkerModule], providers: [LogJanitor, RecordJanitor] })
export class RetentionModule {}
