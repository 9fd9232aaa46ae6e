import { z } from 'zod'
import { setting } from '../../core/config.js'
import { experimental } from '../plugins/contract.js'

/** Plugin id to names to values. */
export type SettingValues = Record<string, Record<string, string>>

const Values = z.record(z.string(), z.record(z.string(), z.string()))

export const providerSettings = {
  experimental,
  /** Values of the settings that manifests of model and embedding providers declare. */
  values: setting.section<SettingValues>('Service:Plugins:Settings', Values, { default: {}, hot: true }),
  /** After so long without a sign of life over an answer it is given up. */
  silenceMs: setting.number('Service:Models:Plugins:SilenceMs', { default: 60_000, min: 1, max: 3_600_000, integer: true, hot: true }),
  /** For one whole answer, tool calls included. */
  timeoutMs: setting.number('Service:Models:Plugins:TimeoutMs', { default: 600_000, min: 1, max: 3_600_000, integer: true, hot: true }),
  /** The plugin whose vectors memory is searched by; empty: the first by name. */
  embedder: setting.string('Service:Memory:EmbeddingProvider', { default: '', hot: true }),
}
