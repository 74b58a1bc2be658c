import { Module } from '@nestjs/common';
import { Records } from './records.js';

@Module({ providers: [Records], exports: [Records] })
export class ListingModule {}
