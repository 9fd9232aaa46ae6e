import { z } from 'zod'
import { redactData } from '../../core/redaction.js'
import type { PluginHostCore } from '../../core/host/host.js'
import type { Rejection } from '../../core/host/discovery.js'
import { networkOf } from '../../core/host/preparation.js'
import { judgeSignature, SIGNATURE_STATES } from '../../core/host/signature.js'
import type { Supervisor } from '../../core/host/supervisor.js'

const Sandbox = z.object({
  tier: z.string().nullable().describe('How the process is confined; null while none runs'),
  enforced: z.array(z.string()).describe('What the sandbox keeps from the plugin'),
  open: z.array(z.string()).describe('What it cannot keep from it'),
})

const Signature = z.object({
  state: z
    .enum(SIGNATURE_STATES)
    .describe('`invalid`: files were added, removed or changed, or the signature is not good; such an archive never runs'),
  reason: z.string(),
  key: z.string().optional().describe('The public key that signed it'),
})

const InstalledVersion = z.object({
  version: z.string(),
  digest: z.string().describe('SHA-256 of the archive, its first 32 hexadecimal digits'),
  installedAt: z.string(),
})

export const Plugin = z
  .object({
    id: z.string(),
    name: z.string(),
    version: z.string(),
    description: z.string(),
    author: z.string(),
    pluginInterface: z.string(),
    channelType: z.string().optional(),
    supportedExtensions: z.array(z.string()).optional(),
    providerType: z.string().optional().describe('Of a model provider: another name of it, as in `<providerType>/<model>`'),
    state: z.enum(['discovered', 'disabled', 'rejected', 'starting', 'ready', 'degraded', 'reloading', 'backing-off', 'failed', 'stopped']),
    reason: z.string().optional(),
    enabled: z.boolean().describe('Service:Plugins:Enabled'),
    allowed: z.boolean().describe('Whether the allow-list lets it run'),
    source: z.string().describe('The directory or archive that it was found as'),
    pid: z.number().optional(),
    uptimeMs: z.number().optional(),
    restarts: z.number(),
    lastError: z.string().optional(),
    residentBytes: z.number().optional(),
    storedBytes: z.number().optional().describe('On disk, in the directories that it can write'),
    spare: z
      .object({ pid: z.number(), residentBytes: z.number().optional() })
      .optional()
      .describe('The process that stands by to take over, where Service:Plugins:WarmSpares names the plugin'),
    calls: z.number(),
    errors: z.number(),
    latencyMs: z.object({ p50: z.number().nullable(), p95: z.number().nullable() }).describe('Of the newest 256 calls'),
    warnings: z.array(z.string()),
    sandbox: Sandbox,
    installation: z
      .object({ current: InstalledVersion, previous: InstalledVersion.nullable().describe('What a rollback goes back to') })
      .optional()
      .describe('Of a plugin that was installed through the API; without it, it lies in a plugin directory'),
    signature: Signature.optional().describe('Who vouches for its files; absent where they could not be read'),
  })
  .meta({ id: 'Plugin' })
export type Plugin = z.infer<typeof Plugin>

export const PluginDetail = Plugin.extend({
  metadata: z.record(z.string(), z.unknown()).describe("The manifest's, verbatim"),
  settings: z.array(
    z.object({ name: z.string(), type: z.string(), displayName: z.string(), required: z.boolean(), default: z.string().optional() }),
  ),
  output: z.array(z.string()).describe("The newest lines of the plugin's stderr"),
}).meta({ id: 'PluginDetail' })
export type PluginDetail = z.infer<typeof PluginDetail>

const nothingRuns = { tier: null, enforced: [], open: [] }
const noCalls = { restarts: 0, calls: 0, errors: 0, latencyMs: { p50: null, p95: null } }

/** Every plugin that was found, by id; what was rejected stands among them, once for each place. */
export const listPlugins = (host: PluginHostCore, enabled: boolean): Plugin[] =>
  [
    ...host.supervisors.map(supervisor => redactData(describePlugin(host, supervisor, enabled))),
    ...host.rejections.filter(({ source }) => !isServed(host, source)).map(rejection => describeRejection(host, rejection, enabled)),
  ].sort((a, b) => (a.id < b.id ? -1 : a.id > b.id ? 1 : a.source < b.source ? -1 : 1))

/** A plugin whose changed files are damaged still runs from its staged copy: it is not listed twice. */
const isServed = (host: PluginHostCore, source: string): boolean => host.supervisors.some(({ candidate }) => candidate.source === source)

