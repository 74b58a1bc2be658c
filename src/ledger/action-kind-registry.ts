import type { RiskClass } from './actions.js';

/** ActionPolicyKeySpec of cycles-action-kinds-v0.1.26: the policy keys that tell the actions of a kind apart. */
export interface PolicyKeySpec {
  readonly host?: boolean;
  readonly recipient_domain?: boolean;
  /** What the resource is called. */
  readonly resource_type?: string;
  readonly path_prefix?: boolean;
}

/** ActionKind of cycles-action-kinds-v0.1.26. */
export interface ActionKind {
  readonly kind: string;
  readonly risk_class: RiskClass;
  readonly policy_key_spec?: PolicyKeySpec;
  readonly description?: string;
  readonly mcp_tool_prefixes?: readonly string[];
}

/** The version of the registry below. */
export const REGISTRY_VERSION = '0.1.26';

/**
 * The registry of cycles-action-kinds-v0.1.26, which operators cannot change. A line has a kind, its risk class, its policy keys, and the
 * prefixes of the MCP tools that it stands for; the indented lines after it describe it.
 * All of it, descriptions included, is the protocol's seed data (Apache-2.0), which servers have to serve unchanged.
 */
const REGISTRY = `
llm.completion | side_effect | | llm_ chat_ complete_ openai_chat anthropic_ generate_text
  LLM text completion or chat call (may trigger further actions)
llm.embedding | read_only | | embed_ embedding_ openai_embed get_embedding encode_text
  Generate embedding vector for text
llm.structured_output | side_effect | host | structured_output json_mode function_call
  LLM call with structured output constraint (JSON schema, function calling, tool use). Distinct from
  llm.completion for providers that bill differently.
agent.spawn | side_effect | | spawn_agent create_agent fork_agent new_agent
  Spawn a child agent or sub-task with its own execution context. Governs fan-out: each spawned agent
  inherits or derives a budget scope.
agent.delegate | side_effect | host | delegate_ handoff_ assign_agent route_to_agent
  Delegate a task to a named agent or agent pool. The delegate may execute actions under its own policy
  scope.
agent.message | side_effect | | send_to_agent agent_message a2a_send inter_agent
  Send a message to another agent within the same runtime or cluster. Enables agent-to-agent coordination
  and protocol exchanges.
agent.human_escalation | external_side_effect | recipient_domain | escalate_ human_review request_approval ask_human
  Escalate a decision or task to a human operator. Externally visible: triggers a notification and blocks
  until human response.
web.search | read_only | | search_ web_search search
  Web search query (read-only, no side effects)
http.get | read_only | host | http_get fetch_url get_url
  HTTP GET to an external endpoint
http.post | external_side_effect | host | http_post post_url call_api api_call
  HTTP POST to an external endpoint
http.put | external_side_effect | host | http_put http_patch update_api
  HTTP PUT/PATCH to an external endpoint
http.delete | external_side_effect | host | http_delete delete_api
  HTTP DELETE to an external endpoint
http.graphql | side_effect | host | graphql_ gql_query gql_mutate
  Execute a GraphQL query or mutation. Classified as side_effect because a single request may contain both
  reads and writes.
message.email.send | external_side_effect | host recipient_domain | send_email email_ smtp_ sendgrid_
  Send an email to one or more recipients
message.slack.post | external_side_effect | host | slack_ post_slack send_slack
  Post a message to a Slack channel or user
message.sms.send | external_side_effect | recipient_domain | send_sms sms_ twilio_
  Send an SMS message
message.chat.post | external_side_effect | host | teams_ discord_ mattermost_ chat_send post_message
  Post a message to a chat platform (Teams, Discord, Mattermost, etc.). Use message.slack.post for
  Slack-specific routing; use this for other platforms.
db.query | read_only | resource_type:table | db_query query_db sql_query select_
  Read-only database query (SELECT)
db.write | side_effect | resource_type:table | db_write db_insert db_update db_delete sql_write
  Database write (INSERT, UPDATE, DELETE, UPSERT)
db.schema_change | high_risk | resource_type:table | db_migrate alter_table create_table drop_table
  Database schema modification (DDL: CREATE, ALTER, DROP)
crm.record.read | read_only | resource_type:object_type | get_contact get_lead crm_read salesforce_get
  Read a CRM record
crm.record.write | side_effect | resource_type:object_type | create_contact update_contact crm_write salesforce_create
  Create or update a CRM record
crm.record.delete | external_side_effect | resource_type:object_type | delete_contact crm_delete salesforce_delete
  Delete a CRM record (typically irreversible)
file.read | read_only | path_prefix | read_file file_read get_file open_file
  Read a file from local or shared storage
file.write | local_mutation | path_prefix | write_file file_write create_file save_file
  Write or create a file in local or shared storage
file.delete | side_effect | path_prefix | delete_file file_delete remove_file
  Delete a file from storage
code.exec | high_risk | path_prefix | exec_ run_code python_exec bash_exec js_exec
  Execute arbitrary code in a sandbox or interpreter
code.deploy | high_risk | host | deploy_ code_publish vercel_deploy lambda_deploy
  Deploy code to a runtime environment
code.lint | read_only | path_prefix | lint_ check_code type_check static_analysis
  Run static analysis, linting, or type-checking on code. Read-only inspection with no state modification.
vector.query | read_only | resource_type:collection | vector_search similarity_search pinecone_query
  Vector similarity search (read-only)
vector.upsert | side_effect | resource_type:collection | vector_upsert embed_and_store pinecone_upsert
  Insert or update vectors in a vector store
vector.delete | side_effect | resource_type:collection | vector_delete pinecone_delete remove_embedding delete_vectors
  Delete vectors or documents from a vector store. Irreversible data loss for the affected embeddings.
memory.read | read_only | resource_type:store | memory_read recall_ retrieve_memory rag_query knowledge_search
  Read from agent long-term memory, knowledge base, or RAG retrieval store. Includes semantic search over
  memory.
memory.write | local_mutation | resource_type:store | memory_write memorize_ store_memory rag_ingest knowledge_store
  Write to agent long-term memory or knowledge base. Includes storing conversation summaries, facts, or
  documents for future retrieval.
memory.delete | side_effect | resource_type:store | memory_delete forget_ clear_memory rag_delete
  Delete entries from agent long-term memory or knowledge base. Irreversible data loss without backups.
reasoning.plan | side_effect | | plan_ create_plan decompose_ reason_
  Generate or revise an execution plan. Typically involves LLM calls to decompose a goal into steps.
  Operators can quota to cap runaway planning loops.
reasoning.reflect | side_effect | | reflect_ self_evaluate critique_ review_output
  Self-evaluation or critique loop where the agent reviews its own output. Consumes LLM calls; operators can
  quota to prevent infinite self-correction.
calendar.read | read_only | host | get_calendar list_events check_availability
  Read calendar events or availability
calendar.write | external_side_effect | host | create_event update_event schedule_meeting
  Create or modify calendar events
payment.charge | high_risk | host | charge_ payment_ stripe_charge process_payment
  Initiate a payment charge or transaction
payment.refund | high_risk | host | refund_ issue_refund stripe_refund
  Issue a payment refund
image.generate | external_side_effect | host | generate_image create_image dalle_ image_gen text_to_image
  AI image generation from a text prompt or reference image. Billed on submit regardless of downstream use.
  Examples: DALL-E, Stable Diffusion, Midjourney, Imagen.
image.edit | external_side_effect | host | edit_image inpaint_ outpaint_ image_edit
  AI-assisted image editing, inpainting, or outpainting.
video.generate | high_risk | host | generate_video create_video text_to_video runway_
  AI video generation. high_risk: expensive (large billing events), long-running (minutes to hours),
  irreversible output. Examples: Sora, RunwayML, Pika.
video.transcode | side_effect | host path_prefix | transcode_ encode_video ffmpeg_
  Transcode or re-encode an existing video file.
audio.generate | external_side_effect | host | generate_audio text_to_speech tts_ elevenlabs_
  AI audio generation: text-to-speech, voice cloning, or music generation. Examples: ElevenLabs, OpenAI TTS,
  Suno.
audio.transcribe | read_only | host | transcribe_ speech_to_text whisper_ deepgram_
  Transcribe audio or video to text. Source audio is not modified. Examples: Whisper, Deepgram.
vision.analyze | side_effect | host | analyze_image vision_ describe_image image_understand gpt4v_
  Analyze an image using a vision model. Includes scene description, object detection, visual question
  answering, and chart interpretation.
vision.ocr | side_effect | host | ocr_ extract_text read_document document_ocr
  Extract text from images or scanned documents via OCR. May use specialized OCR services or vision LLMs.
vision.parse_document | side_effect | host path_prefix | parse_document extract_form pdf_extract document_parse parse_pdf
  Parse a document (PDF, scan, form) into structured data. Includes table extraction, form field
  recognition, and layout analysis.
social.post.create | external_side_effect | host | post_tweet create_post publish_ tweet_ linkedin_post
  Publish a post to a social platform or public-facing channel. Irreversible once visible. Examples:
  Twitter/X, LinkedIn, Reddit.
social.post.delete | external_side_effect | host | delete_post delete_tweet remove_post
  Delete a previously published post. Irreversible and externally visible.
social.dm.send | external_side_effect | host recipient_domain | send_dm send_message dm_ direct_message
  Send a direct message on a social platform. Not public, but still an external irreversible communication.
notification.push.send | external_side_effect | host | send_push push_notification fcm_ apns_ notify_
  Send a push notification to a mobile device or browser. High-volume sends have reputational impact.
  Examples: FCM, APNs.
notification.webhook.trigger | external_side_effect | host | trigger_webhook send_webhook webhook_notify
  Trigger an outbound webhook to a pre-configured endpoint. Distinct from http.post: target is registered,
  not ad-hoc.
storage.upload | side_effect | host path_prefix | upload_file s3_put gcs_upload blob_upload
  Upload a file or object to cloud storage (S3, GCS, Azure Blob).
storage.download | read_only | host path_prefix | download_file s3_get gcs_download blob_download
  Download a file or object from cloud storage. May incur egress costs.
storage.delete | side_effect | host path_prefix | delete_object s3_delete gcs_delete blob_delete
  Delete an object from cloud storage. Irreversible without versioning.
document.create | side_effect | host | create_doc create_document new_page notion_create
  Create a document, spreadsheet, or page in a workspace tool.
document.edit | side_effect | host | edit_doc update_document modify_page notion_update gdocs_edit
  Edit or update an existing document, spreadsheet, or page in a workspace tool.
document.share | external_side_effect | host recipient_domain | share_doc share_document grant_access set_permissions
  Share a document with external users or make it publicly accessible. external_side_effect because it
  grants access to third parties and the permission change is immediately visible outside the system.
unknown.call | side_effect | |
  Fallback for MCP tool calls that cannot be normalized to a registered kind. risk_class=side_effect is
  conservative and safe. Operators SHOULD configure policies for specific kinds rather than relying on this
  fallback.
`;

