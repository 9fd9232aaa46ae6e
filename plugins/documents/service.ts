import type { ReadStream } from 'node:fs'
import { rm } from 'node:fs/promises'
import { notFound } from '../../core/errors.js'
import type { UploadedFile } from '../../core/http/route.js'
import { newId } from '../../core/id.js'
import type { Filter, Owner, Page, PageOptions, ScopedHandle } from '../../core/store/collection.js'
import type { Blobs } from './blobs.js'
import type { ByteRange } from './byteRange.js'
import type { DocumentHit, Documents, NewDocument } from './contract.js'
import type { Extraction } from './extraction.js'
import { extensionOf } from './formats.js'
import type { Jobs } from './jobs.js'
import type { Passages } from './passages.js'
import type { Quota } from './quota.js'
import type { DocumentRow } from './rows.js'

interface Parts {
  rows: ScopedHandle<DocumentRow>
  jobs: Jobs
  blobs: Blobs
  passages: Passages
  extraction: Extraction
  quota: Quota
}

/** A document's bytes. */
export interface DocumentFile {
  document: DocumentRow
  /** All of them, or a part. Throws `service_unavailable` when they are not here. */
  open: (range?: ByteRange) => Promise<ReadStream>
}

/** People's documents: kept as they came, their texts extracted in the background. */
export class DocumentService implements Documents {
  readonly #parts: Parts

  constructor(parts: Parts) {
    this.#parts = parts
  }

  /** Keeps an uploaded file. Once this resolves, file, record and the work to do survive a crash. */
  async upload(owner: Owner, { name, mimeType, size, path }: Omit<UploadedFile, 'field'>): Promise<DocumentRow> {
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
    await this.#parts.quota.within(owner, row, () => this.#store(owner, row, path))
    this.#parts.extraction.wake()
    return row
  }

  async add(owner: Owner, { name, mimeType, bytes }: NewDocument): Promise<DocumentRow> {
    const path = await this.#parts.blobs.receive(bytes)
    try {
      return await this.upload(owner, { name, mimeType, size: bytes.length, path })
    } finally {
      // Over the quota it was not taken.
      await rm(path, { force: true })
    }
  }

  list(owner: Owner, filter: Filter<DocumentRow>, options: PageOptions): Promise<Page<DocumentRow>> {
    return this.#parts.rows.for(owner).page(filter, options)
  }

  /** With its text, in pieces. */
  async get(owner: Owner, id: string): Promise<{ document: DocumentRow; text: AsyncIterable<string> | null }> {
    const document = await this.#find(owner, id)
    return { document, text: document.status === 'ready' ? await this.#parts.blobs.openText(id, document.version) : null }
  }

  async file(owner: Owner, id: string): Promise<DocumentFile> {
    const document = await this.#find(owner, id)
    return { document, open: range => this.#parts.blobs.open(id, document.version, range) }
  }

  async remove(owner: Owner, id: string): Promise<void> {
    if (!(await this.#remove(owner, id))) throw notFound('Document')
  }

  /** Whether it was this call that removed it. */
  async #remove(owner: Owner, id: string): Promise<boolean> {
    const { rows, jobs, passages, blobs, extraction } = this.#parts
    const document = await this.#find(owner, id)
    // The job keeps what is still to be removed, over a crash too, and takes the document from whoever reads it.
    await jobs.remove(owner, document)
    extraction.cancel(id)
    const existed = await rows.for(owner).deleteOne({ id })
    await passages.remove(owner, id)
    await blobs.remove(id)
    await jobs.removed(id)
    return existed
  }

  /** Every document of an owner who is gone. */
  async removeAll(owner: Owner): Promise<void> {
    const rows = this.#parts.rows.for(owner)
    for (let page = await rows.page({}); page.items.length > 0; page = await rows.page({}))
      for (const { id } of page.items) await this.#remove(owner, id)
  }

  search(owner: Owner, query: string, limit: number): Promise<DocumentHit[]> {
    return this.#parts.passages.search(owner, query, limit)
  }

  async text(owner: Owner, id: string, maxLength: number): Promise<{ name: string; text: string | null }> {
    const { name, status, version } = await this.#find(owner, id)
    return { name, text: status === 'ready' ? await this.#parts.blobs.readText(id, version, maxLength) : null }
  }

  async #find(owner: Owner, id: string): Promise<DocumentRow> {
    const row = await this.#parts.rows.for(owner).findOne({ id })
    if (!row) throw notFound('Document')
    return row
  }

  /** All of it or nothing: what cannot be recorded leaves no file. */
  async #store(owner: Owner, row: DocumentRow, path: string): Promise<void> {
    const { blobs, jobs, rows } = this.#parts
    await blobs.keep(row.id, row.version, path)
    try {
      // The job first: without its document it is dropped, while a document without its job would wait for ever.
      await jobs.add(owner, row)
      await rows.for(owner).insertOne(row)
    } catch (error) {
      await blobs.remove(row.id)
      // Where this fails too, the job is dropped later, because it has no document.
      await jobs.takeBack(row.id).catch(() => undefined)
      throw error
    }
  }
}
