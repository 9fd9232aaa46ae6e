import { copyFile, mkdir, readFile, stat, writeFile } from 'node:fs/promises'
import { basename, extname, join } from 'node:path'
import type { Manifest } from './manifest.js'
import type {
  ChannelStatusParams,
  ChannelTestResult,
  ExtractParams,
  GenerateDeltaParams,
  GenerateParams,
  GenerateToolCall,
  GenerateUsage,
  HostRequests,
  InboundMessage,
  LogParams,
} from './protocol.js'
import type { PluginNotifications, PluginRequests, SharedNotifications } from './protocol.js'
import { Peer } from './rpc.js'
import { TestChannel, type HostPeer } from './testChannel.js'
import type { Launched, PluginExit } from './testLaunch.js'

interface Surroundings {
  manifest: Manifest | undefined
  dataDir: string
  temporary: string
  removeTemporary: () => Promise<void>
}

const HANDSHAKE_MS = 10_000
const STOP_MS = 5000

/** A plugin under test. */
export class RunningPlugin {
  /** For calls that have no method here. */
  readonly peer: HostPeer
  /** As the gateway reads it; absent when a definition or an entry file was started. */
  readonly manifest: Manifest | undefined
  readonly dataDir: string
  readonly pid: number | undefined
  readonly exited: Promise<PluginExit>
  /** What the plugin logged through the protocol. */
  readonly logs: LogParams[] = []
  readonly statuses: ChannelStatusParams[] = []
  /** Lines on its stdout that were no message. */
  readonly noise: string[] = []
  #protocolVersion = ''
  readonly #launched: Launched
  readonly #surroundings: Surroundings
  readonly #channels = new Map<string, TestChannel>()
  readonly #deltas = new Map<string, string[]>()
  #lastNumber = 0

