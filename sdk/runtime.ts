import { createLog, type PluginLog } from './log.js'
import { checkParams } from './params.js'
import { PROTOCOL_VERSIONS, RpcErrorCode, type HostRequests, type InitializeParams, type PluginNotifications } from './protocol.js'
import type { PluginRequests, SharedNotifications } from './protocol.js'
import { Peer, RpcError, type HandlerContext, type Handlers, type PeerInput, type PeerOutput } from './rpc.js'
import { isTerminal, Stdio } from './stdio.js'

/** A plugin's end of the connection. */
export type PluginPeer = Peer<PluginRequests, HostRequests, PluginNotifications, SharedNotifications>

/** What the kinds of plugin are built on. */
export interface PluginHost {
  readonly peer: PluginPeer
  readonly log: PluginLog
  /** The plugin's own writable directory. */
  readonly dataDir: string
}

/** What a kind of plugin does once the handshake is over. */
export interface PluginService {
  handlers: Handlers<HostRequests>
  /** Ends everything under way. Called once, when the gateway stops the plugin or is gone. */
  stop(): Promise<void>
}

/** A plugin, as `defineChannelAdapter` and the other `define` functions return it. */
export interface PluginDefinition {
  readonly kind: 'channel' | 'extractor' | 'model provider' | 'embedding provider'
  serve(host: PluginHost): PluginService
}

export interface ServeOptions {
  input: PeerInput
  output: PeerOutput
  /** Called once everything is over: `code` is the exit code. */
  onEnd: (code: number) => void
  /** What this plugin speaks. Default: all this SDK speaks. */
  protocolVersions?: readonly string[]
}

/** The host's stop ladder waits 5 s for the answer to a shutdown, and 2 s after the end of stdin. */
const SHUTDOWN_MS = 3000
const ABANDONED_MS = 1000

type HandlerOf<M extends keyof HostRequests> = NonNullable<Handlers<HostRequests>[M]>
type AnyHandlerOf = (params: unknown, context: HandlerContext) => unknown

/** Serves a plugin over any two streams. Returns its peer. */
export function servePlugin(definition: PluginDefinition, options: ServeOptions): PluginPeer {
  const { input, output, onEnd, protocolVersions = PROTOCOL_VERSIONS } = options
  let service: PluginService | undefined
  let ending = false

  const end = async (code: number, withinMs: number): Promise<void> => {
    if (ending) return
    ending = true
    await within(withinMs, service?.stop())
    // The answer to the shutdown leaves in this turn.
    setImmediate(() => {
      void within(ABANDONED_MS, peer.flush()).then(() => {
        peer.close('the plugin has stopped')
        onEnd(code)
      })
    })
  }

  const forward = <M extends keyof HostRequests>(method: M): HandlerOf<M> =>
    ((params, context) => {
      if (!service) throw new RpcError(RpcErrorCode.invalidRequest, `${method} came before plugin.initialize`)
      const handler = service.handlers[method] as AnyHandlerOf | undefined
      if (!handler) throw new RpcError(RpcErrorCode.methodNotFound, `${method}: this plugin is of another kind (${definition.kind})`)
      checkParams(method, params as object)
      return handler(params, context)
    }) satisfies AnyHandlerOf as unknown as HandlerOf<M>

  const peer: PluginPeer = new Peer<PluginRequests, HostRequests, PluginNotifications, SharedNotifications>({
    input,
    output,
    exposeErrors: true,
    alwaysServed: ['plugin.initialize', 'plugin.ping', 'plugin.shutdown'],
    handlers: {
      'plugin.initialize': params => {
        if (service) throw new RpcError(RpcErrorCode.invalidRequest, 'plugin.initialize came twice')
        const protocolVersion = negotiate(params, protocolVersions)
        service = definition.serve({ peer, log, dataDir: params.dataDir })
        return { protocolVersion }
      },
      'plugin.ping': () => ({}),
      'plugin.shutdown': async () => {
        await end(0, SHUTDOWN_MS)
        return {}
      },
      'channel.connect': forward('channel.connect'),
      'channel.disconnect': forward('channel.disconnect'),
      'channel.test': forward('channel.test'),
      'channel.webhook': forward('channel.webhook'),
      'channel.send': forward('channel.send'),
      'extractor.extract': forward('extractor.extract'),
      'model.generate': forward('model.generate'),
      'model.list': forward('model.list'),
      'embedding.embed': forward('embedding.embed'),
    },
    onNoise: line => process.stderr.write(`The gateway sent what is no message: ${line}\n`),
    onHandlerError: (method, error) => process.stderr.write(`${method} failed: ${describe(error)}\n`),
    onClose: reason => void end(reason === 'the other side ended the connection' ? 0 : 1, ABANDONED_MS),
  })
  const log = createLog(line => peer.notify('log', line))
  return peer
}

