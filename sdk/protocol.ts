/**
 * The plugin protocol: every method between the gateway (the host) and a plugin process, in both directions.
 *
 * JSON-RPC 2.0, one JSON document a line (UTF-8, ended by "\n"), over the plugin's stdin and stdout; stderr is the
 * plugin's log. This file is the one list of methods: the SDK's types, the host and the documents follow from it.
 */

/**
 * Protocol versions this SDK and this host speak, newest first: the newest one and the one before it, once there is one.
 * A host offers all of them and a plugin takes the first that it speaks too, so that each may be upgraded by itself.
 */
export const PROTOCOL_VERSIONS: readonly string[] = ['2026-11-01']

/** A frame (one line) larger than this many bytes ends the connection, in either direction. */
export const MAX_FRAME_BYTES = 16 * 1024 * 1024

/** JSON-RPC error codes in use: the standard's own, and ours from -32000 downwards. */
export const RpcErrorCode = {
  parseError: -32700,
  invalidRequest: -32600,
  methodNotFound: -32601,
  invalidParams: -32602,
  internalError: -32603,
  /** The other side has too much under way. Retry after `data.retryAfterMs`. */
  busy: -32000,
  /** The call was cancelled by its caller. */
  cancelled: -32001,
  /** The call did not finish in time. */
  timeout: -32002,
  /** The connection ended before the answer came. Retryable. */
  connectionClosed: -32003,
  /** The request was understood and refused for good: retrying cannot help. */
  rejected: -32004,
  /** It failed now and may work later. `data.retryAfterMs` may say when. */
  temporary: -32005,
} as const

/** `error.data` of the codes above. */
export interface RpcErrorData {
  /** Whether the same call may succeed later. */
  retryable?: boolean
  /** Milliseconds to wait before trying again. */
  retryAfterMs?: number
}

// --- Life of a plugin ------------------------------------------------------------------------------------------

export interface InitializeParams {
  /** What the host speaks, newest first. The plugin picks the first that it speaks too. */
  protocolVersions: string[]
  /** The manifest's name and version, as the host read them. */
  plugin: { id: string; version: string }
  host: { name: string; version: string }
  /** A directory of the plugin's own, writable, kept over restarts and new versions. Path as the plugin sees it. */
  dataDir: string
}

export interface InitializeResult {
  protocolVersion: string
}

export interface ShutdownParams {
  /** Why: shown in the plugin's log. */
  reason: string
}

/** Sent by the caller of a request to give it up; the answer, if any, is ignored. */
export interface CancelParams {
  /** The `id` of the request. */
  id: number | string
}

/** Sent by the answering side while a request runs: resets the caller's timeout, within its hard end. */
export interface ProgressParams {
  /** The `id` of the request. */
  id: number | string
  /** 0 to 100. */
  percent?: number
  message?: string
}

export interface LogParams {
  level: 'debug' | 'info' | 'warn' | 'error'
  message: string
  fields?: Record<string, unknown>
}

// --- Channel adapters ------------------------------------------------------------------------------------------

export interface ConnectParams {
  channelId: string
  /** Every declared setting that has a value, secrets included. Secrets reach a plugin only here and in `channel.test`. */
  settings: Record<string, string>
  /** Where the platform must post its webhooks for this channel. */
  webhookUrl: string
  /** What an earlier `channel.disconnect` or `channel.receive` of this channel returned or sent, if anything. */
  cursor?: string
}

export interface ConnectResult {
  /** A line for the administrator, for example the connected account's name. */
  info?: string
}

export interface DisconnectParams {
  channelId: string
}

export interface DisconnectResult {
  /** Where to go on from: handed to the next `channel.connect`, also of a newer version. */
  cursor?: string
}

export interface ChannelTestParams {
  channelId: string
  settings: Record<string, string>
  webhookUrl: string
}

