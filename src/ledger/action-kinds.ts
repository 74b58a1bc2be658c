import type { RiskClass } from './actions.js';

/** What a kind of action is to policies: its risk class, and those policy keys that tell its actions apart. */
export interface KnownKind {
  readonly risk_class: RiskClass;
  /** Names of ActionPolicyKeySpec; that of a resource is followed by what it is called. */
  readonly keys?: string;
}

/** The kinds of the registry of cycles-action-kinds-v0.1.26. */
const BUILT_IN_KINDS: Readonly<Record<string, KnownKind>> = {
  'llm.completion': { risk_class: 'side_effect' },
  'llm.embedding': { risk_class: 'read_only' },
  'llm.structured_output': { risk_class: 'side_effect', keys: 'host' },
  'agent.spawn': { risk_class: 'side_effect' },
  'agent.delegate': { risk_class: 'side_effect', keys: 'host' },
  'agent.message': { risk_class: 'side_effect' },
  'agent.human_escalation': { risk_class: 'external_side_effect', keys: 'recipient_domain' },
  'web.search': { risk_class: 'read_only' },
  'http.get': { risk_class: 'read_only', keys: 'host' },
  'http.post': { risk_class: 'external_side_effect', keys: 'host' },
  'http.put': { risk_class: 'external_side_effect', keys: 'host' },
  'http.delete': { risk_class: 'external_side_effect', keys: 'host' },
  'http.graphql': { risk_class: 'side_effect', keys: 'host' },
  'message.email.send': { risk_class: 'external_side_effect', keys: 'host recipient_domain' },
  'message.slack.post': { risk_class: 'external_side_effect', keys: 'host' },
  'message.sms.send': { risk_class: 'external_side_effect', keys: 'recipient_domain' },
  'message.chat.post': { risk_class: 'external_side_effect', keys: 'host' },
  'db.query': { risk_class: 'read_only', keys: 'resource_type:table' },
  'db.write': { risk_class: 'side_effect', keys: 'resource_type:table' },
  'db.schema_change': { risk_class: 'high_risk', keys: 'resource_type:table' },
  'crm.record.read': { risk_class: 'read_only', keys: 'resource_type:object_type' },
  'crm.record.write': { risk_class: 'side_effect', keys: 'resource_type:object_type' },
  'crm.record.delete': { risk_class: 'external_side_effect', keys: 'resource_type:object_type' },
  'file.read': { risk_class: 'read_only', keys: 'path_prefix' },
  'file.write': { risk_class: 'local_mutation', keys: 'path_prefix' },
  'file.delete': { risk_class: 'side_effect', keys: 'path_prefix' },
  'code.exec': { risk_class: 'high_risk', keys: 'path_prefix' },
  'code.deploy': { risk_class: 'high_risk', keys: 'host' },
  'code.lint': { risk_class: 'read_only', keys: 'path_prefix' },
  'vector.query': { risk_class: 'read_only', keys: 'resource_type:collection' },
  'vector.upsert': { risk_class: 'side_effect', keys: 'resource_type:collection' },
  'vector.delete': { risk_class: 'side_effect', keys: 'resource_type:collection' },
  'memory.read': { risk_class: 'read_only', keys: 'resource_type:store' },
  'memory.write': { risk_class: 'local_mutation', keys: 'resource_type:store' },
  'memory.delete': { risk_class: 'side_effect', keys: 'resource_type:store' },
  'reasoning.plan': { risk_class: 'side_effect' },
  'reasoning.reflect': { risk_class: 'side_effect' },
  'calendar.read': { risk_class: 'read_only', keys: 'host' },
  'calendar.write': { risk_class: 'external_side_effect', keys: 'host' },
  'payment.charge': { risk_class: 'high_risk', keys: 'host' },
  'payment.refund': { risk_class: 'high_risk', keys: 'host' },
  'image.generate': { risk_class: 'external_side_effect', keys: 'host' },
  'image.edit': { risk_class: 'external_side_effect', keys: 'host' },
  'video.generate': { risk_class: 'high_risk', keys: 'host' },
  'video.transcode': { risk_class: 'side_effect', keys: 'host path_prefix' },
  'audio.generate': { risk_class: 'external_side_effect', keys: 'host' },
  'audio.transcribe': { risk_class: 'read_only', keys: 'host' },
  'vision.analyze': { risk_class: 'side_effect', keys: 'host' },
  'vision.ocr': { risk_class: 'side_effect', keys: 'host' },
  'vision.parse_document': { risk_class: 'side_effect', keys: 'host path_prefix' },
  'social.post.create': { risk_class: 'external_side_effect', keys: 'host' },
  'social.post.delete': { risk_class: 'external_side_effect', keys: 'host' },
  'social.dm.send': { risk_class: 'external_side_effect', keys: 'host recipient_domain' },
  'notification.push.send': { risk_class: 'external_side_effect', keys: 'host' },
  'notification.webhook.trigger': { risk_class: 'external_side_effect', keys: 'host' },
  'storage.upload': { risk_class: 'side_effect', keys: 'host path_prefix' },
  'storage.download': { risk_class: 'read_only', keys: 'host path_prefix' },
  'storage.delete': { risk_class: 'side_effect', keys: 'host path_prefix' },
  'document.create': { risk_class: 'side_effect', keys: 'host' },
  'document.edit': { risk_class: 'side_effect', keys: 'host' },
  'document.share': { risk_class: 'external_side_effect', keys: 'host recipient_domain' },
  'unknown.call': { risk_class: 'side_effect' },
};

/** A kind outside the registry has no policy keys. */
const UNREGISTERED: KnownKind = { risk_class: 'side_effect' };

/** What is known of a kind. */
export function kindOf(kind: string): KnownKind {
  return Object.hasOwn(BUILT_IN_KINDS, kind) ? (BUILT_IN_KINDS[kind] as KnownKind) : UNREGISTERED;
}

/** Whether the kind's actions can be told apart by this policy key. */
export function hasPolicyKey({ keys = '' }: KnownKind, name: string): boolean {
  return keys.split(' ').some((key) => key === name || key.startsWith(`${name}:`));
}
