import { readFile, realpath, rm, stat } from 'node:fs/promises'
import { dirname, join, relative, resolve } from 'node:path'
import { ARCHIVE_ENDING } from '../../pluginFolder.js'
import { writeArchive } from '../archive.js'
import { bundle } from '../bundle.js'
import { checkProject, CliError, isScript, type PluginProject } from '../project.js'
import { readSigner, type Signer } from '../signing.js'
import { Follower } from './follow.js'
import { Gateway, type PluginRecord } from './gateway.js'
import { hasDebugger, inspectorBanner, whyNoDebugger } from './inspector.js'
import { Screen } from './screen.js'

export interface RunOptions {
  url?: string
  tokenFile?: string
  pluginsDir?: string
  inspect?: string | true
  keep?: boolean
  sign?: string
}

const DEFAULT_URL = 'http://127.0.0.1:8080'
const DEFAULT_INSPECT_PORT = 9229
const SETTLE_MS = 80
const DEBUGGER_TRIES = 25
const RIVAL_ADVICE = ': remove that one, or give this one a higher version'
const UNSIGNED_ADVICE = ': start service dev run again with --sign and a key that the gateway trusts'
/** What a change of does not matter, below a plugin's folder. */
const IGNORED = /(?:^|[/\\])(?:node_modules|publish|\.git)(?:[/\\]|$)|\.service-plugin$|\.tmp$/

/**
 * Keeps a live gateway supplied with the plugin in `path`: builds it, puts it into a directory that the gateway scans,
 * and does so again after every change, until `signal` is aborted.
 */
export async function runPlugin(path: string, options: RunOptions, write: (text: string) => void, signal: AbortSignal): Promise<void> {
  const sign = options.sign === undefined ? undefined : await readSigner(resolve(options.sign))
  const gateway = new Gateway(options.url ?? process.env.AGENT_GATEWAY_URL ?? DEFAULT_URL, await readToken(options.tokenFile))
  const { project, lines } = await checkProject(path)
  if (!project) throw new CliError(lines.join('\n'))
  const place = await choosePlace(project, options, await gateway.plugins())
  if (sign && !place.endsWith(ARCHIVE_ENDING))
    throw new CliError(
      `${place} is scanned as a folder, which has no signature, and --sign is for archives: name another directory that the gateway scans with --plugins-dir`,
    )
  const session = new DevSession(project, gateway, place, new Screen(write), options, sign)
  await session.run(signal)
}

async function readToken(file: string | undefined): Promise<string> {
  const named = file === undefined ? process.env.AGENT_GATEWAY_TOKEN : await readFile(file, 'utf8').catch(() => undefined)
  const token = named?.trim() ?? ''
  if (token !== '') return token
  throw new CliError(
    file === undefined
      ? "The gateway wants an administrator's token: set AGENT_GATEWAY_TOKEN, or name a file that holds it with --token-file"
      : `${file} holds no token`,
  )
}

/** Where the gateway finds the plugin: the project's own folder when it is scanned as it is, else an archive. */
async function choosePlace({ directory, manifest }: PluginProject, { pluginsDir }: RunOptions, present: PluginRecord[]): Promise<string> {
  const place = pluginsDir ?? process.env.AGENT_GATEWAY_PLUGINS_DIR
  const own = await realpath(directory)
  if (place === undefined) {
    const sources = await Promise.all(present.map(({ source = '' }) => realpath(source).catch(() => '')))
    if (sources.includes(own)) return own
    throw new CliError(
      'Name a directory that the gateway scans with --plugins-dir, or in AGENT_GATEWAY_PLUGINS_DIR: the folder "plugins" in its data directory is one',
    )
  }
  if (!(await stat(place).catch(() => undefined))?.isDirectory())
    throw new CliError(`${place} is no directory: --plugins-dir names one that the gateway scans`)
  const real = await realpath(place)
  return dirname(own) === real ? own : join(real, `${manifest.name}.dev${ARCHIVE_ENDING}`)
}

class DevSession {
  readonly #gateway: Gateway
  readonly #screen: Screen
  readonly #follower: Follower
  readonly #place: string
  readonly #directory: string
  readonly #id: string
  readonly #inspectPort: number | undefined
  readonly #keep: boolean
  readonly #sign: Signer | undefined
  #building: Promise<void> | undefined
  #buildWanted = false

  constructor(
    project: PluginProject,
    gateway: Gateway,
    place: string,
    screen: Screen,
    { inspect, keep }: RunOptions,
    sign: Signer | undefined,
  ) {
    this.#sign = sign
    this.#gateway = gateway
    this.#screen = screen
    this.#place = place
    this.#directory = project.directory
    this.#id = project.manifest.name
    this.#keep = keep ?? false
    this.#inspectPort = inspect === undefined ? undefined : inspect === true ? DEFAULT_INSPECT_PORT : readPort(inspect)
    this.#follower = new Follower(gateway, this.#id, screen, record => void this.#debuggerOf(record))
  }

