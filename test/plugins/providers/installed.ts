import { cp, mkdir, readFile, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { build } from 'esbuild'
import { login, startGateway, type GatewayOptions, type TestGateway } from '../../support/gateway.js'
import { waitFor } from '../../support/waitFor.js'
import { Speaker } from '../chat/conversation.js'

const fixture = (path: string): string => fileURLToPath(new URL(`../../fixtures/plugins/${path}`, import.meta.url))

/** The examples, which are written with the SDK, and the one that does what it is told. */
const PROGRAMS = { echo: 'echo/echo.ts', hashing: 'hashing/hashing.ts', scripted: 'scriptedProvider/scriptedProvider.mjs' } as const

/** A plugin in a gateway's plugin directory. */
export class Installed {
  readonly id: string
  readonly #gateway: Providers
  readonly #program: keyof typeof PROGRAMS
  readonly #manifest: Record<string, unknown>

  constructor(gateway: Providers, id: string, program: keyof typeof PROGRAMS, manifest: Record<string, unknown>) {
    this.id = id
    this.#gateway = gateway
    this.#program = program
    this.#manifest = manifest
  }

  /** Writes its files, in another version too, and waits until that one serves. */
  async install(version: string): Promise<void> {
    const folder = join(this.#gateway.dataDir, 'plugins', this.id)
    await mkdir(folder, { recursive: true })
    const program = join(folder, `${this.id}.mjs`)
    const source = fixture(PROGRAMS[this.#program])
    if (source.endsWith('.mjs')) await cp(source, program)
    else await build({ entryPoints: [source], bundle: true, platform: 'node', format: 'esm', outfile: program, logLevel: 'silent' })
    await writeFile(join(folder, 'manifest.json'), JSON.stringify({ name: this.id, ...this.#manifest, version }))
    await this.#gateway.call('POST', '/plugins/scan', { token: this.#gateway.token })
    await this.until('ready', version)
  }

  async until(state: string, version?: string): Promise<void> {
    await waitFor(`the plugin ${this.id} to be ${state}`, async () => {
      const { body } = await this.#gateway.call('GET', `/plugins/${this.id}`, { token: this.#gateway.token })
      return body.state === state && (version === undefined || body.version === version)
    })
  }

  act(action: 'stop' | 'restart'): Promise<unknown> {
    return this.#gateway.call('POST', `/plugins/${this.id}/${action}`, { token: this.#gateway.token })
  }

  async remove(): Promise<void> {
    await rm(join(this.#gateway.dataDir, 'plugins', this.id), { recursive: true })
    await this.#gateway.call('POST', '/plugins/scan', { token: this.#gateway.token })
  }

  /** Lines of a file in its data directory. */
  async noted(name: string): Promise<string[]> {
    const text = await readFile(this.#place(name), 'utf8').catch(() => '')
    return text.split('\n').slice(0, -1)
  }

  /** Writes a file into its data directory. */
  leave(name: string, content = ''): Promise<void> {
    return writeFile(this.#place(name), content)
  }

  take(name: string): Promise<void> {
    return rm(this.#place(name), { force: true })
  }

  #place(name: string): string {
    return join(this.#gateway.dataDir, 'plugin-data', this.id, name)
  }
}

/** A whole gateway with plugins switched on, and the experiment too unless it says otherwise. */
export interface Providers extends TestGateway {
  token: string
  me: Speaker
  add(
    id: string,
    program: keyof typeof PROGRAMS,
    pluginInterface: 'ModelProvider' | 'EmbeddingProvider',
    manifest?: Record<string, unknown> & { version?: string },
  ): Promise<Installed>
  /** Changes hot settings in the gateway's file. */
  configure(service: Record<string, unknown>): Promise<void>
}

export const startProviders = async ({ settings = {}, ...options }: GatewayOptions = {}): Promise<Providers> => {
  const gateway = await startGateway({
    ...options,
    settings: {
      'Service:Plugins:Enabled': 'true',
      'Service:Plugins:Experimental': 'true',
      'Service:Chat:StopGraceMs': '0',
      ...settings,
    },
  })
  const token = await login(gateway)
  const providers: Providers = {
    ...gateway,
    token,
    me: new Speaker(gateway, token),
    add: async (id, program, pluginInterface, { version = '1.0.0', ...manifest } = {}) => {
      const installed = new Installed(providers, id, program, { pluginInterface, ...manifest })
      await installed.install(version)
      return installed
    },
    configure: async service => {
      await writeFile(join(gateway.dataDir, 'service.json'), JSON.stringify({ Service: service }))
      // Writing a setting reads the file again.
      await gateway.call('PUT', '/plugins/settings', { token, body: { enabled: true } })
    },
  }
  return providers
}
