export { type Disposition, type KeySet, verifyEnvelope } from './verification.js';
