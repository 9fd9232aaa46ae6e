import type { z } from 'zod'
import { service } from '../../core/plugin.js'
import type { GenerateMessage, GenerateTool, GenerateToolCall, GenerateUsage } from '../../sdk/protocol.js'

/** One message of a conversation, oldest first. */
export interface ModelMessage {
  role: 'user' | 'assistant'
  content: string
  /** Texts that came with the message. */
  attachments?: { name: string; text: string }[]
}

/** A tool that the model may call, bound to what it works on. */
export interface ModelTool {
  name: string
  description: string
  parameters: z.ZodType
  /** Gets parameters that passed the schema. A thrown error goes back to the model as its message. */
  execute(parameters: unknown): Promise<unknown>
}

export interface GenerateRequest {
  /** `provider/model`, or `provider` for its own default model; absent: the gateway's default. */
  model?: string
  system?: string
  messages: ModelMessage[]
  tools?: ModelTool[]
  /** Aborting ends the generation; the promise rejects with the signal's reason. */
  signal: AbortSignal
}

/** One tool call made on the way to the answer. */
export interface ToolCall {
  name: string
  parameters: unknown
  result?: unknown
  error?: string
}

export interface Generated {
  /** Never blank. */
  text: string
  /** What answered, as `provider/model`. */
  model: string
  calls: ToolCall[]
  usage?: { inputTokens?: number; outputTokens?: number }
}

/** What the list of providers says of one. */
export interface ProviderDescription {
  source: 'builtin' | 'configuration' | 'plugin'
  pluginId?: string
  /** Names behind the slash, its own default first; empty when it does not say. */
  models: string[]
  ready: boolean
  /** Why it is not ready, or what is wrong with it. */
  reason?: string
}

/** One provider of the open set. `model` is the part of the name after the first slash; empty: the provider's default. */
export interface ModelProvider {
  /** Letters, digits, `_`, `-` and dots; no slash. */
  name: string
  /** Throws `upstream_unavailable` when it has no such model, without asking anyone. */
  check(model: string): void
  /** Rejects with `upstream_unavailable` when the provider fails, and never answers in another's place. */
  generate(model: string, request: GenerateRequest): Promise<Generated>
  describe(): ProviderDescription | Promise<ProviderDescription>
}

/** What a model is asked once: it answers with a text or by asking for tools. */
export interface StepRequest {
  model: string
  system?: string
  messages: GenerateMessage[]
  tools: GenerateTool[]
  toolChoice: 'auto' | 'none'
}

export interface Step {
  text: string
  toolCalls: GenerateToolCall[]
  usage: GenerateUsage
}

/** A provider that makes one step at a time; the models area runs the tools between the steps. */
export interface SteppedProvider extends Pick<ModelProvider, 'name' | 'check' | 'describe'> {
  /** For one whole answer, in milliseconds; the time that tools take does not count. */
  timeoutMs(): number
  /** Rejects with an error whose message says what went wrong, or with a `GatewayError`, or with the reason of `signal`. */
  step(request: StepRequest, signal: AbortSignal): Promise<Step>
}

/** Providers that come and go: asked for a name that no registered provider has. */
export interface ProviderSource {
  find(name: string): SteppedProvider | undefined
  /** `isTaken` says of a name that another provider answers to it. */
  list(isTaken: (name: string) => boolean): SteppedProvider[]
}

/**
 * How every area talks to language models: `models.generate({ messages, signal })`. Nothing configured: the built-in
 * provider `offline` answers. Something configured: it answers or the call fails; there is no silent fallback.
 */
export interface Models {
  /** Adds a provider; throws when the name is taken. Returns the undo. */
  register(provider: ModelProvider): () => void
  /** Adds a source of further providers. Returns the undo. */
  extend(source: ProviderSource): () => void
  /** Throws `upstream_unavailable` when `generate` would, for want of such a provider or model. */
  check(model?: string): void
  /** Answers, calling tools on the way. Rejects with `upstream_unavailable`, or with the reason of `signal`. */
  generate(request: GenerateRequest): Promise<Generated>
}

export const models = service<Models>('models')

/** The built-in provider that answers while none is configured. */
export const OFFLINE = 'offline'
