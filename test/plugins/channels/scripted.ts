import assert from 'node:assert/strict'
import { cp, mkdir, mkdtemp, readFile, rename, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import type { Plugin } from '../../../core/plugin.js'
import type { CollectionSpec, Document } from '../../../core/store/collection.js'
import { openStore } from '../../../core/store/open.js'
import { login, startGateway, type Answer, type CallOptions, type TestGateway } from '../../support/gateway.js'
import { openCollection } from '../../support/store.js'
import { waitFor } from '../../support/waitFor.js'

const FIXTURE = fileURLToPath(new URL('../../fixtures/plugins/scripted/scripted.mjs', import.meta.url))

export const TOKEN = 'a-token-that-must-not-be-seen'

/** What the fixture is to do; `times`: only on the first tries of a delivery. */
export interface Wish {
  act?: 'crash' | 'hang' | 'reject' | 'fail' | 'throw'
  slowMs?: number
  status?: number
  body?: string
  times?: number
  message?: string
  data?: Record<string, unknown>
}

export interface Message {
  id: string
  chatId?: string
  text?: string
  wish?: Wish
  onSend?: Wish
}

/** A line of the fixture's journal. */
export interface Noted {
  at: number
  pid: number
  version: string
  method: string
  channelId: string
  deliveryId: string
  messageId: string
  recipient: string
  text: string
  http: string
  headers: Record<string, string>
  query: Record<string, string>
  body: string
  bodyEncoding: string
  cursor?: string
  accepted?: number
  error?: { code: number; data?: { retryable?: boolean; retryAfterMs?: number } }
  settings: Record<string, string>
}

export interface ManifestWishes {
  version?: string
  channelType?: string
  settings?: unknown[]
  metadata?: { connect?: Wish; exitAfterConnect?: number }
}

/** Writes a plugin folder with the fixture, or a new version of it: the program first, the manifest last and at once. */
export const addScripted = async (dataDir: string, id = 'scripted', wishes: ManifestWishes = {}): Promise<void> => {
  const directory = join(dataDir, 'plugins', id)
  await mkdir(directory, { recursive: true })
  await cp(FIXTURE, join(directory, `${id}.mjs`))
  const manifest = {
    name: id,
    version: '1.0.0',
    pluginInterface: 'ChannelAdapter',
    channelType: id,
    settings: [
      { name: 'token', type: 'secret', required: true },
      { name: 'info' },
      { name: 'onConnect' },
      { name: 'onTest' },
      { name: 'polled' },
      { name: 'reports' },
      { name: 'pin', type: 'secret' },
    ],
    ...wishes,
  }
  await writeFile(join(directory, 'manifest.new'), JSON.stringify(manifest))
  await rename(join(directory, 'manifest.new'), join(directory, 'manifest.json'))
}

export const journalOf = async (dataDir: string, id = 'scripted'): Promise<Noted[]> => {
  const text = await readFile(join(dataDir, 'plugin-data', id, 'journal.jsonl'), 'utf8').catch(() => '')
  // What follows the last end of a line is being written.
  return text
    .split('\n')
    .slice(0, -1)
    .map(line => JSON.parse(line) as Noted)
}

export interface Added {
  id: string
  webhookUrl: string
}

/** A gateway in this process with scripted channels, as one user sees it. */
export class ScriptedGateway {
  readonly dataDir: string
  gateway!: TestGateway
  token = ''
  #settings: Record<string, string> = {}
  #plugins: readonly Plugin[] | undefined

  private constructor(dataDir: string) {
    this.dataDir = dataDir
  }

  /** `external`: the plugins of the fixture; `internal`: those of the gateway, when they are others than usual. */
  static async start(
    settings: Record<string, string> = {},
    external: Record<string, ManifestWishes> = { scripted: {} },
    internal?: readonly Plugin[],
  ): Promise<ScriptedGateway> {
    const dataDir = await mkdtemp(join(tmpdir(), 'channels-test-'))
    const scripted = new ScriptedGateway(dataDir)
    for (const [id, wishes] of Object.entries(external)) await addScripted(dataDir, id, wishes)
    scripted.#plugins = internal
    await scripted.begin(settings)
    return scripted
  }

  /** Starts on the same data. */
  async begin(settings = this.#settings): Promise<void> {
    this.#settings = settings
    const plugins = this.#plugins ? { plugins: this.#plugins } : {}
    this.gateway = await startGateway({ dataDir: this.dataDir, settings: { 'Service:Plugins:Enabled': 'true', ...settings }, ...plugins })
    this.token = await login(this.gateway)
  }

  /** Every document of a collection of the stopped gateway. */
  async records(plugin: string, name: string, spec: CollectionSpec<Document>): Promise<Record<string, unknown>[]> {
    const store = await openStore({ dataDir: this.dataDir })
    try {
      const handle = await openCollection(store, `${plugin}.${name}`, spec)
      return (await ('everyone' in handle ? handle.everyone : handle).find({})) as unknown as Record<string, unknown>[]
    } finally {
      await store.close()
    }
  }

  async stop(): Promise<void> {
    await this.gateway.stop({ keep: true })
    await rm(this.dataDir, { recursive: true, force: true, maxRetries: 5 })
  }

  call(method: string, path: string, body?: unknown, options: CallOptions = {}): Promise<Answer> {
    return this.gateway.call(method, path, { token: this.token, ...(body === undefined ? {} : { body }), ...options })
  }

  async expect(status: number, method: string, path: string, body?: unknown): Promise<Answer['body']> {
    const answer = await this.call(method, path, body)
    assert.equal(answer.status, status, `${method} ${path}: ${answer.text}`)
    return answer.body
  }

  plugin(id = 'scripted'): Promise<Answer['body']> {
    return this.call('GET', `/plugins/${id}`).then(({ body }) => body)
  }

  untilPlugin(id: string, what: string, condition: (plugin: Answer['body']) => boolean): Promise<unknown> {
    return waitFor(`the plugin ${id} to be ${what}`, async () => condition(await this.plugin(id)))
  }

  /** Adds a channel once its type is there, and waits until it is in the state. */
  async addChannel(
    settings: Record<string, unknown> = {},
    { type = 'scripted', status = 'connected', ...more }: { type?: string; status?: string; agentId?: string } = {},
  ): Promise<Added> {
    const body = { type, name: 'test', settings: { token: TOKEN, ...settings }, ...more }
    const added = await waitFor('the channel type', async () => {
      const answer = await this.call('POST', '/channels', body)
      return answer.status === 201 ? (answer.body as Added) : undefined
    })
    if (status !== '') await this.until(added.id, status, channel => channel.status === status)
    return added
  }

  channel(id: string): Promise<Answer['body']> {
    return this.expect(200, 'GET', `/channels/${id}`)
  }

  until(id: string, what: string, condition: (channel: Answer['body']) => boolean, timeoutMs?: number): Promise<Answer['body']> {
    return waitFor(
      `the channel to be ${what}`,
      async () => {
        const channel = await this.channel(id)
        return condition(channel) ? (channel as object) : undefined
      },
      timeoutMs,
    )
  }

  post({ webhookUrl }: Added, message: Message | { messages: Message[] } | string): Promise<Response> {
    const body = typeof message === 'string' ? message : JSON.stringify('messages' in message ? message : { chatId: '1', ...message })
    return fetch(webhookUrl, { method: 'POST', body, headers: { 'Content-Type': 'application/json' } })
  }

  journal(id?: string): Promise<Noted[]> {
    return journalOf(this.dataDir, id)
  }

  /** Replies that the platform took, in order. */
  async sent(id?: string): Promise<Noted[]> {
    return (await this.journal(id)).filter(({ method }) => method === 'sent')
  }

  untilSent(count: number, id?: string, timeoutMs?: number): Promise<Noted[]> {
    return waitFor(
      `${String(count)} replies`,
      async () => {
        const sent = await this.sent(id)
        return sent.length >= count ? sent : undefined
      },
      timeoutMs,
    )
  }

  /** Waits until nothing is under way for the channel any more. */
  untilIdle(id: string, timeoutMs?: number): Promise<Answer['body']> {
    return this.until(id, 'idle', ({ inbox, outbox }) => inbox.waiting === 0 && outbox.waiting === 0, timeoutMs)
  }

  /** Another user, without any role but `User`. */
  async otherUser(email = 'other@example.com'): Promise<string> {
    const password = 'another long password'
    await this.expect(201, 'POST', '/admin/users', { email, name: email, password, roles: ['User'] })
    return login(this.gateway, { email, password })
  }
}
