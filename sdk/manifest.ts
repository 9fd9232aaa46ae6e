import {
  readChannelType,
  readExtensions,
  readName,
  readPermissions,
  readRecipientKey,
  readVersion,
  type PluginPermissions,
} from './manifestFields.js'
import { field, isObject, ManifestIssues, ManifestRejection, pathText, readText, shown } from './manifestIssues.js'
import type { JsonObject, ManifestIssue } from './manifestIssues.js'
import { readSettings, type ManifestSetting } from './manifestSettings.js'

export type { ManifestSetting } from './manifestSettings.js'
export { channelTypePattern, type PluginPermissions } from './manifestFields.js'
export { EntryError, findEntry, resolveCommand, type Entry } from './entry.js'
export { looksLikeSecretName } from './secretNames.js'

/** The interfaces a plugin may have. The first two are live; the others are accepted and run, two of them as an experiment. */
export const PLUGIN_INTERFACES = ['ChannelAdapter', 'DocumentExtractor', 'ModelProvider', 'EmbeddingProvider', 'VaultBackend'] as const

export type PluginInterface = (typeof PLUGIN_INTERFACES)[number]

/** Interfaces that the gateway uses. A plugin of another one starts and runs, with a warning. */
export const WIRED_INTERFACES: readonly PluginInterface[] = ['ChannelAdapter', 'DocumentExtractor']

/** Interfaces that the gateway uses while `Service:Plugins:Experimental` is on. */
export const EXPERIMENTAL_INTERFACES: readonly PluginInterface[] = ['ModelProvider', 'EmbeddingProvider']

/** A manifest as the gateway understands it: defaults filled in, every field of the right type. */
export interface Manifest {
  /** The plugin's id. Compared without regard to case. */
  name: string
  /** SemVer. `0.0.0` when the manifest gives none. */
  version: string
  pluginInterface: PluginInterface
  description?: string
  author?: string
  /** For `service dev build`. The gateway finds the entry file by its own convention. */
  entrypoint?: string
  /** Present for a ChannelAdapter, and only there. */
  channelType?: string
  /** ModelProvider only. */
  providerType?: string
  /** DocumentExtractor only: lower case, with the leading dot, at least one, none twice. */
  supportedExtensions?: string[]
  /** ChannelAdapter only: the key of a message's metadata that says where a reply goes. */
  recipientMetadataKey?: string
  /** As it stands in the file. */
  metadata: Record<string, unknown>
  settings: ManifestSetting[]
  permissions?: PluginPermissions
}

export interface ManifestOptions {
  /** The folder's original name: what `name` falls back to. */
  directoryName: string
}

/** `notPlugin`: skipped silently. `rejected`: shown with its reason and never started; `name` is given when it could be read. */
export type ParsedManifest =
  | { kind: 'manifest'; manifest: Manifest; warnings: string[] }
  | { kind: 'notPlugin' }
  | { kind: 'rejected'; reason: string; name?: string; warnings: string[] }

/** The same with places, for messages that point into the file. */
export type InspectedManifest =
  | { kind: 'manifest'; manifest: Manifest; warnings: ManifestIssue[] }
  | { kind: 'notPlugin' }
  | { kind: 'rejected'; reason: ManifestIssue; name?: string; warnings: ManifestIssue[] }

/** Reads a parsed `manifest.json` by the gateway's rules. Never throws, whatever the file holds; unknown fields are no error. */
export function parseManifest(json: unknown, options: ManifestOptions): ParsedManifest {
  const inspected = inspectManifest(json, options)
  if (inspected.kind === 'notPlugin') return inspected
  const warnings = inspected.warnings.map(issueText)
  return inspected.kind === 'manifest' ? { ...inspected, warnings } : { ...inspected, reason: issueText(inspected.reason), warnings }
}

