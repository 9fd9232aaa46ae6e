import type { ReadStream } from 'node:fs'
import { notFound, payloadTooLarge } from '../../core/errors.js'
import type { UploadedFile } from '../../core/http/route.js'
import { newId } from '../../core/id.js'
import type { Filter, Owner, Page, PageOptions, ScopedHandle } from '../../core/store/collection.js'
import type { Blobs } from './blobs.js'
import type { DocumentHit, Documents } from './contract.js'
import type { Extraction } from './extraction.js'
import { extensionOf } from './formats.js'
import type { Jobs } from './jobs.js'
import type { Passages } from './passages.js'
import type { DocumentRow } from './rows.js'

interface Parts {
  rows: ScopedHandle<DocumentRow>
  jobs: Jobs
  blobs: Blobs
  passages: Passages
  extraction: Extraction
  /** What one user's documents may take, in bytes. */
  maxBytesPerUser: () => number
}

/** People's documents: kept as they came, their texts extracted in the background. */
export class DocumentService implements Documents {
  readonly #parts: Parts

  constructor(parts: Parts) {
    this.#parts = parts
  }

  /** Keeps an uploaded file. Once this resolves, file, record and the work to do survive a crash. */
  async upload(owner: Owner, { name, mimeType, size, path }: UploadedFile): Promise<DocumentRow> {
    await this.#checkQuota(owner, size)
    const now = new Date().toISOString()
    const extension = extensionOf(name)
    const row: DocumentRow = {
      id: newId('doc'),
      name,
      extension,
      mimeType,
      size,
      version: 1,
      status: 'extracting',
      extractor: null,
      createdAt: now,
      updatedAt: now,
    }
    const { blobs, jobs, rows, extraction } = this.#parts
    await blobs.keep(row.id, row.version, path)
    try {
      // The job first: without its document it is dropped, while a document without its job would wait for ever.
      await jobs.add(owner, row)
      await rows.for(owner).insertOne(row)
    } catch (error) {
      await blobs.remove(row.id)
      await jobs.takeBack(row.id)
      throw error
    }
    extraction.wake()
    return row
  }

  list(owner: Owner, filter: Filter<DocumentRow>, options: PageOptions): Promise<Page<DocumentRow>> {
    return this.#parts.rows.for(owner).page(filter, options)
  }

  async get(owner: Owner, id: string): Promise<DocumentRow & { text: string | null }> {
    const row = await this.#find(owner, id)
    return { ...row, text: row.status === 'ready' ? await this.#parts.blobs.readText(id, row.version) : null }
  }

  async download(owner: Owner, id: string): Promise<{ document: DocumentRow; content: ReadStream }> {
    const document = await this.#find(owner, id)
    return { document, content: this.#parts.blobs.read(id, document.version) }
  }

  async remove(owner: Owner, id: string): Promise<void> {
    const { rows, jobs, passages, blobs, extraction } = this.#parts
    const document = await this.#find(owner, id)
    // The job keeps what is still to be removed, over a crash too, and takes the document from whoever reads it.
    await jobs.remove(owner, document)
    extraction.cancel(id)
    const existed = await rows.for(owner).deleteOne({ id })
    await passages.remove(owner, id)
    await blobs.remove(id)
    await jobs.removed(id)
    if (!existed) throw notFound('Document')
  }

  search(owner: Owner, query: string, limit: number): Promise<DocumentHit[]> {
    return this.#parts.passages.search(owner, query, limit)
  }

  async text(owner: Owner, id: string): Promise<{ name: string; text: string | null }> {
    const { name, text } = await this.get(owner, id)
    return { name, text }
  }

  async #find(owner: Owner, id: string): Promise<DocumentRow> {
    const row = await this.#parts.rows.for(owner).findOne({ id })
    if (!row) throw notFound('Document')
    return row
  }

  async #checkQuota(owner: Owner, size: number): Promise<void> {
    const max = this.#parts.maxBytesPerUser()
    const [used] = await this.#parts.rows.for(owner).aggregate<{ bytes: number }>([{ $group: { _id: null, bytes: { $sum: '$size' } } }])
    if ((used?.bytes ?? 0) + size > max) throw payloadTooLarge('With this document, what you keep here', max)
  }
}
