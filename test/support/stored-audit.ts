import { expectStatus, type Holdfast, type Json } from './holdfast.js';

/** The audit rows about one resource, oldest first. */
export async function auditEntriesOf(holdfast: Holdfast, resourceId: string): Promise<Json[]> {
  const answer = await holdfast.admin('GET', `/v1/admin/audit/logs?resource_id=${encodeURIComponent(resourceId)}&limit=100`);
  return (expectStatus(answer, 200).logs as Json[]).reverse();
}
