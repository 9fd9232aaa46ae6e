import type { ScopedHandle } from '../../core/store/collection.js'
import type { Blobs } from './blobs.js'
import type { Jobs } from './jobs.js'
import type { Passages } from './passages.js'
import type { Outcome } from './reader.js'
import type { DocumentRow, JobRow } from './rows.js'

interface Parts {
  rows: ScopedHandle<DocumentRow>
  jobs: Jobs
  blobs: Blobs
  passages: Passages
}

/** Records what came of reading documents: in the document, its text and its passages, and then in its job. */
export class Outcomes {
  readonly #parts: Parts

  constructor(parts: Parts) {
    this.#parts = parts
  }

  /** Resolves with whether the job waits for a plugin now, which may have got ready meanwhile. */
  async record(job: JobRow, document: DocumentRow, outcome: Outcome): Promise<boolean> {
    const { jobs } = this.#parts
    if ('parsed' in outcome) await this.#keepText(job, document, outcome)
    else if ('later' in outcome) await jobs.release(job.id, { delayMs: outcome.later, counts: outcome.counts })
    else if ('failed' in outcome) {
      await this.#fail(job, document, outcome.extractor, outcome.failed)
      await jobs.done(job.id)
    } else if ('crashed' in outcome) {
      const { pluginId, version } = outcome.crashed
      const reason = `the plugin ${pluginId} ${version} crashed while it read this document; it is read again once another version of the plugin is installed`
      await this.#fail(job, document, pluginId, reason)
      await jobs.putAside(job, outcome.crashed)
      return true
    } else {
      if ('waitsFor' in outcome)
        await this.#change(job, document, { status: 'extracting', waitsFor: `the plugin ${outcome.waitsFor}, which does not run` }, [
          'reason',
        ])
      else if (job.refused === undefined) await this.#fail(job, document, null, nothingReads(outcome.lacks))
      await jobs.wait(job.id)
      return true
    }
    return false
  }

  async #keepText(job: JobRow, document: DocumentRow, { extractor, draft, parsed }: Extract<Outcome, { parsed: unknown }>): Promise<void> {
    const { title, truncated, passages: texts } = parsed
    const { blobs, passages, jobs } = this.#parts
    await blobs.keepText(document.id, document.version, draft)
    await passages.index(job, document, texts)
    const kept = await this.#change(
      job,
      document,
      { status: 'ready', extractor, ...(truncated ? { truncated } : {}), ...(title === undefined ? {} : { title }) },
      ['reason', 'waitsFor', ...(truncated ? [] : ['truncated'])],
    )
    // Deleted meanwhile: nothing of it stays.
    if (!kept) await Promise.all([blobs.remove(document.id), passages.remove(job, document.id)])
    await jobs.done(job.id)
  }

  #fail(job: JobRow, document: DocumentRow, extractor: string | null, reason: string): Promise<boolean> {
    return this.#change(job, document, { status: 'failed', extractor, reason: reason.slice(0, 1000) }, ['waitsFor'])
  }

  /** Removes what a removal that was cut off left. */
  async finishRemoval(job: JobRow): Promise<void> {
    const { rows, passages, blobs, jobs } = this.#parts
    await rows.for(job).deleteOne({ id: job.id })
    await passages.remove(job, job.id)
    await blobs.remove(job.id)
    await jobs.removed(job.id)
  }

  /** Says what has to happen before the document can be read. */
  async noteWait(job: JobRow, document: DocumentRow, waitsFor: string): Promise<void> {
    if (document.waitsFor !== waitsFor) await this.#change(job, document, { waitsFor })
  }

  #change(job: JobRow, { id, version }: DocumentRow, change: Partial<DocumentRow>, unset: string[] = []): Promise<boolean> {
    return this.#parts.rows.for(job).updateOne(
      { id, version },
      {
        $set: { ...change, updatedAt: new Date().toISOString() },
        ...(unset.length === 0 ? {} : { $unset: Object.fromEntries(unset.map(name => [name, ''])) }),
      },
    )
  }
}

const nothingReads = (extension: string): string =>
  `nothing here reads ${extension === '' ? 'files without an extension' : `${extension} files`}: install a plugin that does, and it is read then`
