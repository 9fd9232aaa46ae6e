import { randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { createReadStream, type ReadStream } from 'node:fs'
import { access, copyFile, mkdir, open, readdir, rename, rm, stat, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { diskFull, GatewayError } from '../../core/errors.js'
import { isDiskFull, syncDirectory } from '../../core/files.js'
import { newId } from '../../core/id.js'
import type { ByteRange } from './byteRange.js'

/**
 * The documents' bytes and texts, as files: `<root>/<document id>/v<version>` and `.txt` beside it. No name comes
 * from a user. What `keep` resolved for survives a power cut.
 */
export class Blobs {
  readonly #root: string

  constructor(root: string) {
    this.#root = root
  }

  path(id: string, version: number): string {
    return join(this.#root, id, `v${version}`)
  }

  async has(id: string, version: number): Promise<boolean> {
    return access(this.path(id, version)).then(
      () => true,
      () => false,
    )
  }

  /** Writes bytes that did not come as an upload to a file that `keep` can take over. What a crash leaves of it is swept. */
  async receive(bytes: Buffer): Promise<string> {
    const path = join(this.#root, `${newId('doc')}.received`)
    try {
      await writeFile(path, bytes, { mode: 0o600, flag: 'wx' })
      return path
    } catch (error) {
      await rm(path, { force: true })
      throw isDiskFull(error) ? diskFull(error) : error
    }
  }

  /** Takes over a file that was received; from another disk it is copied. Leaves nothing behind when it fails. */
  async keep(id: string, version: number, received: string): Promise<void> {
    const target = this.path(id, version)
    try {
      await mkdir(dirname(target), { recursive: true, mode: 0o700 })
      await sync(received)
      await move(received, target)
      await syncDirectory(dirname(target))
      await syncDirectory(this.#root)
    } catch (error) {
      await this.remove(id)
      throw isDiskFull(error) ? diskFull(error) : error
    }
  }

  /** The bytes, or a part of them. Throws `service_unavailable` when the file is not here. */
  async open(id: string, version: number, range: ByteRange | undefined): Promise<ReadStream> {
    const stream = createReadStream(this.path(id, version), range)
    try {
      await once(stream, 'open')
      return stream
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error
      throw new GatewayError('service_unavailable', 'The file of this document is not in the documents directory of this gateway', {
        cause: error,
      })
    }
  }

  /** Where a text can be written, to be kept then. */
  draft(id: string, version: number): string {
    return `${this.path(id, version)}.txt.${randomUUID()}${DRAFT_ENDING}`
  }

  /** Makes a written and synced draft the document's text. */
  async keepText(id: string, version: number, draft: string): Promise<void> {
    await rename(draft, this.#textPath(id, version))
    await syncDirectory(dirname(draft))
  }

  /** The text from its beginning, in pieces; `null`: there is none. */
  async openText(id: string, version: number): Promise<AsyncIterable<string> | null> {
    const stream = createReadStream(this.#textPath(id, version), { encoding: 'utf8', highWaterMark: PIECE_BYTES })
    try {
      await once(stream, 'open')
      return stream as AsyncIterable<string>
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code === 'ENOENT') return null
      throw error
    }
  }

  /** The beginning of the text, up to so many characters; `null`: there is none. */
  async readText(id: string, version: number, maxLength: number): Promise<string | null> {
    const pieces = await this.openText(id, version)
    if (!pieces) return null
    let text = ''
    for await (const piece of pieces) {
      text += piece
      if (text.length >= maxLength) break
    }
    return text.slice(0, maxLength)
  }

  async remove(id: string): Promise<void> {
    await rm(join(this.#root, id), { recursive: true, force: true })
  }

  /** Removes drafts of texts that were not kept. */
  async tidy(id: string): Promise<void> {
    const names = await readdir(join(this.#root, id)).catch((error: unknown) => {
      if ((error as NodeJS.ErrnoException).code === 'ENOENT') return []
      throw error
    })
    const drafts = names.filter(name => name.endsWith(DRAFT_ENDING))
    await Promise.all(drafts.map(name => rm(join(this.#root, id, name), { force: true })))
  }

  /**
   * Removes what no record knows: the rest of uploads and removals that a crash cut off. What is younger than an hour
   * stays: it may be an upload whose record comes next, also one of another gateway on the same directory.
   */
  async sweep(isKnown: (ids: string[]) => Promise<ReadonlySet<string>>): Promise<number> {
    const names = await this.#olderThan(Date.now() - ORPHAN_AGE_MS)
    let removed = 0
    for (let at = 0; at < names.length; at += SWEEP_BATCH) {
      const batch = names.slice(at, at + SWEEP_BATCH)
      const known = await isKnown(batch)
      const orphans = batch.filter(name => !known.has(name))
      await Promise.all(orphans.map(name => this.remove(name)))
      removed += orphans.length
    }
    return removed
  }

  async #olderThan(time: number): Promise<string[]> {
    const old: string[] = []
    const documents = (await readdir(this.#root)).filter(name => name.startsWith(ID_PREFIX))
    for (const name of documents) {
      const found = await stat(join(this.#root, name)).catch(() => undefined)
      if (found && found.mtimeMs < time) old.push(name)
    }
    return old
  }

  #textPath(id: string, version: number): string {
    return `${this.path(id, version)}.txt`
  }
}

/** What has another name was put there by someone else. */
const ID_PREFIX = 'doc_'
const SWEEP_BATCH = 500
const ORPHAN_AGE_MS = 3_600_000

/** Of a text, read between two turns of the event loop. */
const PIECE_BYTES = 64 * 1024
const DRAFT_ENDING = '.tmp'

const sync = async (file: string): Promise<void> => {
  const handle = await open(file, 'r+')
  try {
    await handle.sync()
  } finally {
    await handle.close()
  }
}

const move = async (from: string, to: string): Promise<void> => {
  try {
    await rename(from, to)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EXDEV') throw error
    await copyFile(from, to)
    await sync(to)
  }
}