const KEY_NAMES = ['host', 'recipient_domain', 'resource_type', 'path_prefix'] as const;

function specOf(keys: string): PolicyKeySpec {
  const values = new Map(keys.split(' ').map((key) => key.split(':') as [string, string | undefined]));
  return Object.fromEntries(
    KEY_NAMES.filter((name) => values.has(name)).map((name) => [name, values.get(name) ?? true]),
  );
}

function parseKind(text: string): ActionKind {
  const [facts = '', ...description] = text.split('\n  ');
  const [kind = '', riskClass = '', keys = '', prefixes = ''] = facts.split('|').map((part) => part.trim());
  return {
    kind,
    risk_class: riskClass as RiskClass,
    ...(keys === '' ? {} : { policy_key_spec: specOf(keys) }),
    description: description.join(' '),
    mcp_tool_prefixes: prefixes === '' ? [] : prefixes.split(' '),
  };
}

/** The kinds of the registry in its order, in which `unknown.call` is the last. */
export const BUILT_IN_KINDS: readonly ActionKind[] = REGISTRY.trim()
  .split(/\n(?! )/)
  .map(parseKind);

const BY_NAME: ReadonlyMap<string, ActionKind> = new Map(BUILT_IN_KINDS.map((known) => [known.kind, known]));

/** Kinds that begin with this exist only where the deployment declares them. */
const CUSTOM = 'custom.';

/** What policies need to know of a kind. */
export type KindTraits = Pick<ActionKind, 'risk_class' | 'policy_key_spec'>;

/** A kind outside the registry and the custom namespace is a side effect without policy keys. */
export const UNREGISTERED: KindTraits = { risk_class: 'side_effect' };

/** The kind of the registry with exactly this name. */
export function builtInKind(kind: string): ActionKind | undefined {
  return BY_NAME.get(kind);
}

/**
 * What is known of a kind: UNREGISTERED for one outside the registry, nothing for a custom kind that is not among the declared ones.
 * UNREGISTERED KIND HANDLING of cycles-action-kinds-v0.1.26.
 */
export function kindOf(kind: string, declared: ReadonlyMap<string, ActionKind>): KindTraits | undefined {
  return BY_NAME.get(kind) ?? declared.get(kind) ?? (kind.startsWith(CUSTOM) ? undefined : UNREGISTERED);
}

/** Whether the kind's actions can be told apart by this policy key. */
export function hasPolicyKey(
  { policy_key_spec: spec }: Pick<ActionKind, 'policy_key_spec'>,
  name: keyof PolicyKeySpec,
): boolean {
  return (spec?.[name] ?? false) !== false;
}
