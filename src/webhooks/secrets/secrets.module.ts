import { Module } from '@nestjs/common';
import { MetricsModule } from '../../metrics/index.js';
import { SecretBox } from './secret-box.js';

@Module({ imports: [MetricsModule], providers: [SecretBox], exports: [SecretBox] })
export class SecretsModule {}
