import type { PluginLog } from './log.js'
import type { GenerateParams, GenerateResult } from './protocol.js'
import { RpcError } from './rpcError.js'
import { startSoon, type PluginDefinition, type PluginHost } from './runtime.js'
import { fillDefaults, type ManifestWithSettings, type SettingsOf } from './settings.js'
import type { HandlerContext } from './incomingCalls.js'

/** What is to be answered. */
export interface ModelRequest<Settings> extends Pick<GenerateParams, 'model' | 'messages' | 'system'> {
  /** The tools that the model may ask for; often none. */
  tools: NonNullable<GenerateParams['tools']>
  /** `none`: this answer has to be a text, whatever tools there are. */
  toolChoice: 'auto' | 'none'
  /** Every declared setting that has a value or a default, secrets included. */
  settings: Settings
  /** Sends a piece of the answer's text at once. What `generate` returns as its text comes behind all of them. */
  say: (text: string) => void
  /** Aborted when nobody waits for the answer any more. */
  readonly signal: AbortSignal
  /** Call it now and then while there is nothing to say yet: after 60 s of silence the gateway gives up. */
  progress: HandlerContext['progress']
  log: PluginLog
}

/** An answer. All of it is optional, but it has a text (said or returned) or asks for tools. */
export type ModelAnswer = GenerateResult

/** A model provider: how to answer one conversation. Throw `rejected(...)` where retrying cannot help, `temporary(...)` where it may. */
export interface ModelProvider<M extends ManifestWithSettings = ManifestWithSettings> {
  /** The manifest, `as const`: gives the settings their types and their defaults. */
  manifest?: M
  /** The models that there are, the default first: names without white space. Without it, none are listed. */
  models?: readonly string[] | ((settings: SettingsOf<M>) => readonly string[] | Promise<readonly string[]>)
  /**
   * Answers once, with a text or by asking for tools. A call is tried again when the process ends over it, so it must
   * change nothing. `request.model` is empty where the agent leaves the choice to the provider.
   */
  // eslint-disable-next-line @typescript-eslint/no-invalid-void-type -- everything may have been said already
  generate(request: ModelRequest<SettingsOf<M>>): string | ModelAnswer | void | Promise<string | ModelAnswer | void>
}

/**
 * Declares this process a model provider, and runs it. Call it once, in the entry file, and export the result for the
 * test kit. Gateways use model providers while their setting `Service:Plugins:Experimental` is on.
 */
export function defineModelProvider<const M extends ManifestWithSettings = ManifestWithSettings>(
  provider: ModelProvider<M>,
): PluginDefinition {
  const definition: PluginDefinition = {
    kind: 'model provider',
    serve: host => ({
      handlers: {
        'model.generate': (params, context) => generate(provider, params, context, host),
        'model.list': async ({ settings }) => ({ models: [...(await list(provider, fillDefaults(provider.manifest, settings)))] }),
      },
      stop: () => Promise.resolve(),
    }),
  }
  startSoon(definition)
  return definition
}

async function generate<M extends ManifestWithSettings>(
  provider: ModelProvider<M>,
  { generationId, model, system, messages, tools = [], toolChoice = 'auto', settings }: GenerateParams,
  context: HandlerContext,
  { peer, log }: PluginHost,
): Promise<GenerateResult> {
  // What the gateway could not be told at once, because it does not read, goes with the answer, and all after it too.
  let unsaid = ''
  const answer = await provider.generate({
    model,
    messages,
    ...(system === undefined ? {} : { system }),
    tools,
    toolChoice,
    settings: fillDefaults(provider.manifest, settings),
    say: text => {
      if (typeof text !== 'string') throw new TypeError('say() takes a text')
      if (text === '' || context.signal.aborted) return
      if (unsaid !== '' || !tell(() => peer.notify('model.delta', { generationId, text }))) unsaid += text
    },
    get signal() {
      return context.signal
    },
    progress: context.progress,
    log,
  })
  const { text = '', ...rest } = typeof answer === 'string' ? { text: answer } : (answer ?? {})
  return { ...rest, text: unsaid + text }
}

/** False also for a piece that is too large for one message. */
function tell(notify: () => boolean): boolean {
  try {
    return notify()
  } catch (error) {
    if (error instanceof RpcError) return false
    throw error
  }
}

const list = <M extends ManifestWithSettings>(
  { models = [] }: ModelProvider<M>,
  settings: SettingsOf<M>,
): readonly string[] | Promise<readonly string[]> => (typeof models === 'function' ? models(settings) : models)