export interface ChannelTestResult {
  ok: boolean
  /** What was found, for the administrator. Never holds a secret. */
  message?: string
}

/** An HTTP request to the channel's webhook URL, as it came. */
export interface WebhookRequest {
  method: string
  /** Path and query behind the slug, for example `?hub.challenge=1`. */
  query: Record<string, string>
  /** Lower-case names. */
  headers: Record<string, string>
  /** The exact bytes received: as text when they are valid UTF-8, else base64. Signatures are made over these bytes. */
  body: string
  bodyEncoding: 'utf8' | 'base64'
  /** ISO 8601 UTC. A delivery kept while the plugin was down is older than now: check timestamps against this. */
  receivedAt: string
}

export interface WebhookParams {
  channelId: string
  /** The same delivery handed over twice has the same id. */
  deliveryId: string
  request: WebhookRequest
}

export interface WebhookResult {
  /**
   * What the platform is answered. Default: 200 without a body. A status of 400 or more refuses the delivery: nothing is
   * kept. Where the platform was answered before, because the plugin was not there, 408, 425, 429 and 5xx bring the
   * request again later.
   */
  response?: { status?: number; headers?: Record<string, string>; body?: string; bodyEncoding?: 'utf8' | 'base64' }
  /** The messages in it. */
  messages?: InboundMessage[]
}

export interface InboundMessage {
  /** The platform's own id: the same message twice is one message. */
  id: string
  text: string
  sender: { id: string; name?: string }
  /** Routing data. Holds the manifest's `recipientMetadataKey`, which names where a reply goes. */
  metadata: Record<string, string | number | boolean>
  /** ISO 8601 UTC. */
  sentAt?: string
}

export interface SendParams {
  channelId: string
  /** The same reply tried twice has the same id: pass it on as an idempotency key where the platform has one. */
  deliveryId: string
  /** The value under `recipientMetadataKey` of the message that is answered. */
  recipient: string
  text: string
  /** The metadata of the message that is answered. */
  metadata: Record<string, string | number | boolean>
}

export interface SendResult {
  /** The platform's id of what was sent. */
  externalId?: string
}

export interface ReceiveParams {
  channelId: string
  messages: InboundMessage[]
  /** Kept with the messages, in the same step. */
  cursor?: string
}

export interface ReceiveResult {
  /** How many were new. All of them are on disk when this answer comes. */
  accepted: number
}

export interface ChannelStatusParams {
  channelId: string
  status: 'connected' | 'disconnected' | 'error'
  message?: string
}

// --- Document extractors ---------------------------------------------------------------------------------------

export interface ExtractParams {
  /** A private copy of the document, readable for the length of the call. Path as the plugin sees it. */
  path: string
  /** The document's file name, for example `meeting.ics`. */
  name: string
  /** Lower case, with the dot. */
  extension: string
  mimeType: string
  /** Bytes. */
  size: number
  /** A directory, writable for the length of the call, for `textPath`. Path as the plugin sees it. */
  outputDir: string
}

/** Exactly one of `text` and `textPath`; anything else, or what is not UTF-8, fails the document. */
export interface ExtractResult {
  /** Up to 1 MiB of UTF-8; larger texts go by file. */
  text?: string
  /** A UTF-8 file inside `outputDir`, also in a folder of it. */
  textPath?: string
  title?: string
}

// --- Model providers -------------------------------------------------------------------------------------------

/** A call of a tool that the model asks for. */
export interface GenerateToolCall {
  /** The model's own name for the call: the tool's message names it again. */
  id: string
  /** Of one of the tools in the request. */
  name: string
  parameters: Record<string, unknown>
}

/** One message of a conversation. */
export interface GenerateMessage {
  /** `tool`: what a call gave that the assistant's message before it asked for. */
  role: 'user' | 'assistant' | 'tool'
  /** A tool's result is JSON; that of a call that failed is its reason. */
  content: string
  /** Of an assistant's message: what it asked for. */
  toolCalls?: GenerateToolCall[]
  /** Of a tool's message: the call that it answers. */
  toolCallId?: string
}

