export * from './fields.js';
export { found, ListQueryDto } from './list-query.dto.js';
export { ListingModule } from './listing.module.js';
export { DEFAULT_LIMIT, MAX_LIMIT, PageSelection, type Page } from './page.js';
export { Records } from './records.js';
