import { createHash } from 'node:crypto'
import { redact } from '../../core/redaction.js'
import { PluginCrashed } from '../../core/host/crash.js'
import { RpcErrorCode } from '../../sdk/protocol.js'
import { RpcError } from '../../sdk/rpc.js'
import { EmbedderUnavailable, type Embedder } from '../memory/contract.js'
import type { PluginHost, PluginProvider } from '../plugins/contract.js'
import { readVectors } from './answers.js'
import type { PluginSettings } from './pluginSettings.js'

/** Without progress; the caller has an earlier end for what cannot wait. */
const TIMEOUT_MS = 30_000

interface EmbedderNeeds {
  host: PluginHost
  settings: PluginSettings
  experimental: () => boolean
  /** The wanted plugin's id; empty: the first by name. */
  wanted: () => string
}

/** The plugin of the interface EmbeddingProvider that makes the vectors now, if there is one that can. */
export const currentEmbedder = ({ host, settings, experimental, wanted }: EmbedderNeeds): Embedder | undefined => {
  if (!experimental()) return undefined
  const plugin = choose(host.providers(), wanted().toLowerCase())
  if (plugin?.state !== 'ready' || settings.whyIncomplete(plugin) !== undefined) return undefined
  const { pluginId, version } = plugin
  return {
    id: `${pluginId}@${version}${digestOf(settings.openOf(plugin))}`,
    embed: async (texts, purpose, signal) => {
      const params = { texts, purpose, settings: settings.of(plugin) }
      try {
        return readVectors(await host.request(pluginId, 'embedding.embed', params, { timeoutMs: TIMEOUT_MS, signal }), texts.length)
      } catch (error) {
        if (!signal.aborted) throw explain(pluginId, error)
        const message = `the plugin ${pluginId} did not answer in time`
        // A search waits only shortly: that says nothing about its query.
        throw purpose === 'query' ? new EmbedderUnavailable(message, { cause: error }) : new Error(message, { cause: error })
      }
    },
  }
}

/** Another model, chosen by a setting, makes other vectors. */
const digestOf = (settings: Record<string, string>): string => {
  const entries = Object.entries(settings).sort(([a], [b]) => (a < b ? -1 : 1))
  return entries.length === 0 ? '' : `#${createHash('sha256').update(JSON.stringify(entries)).digest('hex').slice(0, 16)}`
}

const explain = (pluginId: string, error: unknown): Error => {
  const message = `the plugin ${pluginId}: ${redact(error instanceof Error ? error.message : String(error))}`
  const isOfTheTexts =
    error instanceof PluginCrashed || !(error instanceof RpcError) || error.code === RpcErrorCode.timeout || !error.retryable
  return isOfTheTexts ? new Error(message, { cause: error }) : new EmbedderUnavailable(message, { cause: error })
}

/** One that is only starting or reloading keeps its place: another one's vectors would all have to be made anew. */
const choose = (providers: PluginProvider[], wanted: string): PluginProvider | undefined =>
  providers
    .filter(({ pluginInterface, state }) => pluginInterface === 'EmbeddingProvider' && state !== 'off')
    .sort((a, b) => (a.pluginId < b.pluginId ? -1 : 1))
    .find(({ pluginId }) => wanted === '' || pluginId.toLowerCase() === wanted)