  get #isInPlace(): boolean {
    return !this.#place.endsWith(ARCHIVE_ENDING)
  }

  async run(signal: AbortSignal): Promise<void> {
    this.#screen.say('gateway', `${this.#gateway.url.origin} runs it from ${this.#place}`)
    const unwatch = await this.#watch()
    await this.#build()
    const following = this.#follower.run()
    if (!signal.aborted) await new Promise(resolve => signal.addEventListener('abort', resolve, { once: true }))
    await unwatch()
    this.#follower.stop()
    await Promise.all([following, this.#building])
    if (this.#inspectPort !== undefined)
      await this.#buildWithoutDebugger().catch((error: unknown) =>
        this.#screen.say('build', `what stands there still opens a debugger's port: ${(error as Error).message}`),
      )
    if (!this.#isInPlace && !this.#keep) await this.#remove()
  }

  /** One build at a time; changes meanwhile make one more. */
  #build(): Promise<void> {
    this.#buildWanted = true
    this.#building ??= this.#buildAsWanted().finally(() => (this.#building = undefined))
    return this.#building
  }

  async #buildAsWanted(): Promise<void> {
    while (this.#buildWanted) {
      this.#buildWanted = false
      try {
        await this.#buildOnce()
      } catch (error) {
        this.#screen.say('error', error instanceof CliError ? error.message : String(error))
        this.#screen.say('build', 'failed: the version before stays')
      }
    }
  }

  async #buildOnce(): Promise<void> {
    const started = performance.now()
    const { project, lines } = await checkProject(this.#directory)
    for (const line of lines) this.#screen.say(line.includes(': error: ') ? 'error' : 'warning', line)
    if (!project) throw new CliError('manifest.json cannot be used as it is')
    if (project.manifest.name !== this.#id)
      throw new CliError(`the plugin is now called ${project.manifest.name}: start service dev run again`)
    const script = isScript(project)
      ? await bundle(project, this.#inspectPort === undefined ? '' : inspectorBanner(this.#inspectPort))
      : undefined
    if (!script && this.#inspectPort !== undefined) this.#screen.say('debugger', `none: ${project.manifest.entrypoint} is no JavaScript`)
    if (!this.#isInPlace) await writeArchive(project, { script, out: this.#place, sign: this.#sign })
    const what = script ? `${relative(process.cwd(), script.file)}, ${Math.ceil(script.text.length / 1024)} KiB` : 'the program as it is'
    this.#screen.say('build', `${project.manifest.version}: ${what}, in ${Math.round(performance.now() - started)} ms`)
    const found = await this.#gateway.scan().catch((error: unknown) => {
      this.#screen.say('gateway', `${(error as Error).message}. A gateway that watches its directories notices the new build by itself`)
      return []
    })
    this.#tellRival(found)
    this.#follower.expectNews()
  }

  /** What stays behind opens no port. */
  async #buildWithoutDebugger(): Promise<void> {
    const { project } = await checkProject(this.#directory)
    const script = project && isScript(project) ? await bundle(project) : undefined
    if (project && this.#keep && !this.#isInPlace) await writeArchive(project, { script, out: this.#place, sign: this.#sign })
  }

  /** Another copy of the same plugin may have won. */
  #tellRival(found: readonly PluginRecord[]): void {
    const refused = found.find(({ state, source }) => state === 'rejected' && source !== undefined && resolve(source) === this.#place)
    if (!refused) return
    const reason = refused.reason ?? ''
    const advice = reason.startsWith('the same id') ? RIVAL_ADVICE : !this.#sign && /sign/.test(reason) ? UNSIGNED_ADVICE : ''
    this.#screen.say('rejected', `${reason}${advice}`)
  }

  async #watch(): Promise<() => Promise<void>> {
    const { watch } = await import('chokidar')
    const ignored = (path: string): boolean => IGNORED.test(path.slice(this.#directory.length))
    const watcher = watch(this.#directory, { ignoreInitial: true, ignored })
    let timer: NodeJS.Timeout | undefined
    watcher.on('all', () => {
      clearTimeout(timer)
      timer = setTimeout(() => void this.#build(), SETTLE_MS)
    })
    await new Promise<void>(resolve => watcher.once('ready', () => resolve()))
    return async () => {
      clearTimeout(timer)
      await watcher.close()
    }
  }

  async #debuggerOf(record: PluginRecord): Promise<void> {
    const port = this.#inspectPort
    if (port === undefined) return
    if (!['127.0.0.1', 'localhost', '[::1]'].includes(this.#gateway.url.hostname)) {
      this.#screen.say('debugger', `port ${port}, if its sandbox permits it, on the gateway's machine: forward it from there`)
      return
    }
    for (let left = DEBUGGER_TRIES; left > 0; left--) {
      if (await hasDebugger(port, this.#id)) {
        this.#screen.say('debugger', `127.0.0.1:${port}: attach your editor, or open chrome://inspect`)
        return
      }
      await new Promise(resolve => setTimeout(resolve, 200))
    }
    this.#screen.say('debugger', `none: ${whyNoDebugger(port, record)}`)
  }

  async #remove(): Promise<void> {
    await rm(this.#place, { force: true })
    await this.#gateway.scan().then(
      () => this.#screen.say('gateway', `${this.#place} is removed`),
      (error: unknown) => this.#screen.say('gateway', `${this.#place} is removed, but: ${(error as Error).message}`),
    )
  }
}

function readPort(text: string): number {
  const port = Number(text)
  if (Number.isInteger(port) && port > 0 && port < 65536) return port
  throw new CliError(`--inspect ${text}: a port is a number from 1 to 65535`)
}
