import type { Manifest } from '../manifest.js'
import type { Wire } from './wire.js'

/** How one check ended. */
export interface CheckResult {
  /** For example `messages/unknown-method`. */
  name: string
  /** What a plugin has to do. */
  expected: string
  outcome: 'pass' | 'fail' | 'skip'
  /** What happened instead, or why it was left out. */
  reason?: string
  durationMs: number
}

/** A settings value of exactly this text becomes the address of a local server that accepts whatever is posted to it. */
export const SINK = '{sink}'

/** What the checks work with. */
export interface Bench {
  readonly manifest: Manifest
  /** The values of a channel's or a provider's settings, the manifest's defaults included. */
  readonly settings: Readonly<Record<string, string>>
  /** Names of required settings that have no value. */
  readonly missingSettings: readonly string[]
  /** The sample's file, if one was given. */
  readonly sample: string | undefined
  /** A process that has shaken hands, shared by the checks until one of them ends it. */
  ready(): Promise<Wire>
  /** A process of its own, before the handshake. */
  fresh(): Promise<Wire>
  /** A private copy of a document, and the params that go with it. */
  document(name: string, content: string | Uint8Array): Promise<Record<string, unknown> & { outputDir: string }>
  /** Files of the plugin's folder that were changed, added or removed since the run began. */
  changedFiles(): Promise<string[]>
}

/** One thing that a plugin has to do. `run` throws a `Failure` or a `Skip`; anything else it throws is a failure too. */
export interface Check {
  readonly name: string
  readonly expected: string
  readonly run: (bench: Bench) => Promise<void>
}

/** The plugin did something else. */
export class Failure extends Error {}

/** The check cannot be made here. */
export class Skip extends Error {}

export function expect(condition: boolean, otherwise: string): asserts condition {
  if (!condition) throw new Failure(otherwise)
}

/** Any value, short enough for a line. */
export function brief(value: unknown): string {
  const text = typeof value === 'string' ? value : ((JSON.stringify(value) as string | undefined) ?? String(value))
  return text.length > 200 ? `${text.slice(0, 197)}...` : text
}
