import { Module } from '@nestjs/common';
import { ArchiveReader } from './archive-reader.js';
import { OperatorsUsageController, UsageController } from './usage.controller.js';
import { UsageService } from './usage.service.js';

/** Reports of what was spent, from the archive. */
@Module({
  controllers: [UsageController, OperatorsUsageController],
  providers: [ArchiveReader, UsageService],
})
export class UsageModule {}
