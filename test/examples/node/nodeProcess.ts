import { spawn, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { identityIn } from '@agent-gateway/sdk/node'
import { pairNode } from '../../plugins/nodes/support.js'
import type { Answer, CallOptions } from '../../support/gateway.js'
import { waitFor } from '../../support/waitFor.js'

const PROGRAM = fileURLToPath(new URL('../../../examples/node/dist/node.mjs', import.meta.url))

interface Reachable {
  url: string
  call(method: string, path: string, options?: CallOptions): Promise<Answer>
}

/** The built node, as its user calls it: a process for each call, and a folder of its own. */
export class NodeProgram {
  readonly directory: string
  readonly #env: Record<string, string>
  #running: ChildProcess | undefined
  /** The exit code of what `run` started last, once all that it printed was read. */
  exited: Promise<number | null> = Promise.resolve(null)
  /** Everything that `run` printed. */
  output = ''

  private constructor(directory: string, env: Record<string, string>) {
    this.directory = directory
    this.#env = env
  }

  static async create(env: Record<string, string> = {}): Promise<NodeProgram> {
    return new NodeProgram(await mkdtemp(join(tmpdir(), 'node-program-')), {
      PATH: process.env.PATH ?? '',
      HOME: process.env.HOME ?? '/',
      ...env,
    })
  }

  /** Calls it and resolves with its exit code and what it printed. */
  async call(args: string[], input = ''): Promise<{ code: number | null; stdout: string; stderr: string }> {
    const child = this.#spawn(args)
    const printed = collect(child)
    child.stdin?.end(input)
    const [code] = (await once(child, 'close')) as [number | null]
    return { code, ...printed }
  }

  /** Pairs it, approved by an administrator who compares the code. */
  async pair(
    gateway: Reachable,
    admin: string,
    { id, scopes, options = [] }: { id: string; scopes: string[]; options?: string[] },
  ): Promise<void> {
    const child = this.#spawn(['pair', gateway.url, '--id', id, ...options])
    const printed = collect(child)
    const code = await waitFor('the pairing code', () => /pairing code: (\S+)/.exec(printed.stdout)?.[1])
    const pending = (await gateway.call('GET', '/nodes/pending', { token: admin })).body.items as { id: string; pairingCode: string }[]
    if (!pending.some(one => one.id === id && one.pairingCode === code)) throw new Error(`${code} does not wait at the gateway`)
    await gateway.call('POST', `/nodes/${id}/approve`, { token: admin, body: { scopes } })
    const [exitCode] = (await once(child, 'close')) as [number | null]
    if (exitCode !== 0) throw new Error(`pairing failed: ${printed.stdout}${printed.stderr}`)
  }

  /** Gives it an identity that was paired by plain requests: quicker, where pairing is not what is tested. */
  async adopt(gateway: Reachable, admin: string, { id, scopes }: { id: string; scopes: string[] }): Promise<void> {
    const token = await pairNode(gateway, admin, id, scopes)
    await identityIn(this.directory).save({ nodeId: id, gatewayUrl: gateway.url, token })
  }

  /** Starts `run` and resolves once it is online. */
  async run(...options: string[]): Promise<void> {
    const child = this.#spawn(['run', ...options])
    this.#running = child
    this.exited = once(child, 'close').then(([code]) => code as number | null)
    this.output = ''
    for (const stream of [child.stdout, child.stderr]) stream?.on('data', (chunk: Buffer) => (this.output += chunk.toString()))
    await waitFor(`the node to be online: ${this.output}`, () => /^online over/m.test(this.output))
  }

  async stop(signal: NodeJS.Signals = 'SIGTERM'): Promise<number | null> {
    const child = this.#running
    if (!child || child.exitCode !== null || child.signalCode !== null) return child?.exitCode ?? null
    child.kill(signal)
    return this.exited
  }

  async remove(): Promise<void> {
    await this.stop('SIGKILL')
    await rm(this.directory, { recursive: true, force: true })
  }

  #spawn(args: string[]): ChildProcess {
    return spawn(process.execPath, [PROGRAM, ...args, '--dir', this.directory], { env: this.#env })
  }
}

const collect = (child: ChildProcess): { stdout: string; stderr: string } => {
  const printed = { stdout: '', stderr: '' }
  child.stdout?.on('data', (chunk: Buffer) => (printed.stdout += chunk.toString()))
  child.stderr?.on('data', (chunk: Buffer) => (printed.stderr += chunk.toString()))
  return printed
}
