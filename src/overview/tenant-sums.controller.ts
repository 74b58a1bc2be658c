import { Controller, Get, Req } from '@nestjs/common';
import { ArrayMaxSize, ArrayMinSize, IsArray, IsString } from 'class-validator';
import type { FastifyRequest } from 'fastify';
import {
  Access,
  type Answer,
  Answers,
  Operation,
  QuerySchema,
  SkipsDamaged,
  tenantsOf,
} from '../http/index.js';
import { queryOf } from '../wire/index.js';
import { OverviewService } from './overview.service.js';

/** As many as a page of tenants has. */
const MOST_TENANTS = 200;

/** Query of GET /ops/tenant-sums. */
export class TenantSumsQueryDto {
  @IsArray()
  @ArrayMinSize(1)
  @ArrayMaxSize(MOST_TENANTS)
  @IsString({ each: true })
  tenant_ids!: string[];
}

@Controller('ops/tenant-sums')
export class TenantSumsController {
  constructor(private readonly overviews: OverviewService) {}

  @Get()
  @Access({ plane: 'admin', admin: true, confinement: 'filtered' })
  @SkipsDamaged()
  @Operation('listTenantSums', 'Get what tenants have in all, in each unit')
  @QuerySchema(TenantSumsQueryDto, { tenant_ids: ['acme'] })
  @Answers(200, 'TenantSumsResponse')
  async list(@Req() request: FastifyRequest): Promise<Answer<'TenantSumsResponse'>> {
    const { body, skipped } = await this.overviews.sums(
      queryOf(request, TenantSumsQueryDto).tenant_ids,
      tenantsOf(request),
    );
    if (tenantsOf(request) === undefined) {
      request.skipped = skipped;
    }
    return body;
  }
}
