/** What this is, as the OpenAPI document and webhook deliveries name it; a test compares it with package.json. */
export const HOLDFAST_VERSION = '0.6.0';