export const describePlugin = (host: PluginHostCore, supervisor: Supervisor, enabled: boolean): Plugin => {
  const { candidate, current } = supervisor
  const { manifest } = current?.candidate ?? candidate
  const warnings = [...candidate.warnings]
  const { cut } = supervisor.storageAllowance
  if (cut)
    warnings.push(
      `it may store ${cut.given} MiB (Service:Plugins:MaxDataDirectoryMb), not the ${cut.asked} that its manifest asks for (permissions.dataDirectoryMb)`,
    )
  if (networkOf(candidate).kind === 'open')
    warnings.push('it may use the whole network: its manifest does not list the hosts that it needs (permissions.net)')
  return {
    id: supervisor.id,
    name: manifest.name,
    version: manifest.version,
    description: manifest.description ?? '',
    author: manifest.author ?? '',
    pluginInterface: manifest.pluginInterface,
    ...(manifest.channelType === undefined ? {} : { channelType: manifest.channelType }),
    ...(manifest.supportedExtensions === undefined ? {} : { supportedExtensions: manifest.supportedExtensions }),
    ...(manifest.providerType === undefined ? {} : { providerType: manifest.providerType }),
    state: supervisor.state,
    ...(supervisor.reason === undefined ? {} : { reason: supervisor.reason }),
    enabled,
    allowed: host.isAllowed(supervisor.id),
    source: candidate.source,
    ...(current ? { pid: current.process.pid, uptimeMs: Date.now() - current.process.startedAt } : {}),
    restarts: supervisor.restarts,
    ...(supervisor.lastError === undefined ? {} : { lastError: supervisor.lastError }),
    ...(supervisor.residentBytes === undefined ? {} : { residentBytes: supervisor.residentBytes }),
    ...(supervisor.storedBytes === undefined ? {} : { storedBytes: supervisor.storedBytes }),
    ...describeSpare(supervisor),
    calls: supervisor.latency.calls,
    errors: supervisor.latency.errors,
    latencyMs: { p50: supervisor.latency.percentile(0.5), p95: supervisor.latency.percentile(0.95) },
    warnings,
    sandbox: current ? { tier: current.tier, enforced: current.launch.enforced, open: current.launch.open } : nothingRuns,
    ...describeInstallation(host, candidate),
    signature: judgeSignature((current?.candidate ?? candidate).evidence, host.signaturePolicy),
  }
}

export const describeDetail = (host: PluginHostCore, supervisor: Supervisor, enabled: boolean): PluginDetail => {
  const { manifest } = supervisor.current?.candidate ?? supervisor.candidate
  return redactData({
    ...describePlugin(host, supervisor, enabled),
    metadata: manifest.metadata,
    settings: manifest.settings,
    output: supervisor.outputTail,
  })
}

const describeSpare = ({ spare: { process, residentBytes } }: Supervisor): Pick<Plugin, 'spare'> =>
  process ? { spare: { pid: process.pid, ...(residentBytes === undefined ? {} : { residentBytes }) } } : {}

/** Another copy of the same plugin is not the installed one. */
const describeInstallation = (host: PluginHostCore, { id, source }: { id: string; source: string }): Pick<Plugin, 'installation'> => {
  const installation = host.installation(id)
  if (!installation || !host.installs.holds(id, source)) return {}
  return { installation: { current: installation.current, previous: installation.previous } }
}

const describeRejection = (host: PluginHostCore, { id, version, source, reason, signature }: Rejection, enabled: boolean): Plugin => ({
  id,
  name: id,
  version: version ?? '0.0.0',
  description: '',
  author: '',
  pluginInterface: '',
  state: 'rejected',
  reason,
  enabled,
  allowed: host.isAllowed(id),
  source,
  ...noCalls,
  warnings: [],
  sandbox: nothingRuns,
  ...describeInstallation(host, { id, source }),
  ...(signature === undefined ? {} : { signature }),
})

const describeRejectionDetail = (host: PluginHostCore, rejection: Rejection, enabled: boolean): PluginDetail => ({
  ...describeRejection(host, rejection, enabled),
  metadata: {},
  settings: [],
  output: [],
})

/** A plugin, or what was rejected under its id; `undefined`: there is none. */
export const findDetail = (host: PluginHostCore, id: string, enabled: boolean): PluginDetail | undefined => {
  const supervisor = host.supervisor(id)
  if (supervisor) return describeDetail(host, supervisor, enabled)
  const rejection = host.rejections.find(other => other.id === id)
  return rejection && describeRejectionDetail(host, rejection, enabled)
}
