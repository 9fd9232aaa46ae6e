/**
 * The test kit: starts a plugin as the gateway does, with a peer in the gateway's place. Import it before or together
 * with a plugin's own module: definitions then wait for `startPlugin`.
 */
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'
import { PROTOCOL_VERSIONS } from './protocol.js'
import { readManifest } from './pluginFolder.js'
import { holdDefinitions, type PluginDefinition } from './runtime.js'
import { RunningPlugin } from './runningPlugin.js'
import { startInProcess, startProcess } from './testLaunch.js'

export { RunningPlugin, type TestAnswer } from './runningPlugin.js'
export { TestChannel, type HostPeer, type TestWebhook } from './testChannel.js'
export type { PluginExit } from './testLaunch.js'
export { testConformance, type ConformanceOptions, type ConformanceReport } from './conformance/run.js'
export type { CheckResult } from './conformance/check.js'

holdDefinitions()

/** How `startPlugin` starts. */
export interface StartOptions {
  /** The plugin's data directory. Default: a new one, removed when the plugin stops. */
  dataDir?: string
  /** Options for Node, for example `--experimental-permission`. Only for a program that runs in Node. */
  nodeArgs?: readonly string[]
  /** Added to a bare environment. */
  env?: Readonly<Record<string, string>>
  /** What is offered in the handshake. Default: all this SDK speaks. */
  protocolVersions?: readonly string[]
  /** What a definition, run in this process, speaks. Default: all this SDK speaks. */
  pluginVersions?: readonly string[]
}

/**
 * Starts a plugin and shakes hands. `target` is a plugin's folder (started by its manifest and entry file, as the
 * gateway does), an entry file, or a definition, which runs in this process. Rejects with the reason and the plugin's
 * stderr when it does not come up within 10 s.
 */
export async function startPlugin(target: string | URL | PluginDefinition, options: StartOptions = {}): Promise<RunningPlugin> {
  const temporary = await mkdtemp(join(tmpdir(), 'plugin-test-'))
  const dataDir = options.dataDir ?? join(temporary, 'data')
  const launch = {
    dataDir,
    nodeArgs: options.nodeArgs ?? [],
    env: options.env ?? {},
    pluginVersions: options.pluginVersions ?? PROTOCOL_VERSIONS,
  }
  const removeTemporary = (): Promise<void> => rm(temporary, { recursive: true, force: true })
  try {
    const isPath = typeof target === 'string' || target instanceof URL
    const path = isPath ? resolve(typeof target === 'string' ? target : fileURLToPath(target)) : undefined
    const manifest = path === undefined ? undefined : await readManifest(path)
    const launched = isPath ? await startProcess(path as string, launch) : await startInProcess(target, launch)
    const plugin = new RunningPlugin(launched, { manifest, dataDir, temporary, removeTemporary })
    await plugin.handshake(options.protocolVersions ?? PROTOCOL_VERSIONS)
    return plugin
  } catch (error) {
    await removeTemporary()
    throw error
  }
}