  constructor(launched: Launched, surroundings: Surroundings) {
    this.#launched = launched
    this.#surroundings = surroundings
    this.manifest = surroundings.manifest
    this.dataDir = surroundings.dataDir
    this.pid = launched.pid
    this.peer = new Peer<HostRequests, PluginRequests, SharedNotifications, PluginNotifications>({
      input: launched.input,
      output: launched.output,
      handlers: { 'channel.receive': ({ channelId, messages, cursor }) => ({ accepted: this.#receive(channelId, messages, cursor) }) },
      listeners: {
        log: line => this.logs.push(line),
        'channel.status': status => this.statuses.push(status),
        'model.delta': ({ generationId, text }: GenerateDeltaParams) => this.#deltas.get(generationId)?.push(text),
      },
      onNoise: line => this.noise.push(line),
    })
    this.exited = launched.exited.then(async exit => {
      this.peer.close('the plugin has ended')
      await surroundings.removeTemporary()
      return exit
    })
  }

  /** The last 64 KiB of the process's stderr. */
  get stderr(): string {
    return this.#launched.stderr()
  }

  /** What the handshake settled on. */
  get protocolVersion(): string {
    return this.#protocolVersion
  }

  /** Done by `startPlugin`. */
  async handshake(protocolVersions: readonly string[]): Promise<void> {
    const plugin = { id: this.manifest?.name ?? 'plugin', version: this.manifest?.version ?? '0.0.0' }
    const params = { protocolVersions: [...protocolVersions], plugin, host: { name: 'test kit', version: '0.0.0' }, dataDir: this.dataDir }
    try {
      const { protocolVersion } = await this.peer.request('plugin.initialize', params, { timeoutMs: HANDSHAKE_MS })
      if (!protocolVersions.includes(protocolVersion))
        throw new Error(`it chose the protocol version ${protocolVersion}, which was not offered`)
      this.#protocolVersion = protocolVersion
    } catch (error) {
      this.kill('SIGKILL')
      await this.exited
      throw new Error(`The plugin did not come up: ${(error as Error).message}\n${this.stderr}`, { cause: error })
    }
  }

  /** Connects a channel. Settings default to the manifest's defaults; rejects as `connect` of the adapter does. */
  async connect(
    options: { channelId?: string; settings?: Record<string, string>; webhookUrl?: string; cursor?: string } = {},
  ): Promise<TestChannel> {
    const channelId = options.channelId ?? `chn_${++this.#lastNumber}`
    const channel = new TestChannel(this.peer, channelId, this.manifest?.recipientMetadataKey ?? 'chatId')
    this.#channels.set(channelId, channel)
    channel.info = (
      await this.peer.request('channel.connect', {
        channelId,
        settings: { ...this.#defaults(), ...options.settings },
        webhookUrl: options.webhookUrl ?? `http://127.0.0.1/api/webhooks/receive/${channelId}`,
        ...(options.cursor === undefined ? {} : { cursor: options.cursor }),
      })
    ).info
    return channel
  }

  /** Has the adapter try settings without connecting. */
  testSettings(settings: Record<string, string>, webhookUrl = 'http://127.0.0.1/api/webhooks/receive/test'): Promise<ChannelTestResult> {
    return this.peer.request('channel.test', { channelId: 'chn_test', settings: { ...this.#defaults(), ...settings }, webhookUrl })
  }

  /** Has a document read, by path or by content. The plugin gets a private copy; a text given by file is read. */
  async extract(
    document: string | { name: string; content: string | Uint8Array },
    options: { mimeType?: string; signal?: AbortSignal; timeoutMs?: number } = {},
  ): Promise<{ text: string; title?: string; byFile: boolean }> {
    const { mimeType = 'application/octet-stream', ...requestOptions } = options
    const params = await this.#copy(document, mimeType)
    const { text, textPath, title } = await this.peer.request('extractor.extract', params, requestOptions)
    if ((text === undefined) === (textPath === undefined)) throw new Error('The answer must have exactly one of text and textPath')
    const whole = text ?? (await readFile(textPath as string, 'utf8'))
    return { text: whole, byFile: text === undefined, ...(title === undefined ? {} : { title }) }
  }

  /** Has a model provider answer: a question, or whatever of the protocol's params matters to the test. */
  async generate(
    request: string | Partial<Omit<GenerateParams, 'generationId'>>,
    options: { signal?: AbortSignal; timeoutMs?: number } = {},
  ): Promise<TestAnswer> {
    const asked = typeof request === 'string' ? { messages: [{ role: 'user' as const, content: request }] } : request
    const generationId = `gen_${++this.#lastNumber}`
    const pieces: string[] = []
    this.#deltas.set(generationId, pieces)
    try {
      const settings = { ...this.#defaults(), ...asked.settings }
      const params = { model: '', messages: [], ...asked, settings, generationId }
      const { text = '', toolCalls = [], usage } = await this.peer.request('model.generate', params, options)
      return { text: pieces.join('') + text, pieces, toolCalls, ...(usage === undefined ? {} : { usage }) }
    } finally {
      this.#deltas.delete(generationId)
    }
  }

  /** The names that a model provider lists. */
  async listModels(settings: Record<string, string> = {}): Promise<string[]> {
    return (await this.peer.request('model.list', { settings: { ...this.#defaults(), ...settings } })).models
  }

  /** Has an embedding provider make vectors. */
  async embed(
    texts: string[],
    options: { purpose?: 'query' | 'document'; settings?: Record<string, string>; signal?: AbortSignal; timeoutMs?: number } = {},
  ): Promise<Float32Array[]> {
    const { purpose = 'document', settings, ...requestOptions } = options
    const params = { texts, purpose, settings: { ...this.#defaults(), ...settings } }
    const { vectors } = await this.peer.request('embedding.embed', params, requestOptions)
    return vectors.map(decodeVector)
  }

  /** Asks the plugin to end, and kills it after 5 s. Resolves with how it ended. */
  async stop(): Promise<PluginExit> {
    if (this.peer.closed === undefined) {
      // The exit tells what became of it: a plugin that dies over its shutdown answers nothing.
      await this.peer.request('plugin.shutdown', { reason: 'the test is over' }, { timeoutMs: STOP_MS }).catch(() => undefined)
    }
    const timer = setTimeout(() => this.kill('SIGKILL'), STOP_MS)
    this.endInput()
    const exit = await this.exited
    clearTimeout(timer)
    return exit
  }

  /** Closes the plugin's stdin, as the gateway's death does. */
  endInput(): void {
    this.#launched.endInput()
  }

  kill(signal?: NodeJS.Signals): void {
    this.#launched.kill(signal)
  }

  #receive(channelId: string, messages: InboundMessage[], cursor: string | undefined): number {
    const channel = this.#channels.get(channelId)
    return channel ? channel.take(messages, cursor) : 0
  }

  #defaults(): Record<string, string> {
    return Object.fromEntries(
      (this.manifest?.settings ?? []).flatMap(({ name, default: value }) => (value === undefined ? [] : [[name, value]])),
    )
  }

  async #copy(document: string | { name: string; content: string | Uint8Array }, mimeType: string): Promise<ExtractParams> {
    const name = typeof document === 'string' ? basename(document) : document.name
    const folder = join(this.#surroundings.temporary, `call-${++this.#lastNumber}`)
    const outputDir = join(folder, 'output')
    await mkdir(outputDir, { recursive: true })
    const path = join(folder, `document${extname(name)}`)
    if (typeof document === 'string') await copyFile(document, path)
    else await writeFile(path, document.content)
    return { path, name, extension: extname(name).toLowerCase(), mimeType, size: (await stat(path)).size, outputDir }
  }
}

/** What a model provider answered. */
export interface TestAnswer {
  /** All of it. */
  text: string
  /** What was said before the answer itself, piece by piece. */
  pieces: string[]
  toolCalls: GenerateToolCall[]
  usage?: GenerateUsage
}

function decodeVector(base64: string): Float32Array {
  const bytes = Buffer.from(base64, 'base64')
  return Float32Array.from({ length: bytes.length / 4 }, (_, index) => bytes.readFloatLE(index * 4))
}
