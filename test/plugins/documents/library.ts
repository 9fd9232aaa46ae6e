import assert from 'node:assert/strict'
import { cp, mkdir, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import type { Answer, CallOptions } from '../../support/gateway.js'
import { waitFor } from '../../support/waitFor.js'

const READER = fileURLToPath(new URL('../../fixtures/plugins/reader/reader.mjs', import.meta.url))

export interface Document {
  id: string
  name: string
  status: string
  reason?: string
  waitsFor?: string
  truncated?: boolean
  extractor: string | null
  title?: string
  text: string | null
}

interface Callable {
  call(method: string, path: string, options?: CallOptions): Promise<Answer>
}

/** One user's documents on a gateway. */
export class Library {
  readonly #gateway: Callable
  readonly #token: string

  constructor(gateway: Callable, token: string) {
    this.#gateway = gateway
    this.#token = token
  }

  upload(name: string, content: string | Buffer, type = ''): Promise<Answer> {
    const form = new FormData()
    form.append('file', new Blob([typeof content === 'string' ? content : new Uint8Array(content)], { type }), name)
    return this.#gateway.call('POST', '/documents/upload', { token: this.#token, body: form })
  }

  /** Uploads and returns the id. */
  async add(name: string, content: string | Buffer = 'content', type = ''): Promise<string> {
    const { status, body, text } = await this.upload(name, content, type)
    assert.equal(status, 201, text)
    return (body as Document).id
  }

  async get(id: string): Promise<Document> {
    return (await this.#gateway.call('GET', `/documents/${id}`, { token: this.#token })).body as Document
  }

  remove(id: string): Promise<Answer> {
    return this.#gateway.call('DELETE', `/documents/${id}`, { token: this.#token })
  }

  /** The document once it is read, or not to be read. */
  settled(id: string, timeoutMs?: number): Promise<Document> {
    const find = async (): Promise<Document | undefined> => {
      const document = await this.get(id)
      return document.status === 'extracting' ? undefined : document
    }
    return waitFor(`the document ${id}`, find, timeoutMs)
  }

  async read(name: string, content?: string | Buffer, type?: string): Promise<Document> {
    return this.settled(await this.add(name, content, type))
  }
}

/** The plugin that reads `.odd` files, as the data directory of a gateway holds it. */
export class Reader {
  readonly #dataDir: string

  constructor(dataDir: string) {
    this.#dataDir = dataDir
  }

  async install(version = '1.0.0'): Promise<void> {
    const directory = join(this.#dataDir, 'plugins', 'reader')
    await mkdir(directory, { recursive: true })
    await cp(READER, join(directory, 'reader.mjs'))
    const manifest = { name: 'reader', version, description: 'Reads', pluginInterface: 'DocumentExtractor', supportedExtensions: ['.odd'] }
    await writeFile(join(directory, 'manifest.json'), JSON.stringify(manifest))
  }

  /** The names of the documents that it was asked to read, in order. */
  async calls(): Promise<string[]> {
    const noted = await readFile(join(this.#own, 'calls'), 'utf8').catch(() => '')
    return noted.split('\n').slice(0, -1)
  }

  async isAsked(name: string, times = 1): Promise<void> {
    await waitFor(`${name} at the plugin`, async () => (await this.calls()).filter(call => call === name).length >= times)
  }

  /** Lets go of the documents that it holds, and of those to come. */
  async release(): Promise<void> {
    await writeFile(join(this.#own, 'go'), '')
  }

  get #own(): string {
    return join(this.#dataDir, 'plugin-data', 'reader')
  }
}
