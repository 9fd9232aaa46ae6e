import type { PluginLog } from './log.js'
import type { EmbedResult } from './protocol.js'
import { startSoon, type PluginDefinition } from './runtime.js'
import { fillDefaults, type ManifestWithSettings, type SettingsOf } from './settings.js'

/** Texts to embed. */
export interface EmbeddingRequest<Settings> {
  /** At most 32, each of at most 8,000 characters. */
  texts: readonly string[]
  /** Some models embed what is searched for otherwise than what is found. */
  purpose: 'query' | 'document'
  /** Every declared setting that has a value or a default, secrets included. */
  settings: Settings
  /** Aborted when nobody waits for the vectors any more. */
  readonly signal: AbortSignal
  /** Call it now and then in long work: without progress the gateway gives up after 30 s. */
  progress: (percent?: number, message?: string) => void
  log: PluginLog
}

/** A vector: plain numbers, or 32-bit floats as many libraries give them. */
export type EmbeddingVector = readonly number[] | Float32Array

/** An embedding provider: how to make vectors of texts. Throw `temporary(...)` where trying again may help. */
export interface EmbeddingProvider<M extends ManifestWithSettings = ManifestWithSettings> {
  /** The manifest, `as const`: gives the settings their types and their defaults. */
  manifest?: M
  /** The cosine, -1 to 1, from which on two texts have something to do with each other. Default 0.3: know your model. */
  minSimilarity?: number
  /**
   * One vector for each text, in order. All have the same dimension, at most 4,096, and none is all zeros. Another way of
   * making them is another version of the plugin: the gateway then makes all vectors anew.
   */
  embed(request: EmbeddingRequest<SettingsOf<M>>): readonly EmbeddingVector[] | Promise<readonly EmbeddingVector[]>
}

/**
 * Declares this process an embedding provider, and runs it. Call it once, in the entry file, and export the result for the
 * test kit. Gateways use embedding providers while their setting `Service:Plugins:Experimental` is on.
 */
export function defineEmbeddingProvider<const M extends ManifestWithSettings = ManifestWithSettings>(
  provider: EmbeddingProvider<M>,
): PluginDefinition {
  const definition: PluginDefinition = {
    kind: 'embedding provider',
    serve: ({ log }) => ({
      handlers: {
        'embedding.embed': async ({ texts, purpose, settings }, context) => {
          const vectors = await provider.embed({
            texts,
            purpose,
            settings: fillDefaults(provider.manifest, settings),
            get signal() {
              return context.signal
            },
            progress: context.progress,
            log,
          })
          return toResult(vectors, texts.length, provider.minSimilarity)
        },
      },
      stop: () => Promise.resolve(),
    }),
  }
  startSoon(definition)
  return definition
}

/** The developer's mistakes are named here, where his stack trace is, and not only by the gateway. */
function toResult(vectors: readonly EmbeddingVector[], count: number, minSimilarity: number | undefined): EmbedResult {
  const given: unknown = vectors
  if (!Array.isArray(given) || given.length !== count) throw new Error(`embed() must return one vector for each of the ${count} texts`)
  const dimension = vectors[0]?.length
  return {
    vectors: vectors.map(vector => {
      if (vector.length !== dimension) throw new Error('embed() must return vectors of one dimension')
      return encode(vector)
    }),
    ...(minSimilarity === undefined ? {} : { minSimilarity }),
  }
}

/** Little-endian on every machine. */
function encode(vector: EmbeddingVector): string {
  const bytes = Buffer.alloc(vector.length * 4)
  for (const [index, value] of vector.entries()) {
    if (!Number.isFinite(value)) throw new Error('embed() must return finite numbers')
    bytes.writeFloatLE(value, index * 4)
  }
  return bytes.toString('base64')
}
