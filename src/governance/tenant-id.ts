/** Tenant.tenant_id of cycles-governance-admin-v0.1.25. */
export const TENANT_ID_PATTERN = /^[a-z0-9-]{3,64}$/;
