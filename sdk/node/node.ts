import { busy, CommandError } from './commandError.js'
import { Delivery, type Way } from './delivery.js'
import { GatewayApi, type GatewayError } from './gatewayApi.js'
import type { NodeIdentity } from './identity.js'
import { Ended, Link } from './link.js'
import type { NodeLog } from './log.js'
import { CommandMemory } from './memory.js'
import { DEFAULT_TIMING, type NodeEnd, type NodeOptions, type NodeState, type NodeTiming } from './options.js'
import { Runner, type Running } from './runner.js'
import { effectiveScopes, isGranted } from './scopes.js'

/** Check-ins of all running commands together: one in each of these. */
const CHECK_IN_TICK_MS = 1000
const MAX_CRASH_TEXT = 10_000
const SCOPES_RETRY_MS = 1000

type Paired = NodeIdentity & { token: string }

/** Starts a node. Rejects when it is not paired or its memory cannot be opened; a gateway that is away is waited for. */
export const startNode = async (options: NodeOptions): Promise<RunningNode> => {
  const identity = await options.identity.load()
  if (!isPaired(identity)) throw new Error(`The node is not paired: ${options.identity.path} holds no token`)
  return new RunningNode(options, identity, await CommandMemory.open(options.stateDir))
}

/** A node that keeps itself connected and runs what its scopes allow. */
export class RunningNode {
  /** Resolves when the node has ended, with why. */
  readonly ended: Promise<NodeEnd>
  readonly #options: NodeOptions
  readonly #timing: NodeTiming
  readonly #log: NodeLog
  readonly #memory: CommandMemory
  readonly #runner: Runner
  readonly #delivery: Delivery
  readonly #stopping = new AbortController()
  readonly #checkedIn = new Map<string, number>()
  #identity: Paired
  #local: readonly string[]
  #granted: readonly string[] = []
  #state: NodeState = { kind: 'connecting' }
  #link: Link | undefined
  /** Ends the present link: at a stop, and when the token has changed. */
  #unlinking = new AbortController()