let started: PluginDefinition | undefined

/** Set by the test kit: definitions are then started by it and not by themselves. */
const underTest = Symbol.for('@agent-gateway/sdk/underTest')

/** Called by the test kit when it is loaded. */
export function holdDefinitions(): void {
  ;(globalThis as Record<symbol, unknown>)[underTest] = true
}

/** Starts a definition at the next tick, as the one plugin of this process, unless the test kit is loaded. */
export function startSoon(definition: PluginDefinition): void {
  process.nextTick(() => {
    if ((globalThis as Record<symbol, unknown>)[underTest] === true) return
    if (started) throw new Error('A process is one plugin: only one of the define functions may be called, and once')
    started = definition
    runPlugin(definition)
  })
}

/** Runs the plugin on this process's stdin and stdout, until the gateway stops it or is gone. */
function runPlugin(definition: PluginDefinition): void {
  if (isTerminal()) {
    process.stderr.write('This is a plugin of Agent Gateway: the gateway starts it. Put its folder into a plugin directory.\n')
    process.exitCode = 2
    return
  }
  const stdio = new Stdio()
  const { input, output } = stdio
  const peer = servePlugin(definition, { input, output, onEnd: code => process.exit(code) })
  process.on('uncaughtException', (error, origin) => {
    process.stderr.write(`${origin}: ${describe(error)}\n`)
    if (peer.closed === undefined)
      peer.notify('log', { level: 'error', message: `${origin}: ${error instanceof Error ? error.message : String(error)}` })
    void within(ABANDONED_MS, peer.flush()).then(() => process.exit(1))
  })
  // Not before: while it waits for the first line, nothing here could answer a signal, and the system ends it.
  const heedSignals = (): void => {
    // Ctrl-C in a terminal reaches the whole group: the gateway then stops its plugins in order.
    process.on('SIGINT', () => undefined)
    process.on('SIGTERM', () => peer.close('the other side ended the connection'))
  }
  stdio.begin(heedSignals, () => void peer.flush())
}

/** The first of the host's, which come newest first, that the plugin speaks too. */
function negotiate({ protocolVersions }: InitializeParams, spoken: readonly string[]): string {
  const offered = Array.isArray(protocolVersions) ? (protocolVersions as unknown[]) : []
  const common = offered.find(version => typeof version === 'string' && spoken.includes(version))
  if (typeof common === 'string') return common
  const [theirs, ours] = [offered.slice(0, 10).map(String).join(', '), spoken.join(', ')]
  throw new RpcError(RpcErrorCode.rejected, `No common protocol version: the gateway speaks ${theirs || 'none'}, this plugin ${ours}`)
}

/** Waits for `work`, at most so long. A failure is reported, not passed on: what ends, ends. */
async function within(milliseconds: number, work: Promise<unknown> | undefined): Promise<void> {
  if (work === undefined) return
  let timer: NodeJS.Timeout | undefined
  const late = new Promise<void>(resolve => {
    timer = setTimeout(resolve, milliseconds)
  })
  const done = work.catch((error: unknown) => void process.stderr.write(`Stopping failed: ${describe(error)}\n`))
  await Promise.race([done, late])
  clearTimeout(timer)
}

const describe = (error: unknown): string => (error instanceof Error ? (error.stack ?? error.message) : String(error))
