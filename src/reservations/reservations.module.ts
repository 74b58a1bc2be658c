import { Module } from '@nestjs/common';
import { CommitModule } from './commit/commit.module.js';
import { ExtendModule } from './extend/extend.module.js';
import { QueryModule } from './query/query.controller.js';
import { ReleaseModule } from './release/release.module.js';
import { ReserveModule } from './reserve/reserve.module.js';

@Module({ imports: [ReserveModule, CommitModule, ReleaseModule, ExtendModule, QueryModule] })
export class ReservationsModule {}