/** A tool that the model may ask for. The gateway runs it and asks again, with the result as a further message. */
export interface GenerateTool {
  /** Letters, digits, `_` and `-`, at most 64. */
  name: string
  description: string
  /** JSON Schema of an object. */
  parameters: Record<string, unknown>
}

export interface GenerateParams {
  /** Names this answer in `model.delta`. A call that is tried again has another one. */
  generationId: string
  /** The agent's model behind the provider's name and a slash; empty: the provider's own default. */
  model: string
  system?: string
  /** Oldest first; the last is a user's or a tool's. */
  messages: GenerateMessage[]
  tools?: GenerateTool[]
  /** `none`: this answer has to be a text. Default `auto`. */
  toolChoice?: 'auto' | 'none'
  /** Every declared setting that has a value, secrets included. */
  settings: Record<string, string>
}

export interface GenerateUsage {
  /** Tokens. */
  inputTokens?: number
  outputTokens?: number
}

/** The answer's text is what `model.delta` brought for it, then `text`. Together at most 1 Mi characters, not blank unless there are `toolCalls`. */
export interface GenerateResult {
  text?: string
  /** At most 64. */
  toolCalls?: GenerateToolCall[]
  usage?: GenerateUsage
}

/** A further piece of an answer's text, sent before the answer itself. It counts as progress. */
export interface GenerateDeltaParams {
  generationId: string
  text: string
}

export interface ListModelsParams {
  settings: Record<string, string>
}

export interface ListModelsResult {
  /** At most 200, the default first. Names without white space, at most 128 characters. */
  models: string[]
}

// --- Embedding providers ---------------------------------------------------------------------------------------

export interface EmbedParams {
  /** At most 32, each of at most 8,000 characters. */
  texts: string[]
  /** Some models embed what is searched for otherwise than what is found. */
  purpose: 'query' | 'document'
  settings: Record<string, string>
}

export interface EmbedResult {
  /**
   * One for each text, in order: base64 of 32-bit floats, little-endian. All of one version of a plugin have the same
   * dimension, at most 4,096; none is all zeros.
   */
  vectors: string[]
  /** The cosine from which on two texts have something to do with each other. Default 0.3. */
  minSimilarity?: number
}

// --- The two directions ----------------------------------------------------------------------------------------

export interface Method<Params, Result> {
  params: Params
  result: Result
}

/** Requests of the host, answered by the plugin. */
export interface HostRequests {
  'plugin.initialize': Method<InitializeParams, InitializeResult>
  'plugin.ping': Method<Record<string, never>, Record<string, never>>
  'plugin.shutdown': Method<ShutdownParams, Record<string, never>>
  'channel.connect': Method<ConnectParams, ConnectResult>
  'channel.disconnect': Method<DisconnectParams, DisconnectResult>
  'channel.test': Method<ChannelTestParams, ChannelTestResult>
  'channel.webhook': Method<WebhookParams, WebhookResult>
  'channel.send': Method<SendParams, SendResult>
  'extractor.extract': Method<ExtractParams, ExtractResult>
  'model.generate': Method<GenerateParams, GenerateResult>
  'model.list': Method<ListModelsParams, ListModelsResult>
  'embedding.embed': Method<EmbedParams, EmbedResult>
}

/** Requests of the plugin, answered by the host. */
export interface PluginRequests {
  'channel.receive': Method<ReceiveParams, ReceiveResult>
}

/** Notifications in both directions: no answer. */
export interface SharedNotifications {
  '$/cancel': CancelParams
  '$/progress': ProgressParams
}

/** Notifications of the plugin. */
export interface PluginNotifications extends SharedNotifications {
  log: LogParams
  'channel.status': ChannelStatusParams
  'model.delta': GenerateDeltaParams
}
