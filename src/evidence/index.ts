export { EvidenceModule } from './evidence.module.js';
export { type EvidenceReference, EvidenceService } from './evidence.service.js';
export { type Disposition, type KeySet, verifyEnvelope } from './verification.js';
