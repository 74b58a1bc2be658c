export * from './fields.js';
export { found, ListQueryDto, PageQueryDto, WindowQueryDto } from './list-query.dto.js';
export { listedTenant } from './listed-tenant.js';
export { mergedPage, type MergedPage, type Stretch } from './merged-page.js';
export { ListingModule } from './listing.module.js';
export { DEFAULT_LIMIT, MAX_LIMIT, PageSelection, withTexts, type Page } from './page.js';
export { Records, type RecordPlace } from './records.js';