  /** @internal Use `startNode`. */
  constructor(options: NodeOptions, identity: Paired, memory: CommandMemory) {
    this.#options = options
    this.#identity = identity
    this.#memory = memory
    this.#local = options.scopes
    this.#timing = { ...DEFAULT_TIMING, ...options.timing }
    this.#log = options.log ?? (() => undefined)
    this.#delivery = new Delivery({ memory, log: this.#log })
    this.#runner = new Runner({
      commands: options.commands,
      memory,
      maxRunning: options.maxRunning ?? 64,
      granted: command => this.#grantedFor(command),
      local: () => this.#local,
      deliver: result => this.#delivery.deliver(result),
      log: this.#log,
    })
    this.ended = this.#run()
  }

  /** What the node is doing. */
  get state(): NodeState {
    return this.#state
  }

  /** The scopes in force: the gateway's, as far as this machine allows them. */
  get scopes(): string[] {
    return effectiveScopes(this.#granted, this.#local)
  }

  /** Sets what this machine allows, at once; commands that it does not allow any more are ended. */
  setScopes(local: readonly string[]): void {
    this.#local = local
    this.#runner.enforce(this.#granted)
  }

  /** Ends a command that runs; it is reported as cancelled. False: it does not run here. */
  cancel(commandId: string): boolean {
    return this.#runner.abort(commandId, cancelled('The command was cancelled on the node'))
  }

  /** Stores a rotated token and connects with it; commands go on meanwhile. */
  async useToken(token: string): Promise<void> {
    if (!token.startsWith(`${this.#identity.nodeId}.`)) throw new TypeError(`This is no token of ${this.#identity.nodeId}`)
    await this.#options.identity.save({ ...this.#identity, token })
    this.#takeUp({ ...this.#identity, token })
  }

  /** Tells the gateway about a crash. Rejects with a `GatewayError`. */
  async reportCrash(error: unknown): Promise<void> {
    const { message, stack } = error instanceof Error ? error : new Error(String(error))
    await this.#api().crash({
      message: message.slice(0, MAX_CRASH_TEXT) || 'unknown',
      ...(stack === undefined ? {} : { stack: stack.slice(0, MAX_CRASH_TEXT) }),
      version: this.#options.version,
      platform: process.platform,
      occurredAt: new Date().toISOString(),
    })
  }

  /** Ends commands that run, which are reported as cancelled, delivers what it can, and disconnects. */
  async stop(): Promise<void> {
    if (!this.#stopping.signal.aborted) {
      const { stopLimitMs } = this.#timing
      this.#runner.close(cancelled('The node was stopped'))
      await this.#runner.idle(stopLimitMs)
      await this.#delivery.flushed(stopLimitMs)
      this.#stopping.abort()
      this.#unlinking.abort()
    }
    await this.ended
  }

  async #run(): Promise<NodeEnd> {
    const unwatch = this.#options.identity.watch(() => void this.#reload())
    const checking = setInterval(() => void this.#checkIn(), Math.min(CHECK_IN_TICK_MS, this.#timing.checkInMs))
    try {
      return await this.#keepLinked()
    } finally {
      clearInterval(checking)
      unwatch()
      this.#runner.close(cancelled('The node has ended'))
      await this.#runner.idle(this.#timing.stopLimitMs)
      this.#delivery.stop()
      await this.#memory.close()
    }
  }

  async #keepLinked(): Promise<NodeEnd> {
    for (;;) {
      if (this.#stopping.signal.aborted) return 'stopped'
      this.#unlinking = new AbortController()
      const used = this.#identity
      this.#link = this.#newLink(used, this.#unlinking.signal)
      try {
        await this.#link.keep()
      } catch (error) {
        if (!(error instanceof Ended)) throw error
        await this.#reload()
        // The token was rotated just now.
        if (error.end === 'unauthenticated' && this.#identity.token !== used.token) continue
        if (error.end === 'revoked') await this.#options.identity.forget()
        this.#log('error', error.message)
        this.#setState({ kind: 'offline', reason: error.message })
        return error.end
      }
    }
  }

  #newLink(identity: Paired, signal: AbortSignal): Link {
    const { version, transport = 'auto' } = this.#options
    return new Link({
      identity,
      version,
      transport,
      timing: this.#timing,
      signal,
      log: this.#log,
      onState: state => this.#setState(state),
      onWay: (way: Way | undefined) => this.#delivery.useWay(way),
      listener: {
        onCommand: command => this.#runner.accept(command),
        onScopes: granted => {
          this.#granted = granted
          this.#runner.enforce(granted)
          return this.scopes
        },
      },
    })
  }

  /** While polling, a scope that was granted just now is heard of late; so it is asked for before a command is refused. */
  async #grantedFor(command: string): Promise<readonly string[]> {
    const isPolling = this.#state.kind === 'online' && this.#state.transport === 'polling'
    if (!isPolling || isGranted(command, this.#granted)) return this.#granted
    await this.#link?.refresh().catch((error: unknown) => {
      this.#log('warn', `the scopes could not be asked for: ${(error as Error).message}`)
      throw busy('The node could not ask for its scopes', SCOPES_RETRY_MS)
    })
    return this.#granted
  }

  async #reload(): Promise<void> {
    try {
      const identity = await this.#options.identity.load()
      if (isPaired(identity) && identity.nodeId === this.#identity.nodeId && identity.token !== this.#identity.token) this.#takeUp(identity)
    } catch (error) {
      this.#log('error', `the identity could not be read: ${(error as Error).message}`)
    }
  }

  #takeUp(identity: Paired): void {
    if (identity.token === this.#identity.token) return
    this.#log('info', 'the token has changed: connecting with the new one')
    this.#identity = identity
    this.#unlinking.abort()
  }

  /** Tells how far commands are, and asks about long ones whether they are still wanted: one of them in each turn. */
  async #checkIn(): Promise<void> {
    if (this.#state.kind !== 'online') return
    const now = Date.now()
    const running = this.#runner.running
    const ids = new Set(running.map(({ command }) => command.commandId))
    for (const id of this.#checkedIn.keys()) if (!ids.has(id)) this.#checkedIn.delete(id)
    const lastOf = ({ command, since }: Running): number => this.#checkedIn.get(command.commandId) ?? since
    const [next] = running
      .filter(one => one.progress !== undefined || now - lastOf(one) >= this.#timing.checkInMs)
      .sort((a, b) => lastOf(a) - lastOf(b))
    if (!next) return
    const { commandId } = next.command
    this.#checkedIn.set(commandId, now)
    const progress = next.progress ?? {}
    next.progress = undefined
    try {
      await this.#api().progress(commandId, progress)
    } catch (error) {
      const { code } = error as GatewayError
      if (code === 'conflict') this.#runner.abort(commandId, cancelled('The gateway has ended the command'))
      // A direct call: nobody can cancel it, so there is nothing to ask for.
      else if (code === 'not_found') this.#checkedIn.set(commandId, Infinity)
    }
  }

  #api(): GatewayApi {
    return this.#link?.api ?? new GatewayApi(this.#identity.gatewayUrl, () => this.#identity.token)
  }

  #setState(state: NodeState): void {
    this.#state = state
    this.#options.onState?.(state)
  }
}

const isPaired = (identity: NodeIdentity | undefined): identity is Paired => identity?.token !== undefined

const cancelled = (message: string): CommandError => new CommandError('cancelled', message)
