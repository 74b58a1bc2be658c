import { expectStatus, type Holdfast, type Json } from './holdfast.js';

/** The audit rows of changes to one resource, oldest first. */
export async function auditEntriesOf(holdfast: Holdfast, resourceId: string): Promise<Json[]> {
  const answer = await holdfast.admin(
    'GET',
    `/v1/admin/audit/logs?resource_id=${encodeURIComponent(resourceId)}&limit=100`,
  );
  const rows = expectStatus(answer, 200).logs as Json[];
  return rows
    .filter(({ operation, status }) => (status as number) < 400 && !/^(get|list)/.test(operation as string))
    .reverse();
}
