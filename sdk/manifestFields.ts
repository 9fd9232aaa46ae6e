import {
  field,
  hasUnprintable,
  isObject,
  isPrototypeKey,
  ManifestRejection,
  shown,
  type JsonObject,
  type ManifestIssues,
} from './manifestIssues.js'

/** What a plugin asks of its sandbox. */
export interface PluginPermissions {
  /** `host` or `host:port` it may reach. Empty: no network. Absent: the default of its interface. */
  net?: string[]
  /** Megabytes its data directory may hold. */
  dataDirectoryMb?: number
}

/** What a channel type looks like. */
export const channelTypePattern = /^[a-z][a-z0-9-]{1,31}$/

const MAX_NAME_BYTES = 128
const MAX_EXTENSIONS = 200
/** SemVer 2.0.0, the expression of semver.org. */
const semverPattern =
  /^(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)(?:-((?:0|[1-9]\d*|\d*[a-zA-Z-][0-9a-zA-Z-]*)(?:\.(?:0|[1-9]\d*|\d*[a-zA-Z-][0-9a-zA-Z-]*))*))?(?:\+([0-9a-zA-Z-]+(?:\.[0-9a-zA-Z-]+)*))?$/
const extensionPattern = /^(\.[\p{L}\p{N}_+~#$@!%&=-]{1,32}){1,4}$/u
const netPattern = /^(\[[0-9a-f:.]{2,45}\]|[a-z0-9_]([a-z0-9_.-]{0,251}[a-z0-9_])?)(:(\d{1,5}))?$/i

export const isSemver = (version: string): boolean => version.length <= 256 && semverPattern.test(version)

/** `name`, else the folder's name. Rejects what cannot be an id: it becomes part of addresses, paths and log lines. */
export function readName(manifest: JsonObject, directoryName: string, issues: ManifestIssues): string {
  const declared = field(manifest, 'name')
  const usable = typeof declared === 'string' && declared.trim() !== ''
  if (declared !== undefined && !usable)
    issues.warn(['name'], `must be a non-blank string, not ${shown(declared)}: the folder's name is used`)
  const name = usable ? declared.trim() : directoryName.trim()
  const wrong = whyNoName(name)
  if (wrong !== undefined)
    throw new ManifestRejection(['name'], `${shown(name)} cannot be a plugin's id: ${wrong}. Write for example "name": "my-plugin"`)
  return name
}

function whyNoName(name: string): string | undefined {
  if (name === '') return 'it is empty'
  if (Buffer.byteLength(name) > MAX_NAME_BYTES) return `it has more than ${MAX_NAME_BYTES} bytes`
  if (/[/\\]/.test(name)) return 'it holds a path separator'
  if (hasUnprintable(name)) return 'it holds a control or invisible character'
  if (/^\.+$/.test(name) || isPrototypeKey(name)) return 'it is a reserved name'
  return undefined
}

export function readVersion(manifest: JsonObject, issues: ManifestIssues): string {
  const declared = field(manifest, 'version')
  if (declared === undefined) return '0.0.0'
  const version = typeof declared === 'string' ? declared.trim() : ''
  if (isSemver(version)) return version
  issues.warn(['version'], `must be a SemVer version such as "1.0.0", not ${shown(declared)}: taken as 0.0.0`)
  return '0.0.0'
}

/** Trimmed and lower-cased, or derived from the name. An invalid one rejects the manifest. */
export function readChannelType(manifest: JsonObject, name: string, issues: ManifestIssues): string {
  const declared = field(manifest, 'channelType')
  if (declared === undefined) return deriveChannelType(name, issues)
  const channelType = typeof declared === 'string' ? declared.trim().toLowerCase() : ''
  if (channelTypePattern.test(channelType)) return channelType
  throw new ManifestRejection(
    ['channelType'],
    `${shown(declared)} does not match ${channelTypePattern.source}: 2 to 32 of a-z, 0-9 and "-", a letter first`,
  )
}

function deriveChannelType(name: string, issues: ManifestIssues): string {
  const derived = name
    .normalize('NFKD')
    .replace(/\p{M}/gu, '')
    .toLowerCase()
    .replace(/[^a-z0-9]+/g, '-')
    .replace(/^[^a-z]+/, '')
    .slice(0, 32)
    .replace(/-+$/, '')
  if (!channelTypePattern.test(derived)) {
    throw new ManifestRejection(['name'], `no channel type can be derived from the name ${shown(name)}: give "channelType"`)
  }
  if (derived !== name.toLowerCase()) issues.warn(['name'], `"channelType" is absent: "${derived}" was derived from the name`)
  return derived
}

export function readRecipientKey(manifest: JsonObject, issues: ManifestIssues): string {
  const declared = field(manifest, 'recipientMetadataKey')
  if (declared === undefined) return 'chatId'
  const key = typeof declared === 'string' ? declared.trim() : ''
  if (key !== '' && key.length <= 128 && !hasUnprintable(key) && !isPrototypeKey(key)) return key
  issues.warn(['recipientMetadataKey'], `must be a non-blank string, not ${shown(declared)}: taken as "chatId"`)
  return 'chatId'
}

/** At least one, or the plugin is rejected: nothing would ever reach it. */
export function readExtensions(manifest: JsonObject, issues: ManifestIssues): string[] {
  const declared = field(manifest, 'supportedExtensions')
  if (declared !== undefined && !Array.isArray(declared)) {
    issues.warn(['supportedExtensions'], `must be an array of strings, not ${shown(declared)}: ignored`)
  }
  const extensions = new Set<string>()
  for (const [index, entry] of (Array.isArray(declared) ? (declared as unknown[]) : []).entries()) {
    if (extensions.size >= MAX_EXTENSIONS) {
      issues.warn(['supportedExtensions', index], `only the first ${MAX_EXTENSIONS} extensions are used`)
      break
    }
    const bare = typeof entry === 'string' ? entry.trim().toLowerCase() : ''
    const extension = bare.startsWith('.') ? bare : `.${bare}`
    if (extensionPattern.test(extension)) extensions.add(extension)
    else issues.warn(['supportedExtensions', index], `${shown(entry)} is no file extension such as ".srt": skipped`)
  }
  if (extensions.size > 0) return [...extensions]
  throw new ManifestRejection(
    ['supportedExtensions'],
    'the extractor declares no file extension, so nothing would ever reach it: it is skipped. Write for example "supportedExtensions": [".srt"]',
  )
}

/** Fails closed: a `net` that cannot be read means no network. */
export function readPermissions(manifest: JsonObject, issues: ManifestIssues): PluginPermissions | undefined {
  const declared = field(manifest, 'permissions')
  if (declared === undefined) return undefined
  if (!isObject(declared)) {
    issues.warn(['permissions'], `must be an object such as {"net": ["api.example.com:443"]}, not ${shown(declared)}: taken as no network`)
    return { net: [] }
  }
  const permissions: PluginPermissions = {}
  const net = field(declared, 'net')
  if (net !== undefined) permissions.net = readNet(net, issues)
  const megabytes = field(declared, 'dataDirectoryMb')
  if (typeof megabytes === 'number' && Number.isFinite(megabytes) && megabytes > 0) permissions.dataDirectoryMb = megabytes
  else if (megabytes !== undefined)
    issues.warn(['permissions', 'dataDirectoryMb'], `must be a number above 0, not ${shown(megabytes)}: ignored`)
  return permissions
}

function readNet(net: unknown, issues: ManifestIssues): string[] {
  if (!Array.isArray(net)) {
    issues.warn(['permissions', 'net'], `must be an array of "host" or "host:port", not ${shown(net)}: taken as no network`)
    return []
  }
  const hosts = new Set<string>()
  for (const [index, entry] of (net as unknown[]).entries()) {
    const match = typeof entry === 'string' ? netPattern.exec(entry.trim()) : null
    if (match && Number(match[4] ?? 1) > 0 && Number(match[4] ?? 1) < 65536) hosts.add(match[0].toLowerCase())
    else issues.warn(['permissions', 'net', index], `${shown(entry)} is no "host" or "host:port" such as "api.example.com:443": skipped`)
  }
  return [...hosts]
}