/** `parseManifest`, with the place of every warning and of the reason. */
export function inspectManifest(json: unknown, { directoryName }: ManifestOptions): InspectedManifest {
  if (!isObject(json)) return { kind: 'notPlugin' }
  const declared = field(json, 'pluginInterface')
  if (declared === undefined || (typeof declared === 'string' && declared.trim() === '')) return { kind: 'notPlugin' }
  const issues = new ManifestIssues()
  let name: string | undefined
  try {
    name = readName(json, directoryName, issues)
    const manifest = readManifest(json, name, readInterface(declared, issues), issues)
    return { kind: 'manifest', manifest, warnings: issues.list }
  } catch (error) {
    if (!(error instanceof ManifestRejection)) throw error
    const reason = { path: error.path, message: error.message }
    return { kind: 'rejected', reason, ...(name === undefined ? {} : { name }), warnings: issues.list }
  }
}

function readInterface(declared: unknown, issues: ManifestIssues): PluginInterface {
  const path = ['pluginInterface']
  const name = typeof declared === 'string' ? declared.trim() : ''
  const bare = /^I[A-Z]/.test(name) ? name.slice(1) : name
  if (bare === 'Tool') throw new ManifestRejection(path, 'Tool plugins are not taken: custom tools belong to skills or MCP servers')
  const known = PLUGIN_INTERFACES.find(candidate => candidate === bare)
  if (known === undefined) throw new ManifestRejection(path, `${shown(declared)} is none of ${PLUGIN_INTERFACES.join(', ')}`)
  if (bare !== name) issues.warn(path, `${shown(name)} is the legacy spelling of "${bare}"`)
  return known
}

function readManifest(json: JsonObject, name: string, pluginInterface: PluginInterface, issues: ManifestIssues): Manifest {
  const type = readText(json, 'type', issues)
  if (type !== undefined && type !== 'plugin') issues.warn(['type'], `must be "plugin", not ${shown(type)}: ignored`)
  const permissions = readPermissions(json, issues)
  return {
    name,
    version: readVersion(json, issues),
    pluginInterface,
    ...texts(
      json,
      pluginInterface === 'ModelProvider'
        ? ['description', 'author', 'entrypoint', 'providerType']
        : ['description', 'author', 'entrypoint'],
      issues,
    ),
    ...interfaceFields(json, name, pluginInterface, issues),
    metadata: readMetadata(json, issues),
    settings: readSettings(json, issues),
    ...(permissions === undefined ? {} : { permissions }),
  }
}

function interfaceFields(json: JsonObject, name: string, pluginInterface: PluginInterface, issues: ManifestIssues): Partial<Manifest> {
  const foreign = (names: string[], owner: PluginInterface): void => {
    if (pluginInterface === owner) return
    for (const key of names.filter(key => field(json, key) !== undefined)) issues.warn([key], `is for a ${owner} only: ignored`)
  }
  foreign(['channelType', 'recipientMetadataKey'], 'ChannelAdapter')
  foreign(['supportedExtensions'], 'DocumentExtractor')
  foreign(['providerType'], 'ModelProvider')
  if (pluginInterface === 'ChannelAdapter') {
    return { channelType: readChannelType(json, name, issues), recipientMetadataKey: readRecipientKey(json, issues) }
  }
  return pluginInterface === 'DocumentExtractor' ? { supportedExtensions: readExtensions(json, issues) } : {}
}

function texts(
  json: JsonObject,
  names: ('description' | 'author' | 'entrypoint' | 'providerType')[],
  issues: ManifestIssues,
): Partial<Manifest> {
  const found: Partial<Manifest> = {}
  for (const name of names) {
    const text = readText(json, name, issues)
    if (text !== undefined) found[name] = text
  }
  return found
}

function readMetadata(json: JsonObject, issues: ManifestIssues): Record<string, unknown> {
  const metadata = field(json, 'metadata')
  if (metadata === undefined) return {}
  if (isObject(metadata)) return metadata
  issues.warn(['metadata'], `must be an object, not ${shown(metadata)}: ignored`)
  return {}
}

const issueText = ({ path, message }: ManifestIssue): string => (path.length === 0 ? message : `${pathText(path)}: ${message}`)
