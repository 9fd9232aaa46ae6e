import { createClient } from 'redis'
import { StartError } from '../errors.js'
import type { Log } from '../log.js'
import { registerSecret } from '../redaction.js'

/** A Redis that says nothing for this long is taken for dead: it is asked every second. */
const SILENCE_MS = 4_000
const PING_MS = 1_000
const CONNECT_LIMIT_MS = 3_000
const MIN_RETRY_MS = 50
const MAX_RETRY_MS = 1_000
/** How long a start waits for Redis; without it the gateway starts alone and is joined later. */
const START_WAIT_MS = 2_000
/** Commands that wait for their answers. */
const MAX_COMMANDS = 50_000

export type RedisClient = ReturnType<typeof connectionOf>

interface Options {
  uri: string
  log: Log
  /** The connection is there, for the first time or again. */
  onReady: () => void
  onAway: () => void
}

/**
 * The two connections to Redis, one for commands and one that listens. They come back by themselves; nothing is kept for
 * a time when they are not there. What happens to them is logged when it changes.
 */
export class RedisLink {
  readonly commands: RedisClient
  readonly #listener: RedisClient
  readonly #options: Options
  readonly #forgetPassword: () => void
  #isReady = false
  #awaySince = Date.now()
  #isClosing = false
  #isReported = false

  /** Throws a `StartError` that does not repeat the address when it cannot be one. */
  constructor(options: Options) {
    this.#options = options
    this.#forgetPassword = registerSecret(passwordIn(options.uri))
    this.commands = connectionOf(options.uri)
    this.#listener = connectionOf(options.uri)
    for (const client of [this.commands, this.#listener]) {
      client.on('ready', () => this.#look())
      client.on('error', (error: Error) => this.#look(error))
      client.on('reconnecting', () => this.#look())
    }
  }

  /** Connects, and waits a little for it. */
  async start(): Promise<void> {
    // They settle when the connection is there or closed for good; what happens meanwhile is heard as events.
    const connecting = Promise.all([this.commands, this.#listener].map(client => client.connect().catch(() => undefined)))
    let timer: NodeJS.Timeout | undefined
    await Promise.race([connecting, new Promise(resolve => (timer = setTimeout(resolve, START_WAIT_MS)))])
    clearTimeout(timer)
    if (!this.#isReady) this.#report(undefined)
  }

  get isReady(): boolean {
    return this.#isReady
  }

  /** For how long it has been away, in milliseconds; 0: it is there. */
  get awayMs(): number {
    return this.#isReady ? 0 : Math.max(1, Date.now() - this.#awaySince)
  }

  /** Runs a script; rejects when Redis is away. */
  run(script: string, keys: string[], args: string[]): Promise<unknown> {
    return this.commands.eval(script, { keys, arguments: args })
  }

  /** How many listened. */
  publish(channel: string, text: string): Promise<number> {
    return this.commands.publish(channel, text)
  }

  /** Listens until `unsubscribe`, through reconnections. Resolves once it does. */
  subscribe(channels: string[], listener: (text: string, channel: string) => void): Promise<void> {
    return this.#listener.subscribe(channels, listener)
  }

  unsubscribe(channel: string): Promise<void> {
    return this.#listener.unsubscribe(channel)
  }

  close(): void {
    this.#isClosing = true
    this.#isReady = false
    for (const client of [this.commands, this.#listener]) if (client.isOpen) client.destroy()
    this.#forgetPassword()
  }

  #look(error?: Error): void {
    const isReady = this.commands.isReady && this.#listener.isReady
    if (this.#isClosing || isReady === this.#isReady) {
      if (error && !isReady && !this.#isClosing) this.#report(error)
      return
    }
    this.#isReady = isReady
    if (isReady) {
      if (this.#isReported) this.#options.log.info('Redis is back: the gateways hear of each other again')
      this.#isReported = false
      this.#options.onReady()
    } else {
      this.#awaySince = Date.now()
      this.#options.onAway()
      this.#report(error)
    }
  }

  /** Once for each time that it is away. */
  #report(error: Error | undefined): void {
    if (this.#isReported) return
    this.#isReported = true
    const why = error === undefined || error.message === '' ? 'no connection' : error.message
    this.#options.log.warn(
      `Redis is away (${why}): this gateway goes on with its own nodes, and what is asked of the others waits in the store. Check Service:Cluster:RedisUri and the server`,
    )
  }
}

const connectionOf = (uri: string) => {
  try {
    return createClient({
      url: uri,
      socket: {
        connectTimeout: CONNECT_LIMIT_MS,
        socketTimeout: SILENCE_MS,
        reconnectStrategy: retries => Math.min(MIN_RETRY_MS * 2 ** Math.min(retries, 10), MAX_RETRY_MS) * (0.75 + Math.random() / 2),
      },
      pingInterval: PING_MS,
      disableOfflineQueue: true,
      commandsQueueMaxLength: MAX_COMMANDS,
      maintNotifications: 'disabled',
      disableClientInfo: true,
      name: 'agent-gateway',
    })
  } catch {
    // The library's own message may repeat the address, with the password in it.
    throw new StartError(
      'Service:Cluster:RedisUri cannot be read: write redis://USER:PASSWORD@HOST:PORT/DATABASE or rediss://..., with special characters as percent-encodings',
    )
  }
}

const passwordIn = (uri: string): string => {
  try {
    return decodeURIComponent(new URL(uri).password)
  } catch {
    return ''
  }
}
