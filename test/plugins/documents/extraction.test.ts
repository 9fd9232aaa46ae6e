import assert from 'node:assert/strict'
import { mkdir, readdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { Holder } from '../../../core/lease.js'
import { createLog } from '../../../core/log.js'
import { collection, type Collection, type ScopedHandle, type Store } from '../../../core/store/collection.js'
import { openSqliteStore } from '../../../core/store/sqlite.js'
import { Blobs } from '../../../plugins/documents/blobs.js'
import { Extraction } from '../../../plugins/documents/extraction.js'
import { Jobs } from '../../../plugins/documents/jobs.js'
import { Parser } from '../../../plugins/documents/parser.js'
import type { ParsedText, ParseTask } from '../../../plugins/documents/parseWorker.js'
import { Passages } from '../../../plugins/documents/passages.js'
import type { DocumentRow, JobRow, PassageRow } from '../../../plugins/documents/rows.js'
import type { PluginHost } from '../../../plugins/plugins/contract.js'
import { openCollection, temporaryDirectory } from '../../support/store.js'
import { waitFor } from '../../support/waitFor.js'

const owner = { tenant: null, userId: 'u1' }

/** Notes what is parsed, by whom. */
class NotingParser extends Parser {
  readonly parsed: string[] = []

  override async parse(task: ParseTask, signal: AbortSignal): Promise<ParsedText> {
    this.parsed.push(task.draft.replace(/\.txt\..*$/, ''))
    return super.parse(task, signal)
  }
}

describe('several gateways on one store', () => {
  let directory: Awaited<ReturnType<typeof temporaryDirectory>>
  let store: Store
  let rows: ScopedHandle<DocumentRow>
  let jobRows: Collection<JobRow>
  let passageRows: ScopedHandle<PassageRow>
  let blobs: Blobs
  let gateways: { extraction: Extraction; jobs: Jobs; parser: NotingParser; holder: Holder }[]

  const withoutPlugins = { discovered: Promise.resolve(), extractors: () => [] } as Partial<PluginHost> as PluginHost

  beforeEach(async () => {
    directory = await temporaryDirectory()
    store = await openSqliteStore({ file: join(directory.path, 'store.db') })
    rows = await openCollection(store, 'documents.rows', collection.user<DocumentRow>())
    jobRows = await openCollection(store, 'documents.jobs', collection.global<JobRow>())
    passageRows = await openCollection(store, 'documents.passages', collection.user<PassageRow>())
    blobs = new Blobs(join(directory.path, 'documents'))
    const passages = new Passages(passageRows)
    const log = createLog({ level: 'silent', write: () => undefined })
    gateways = [1, 2].map(() => {
      const [holder, parser] = [new Holder(), new NotingParser(20_000)]
      const jobs = new Jobs(jobRows, holder)
      return { extraction: new Extraction({ rows, jobs, blobs, passages, parser, host: withoutPlugins, log }), jobs, parser, holder }
    })
  })
  afterEach(async () => {
    for (const { extraction, parser, holder } of gateways) {
      await extraction.stop()
      await parser.close()
      holder.close()
    }
    await store.close()
    await directory.remove()
  })

  const add = async (id: string): Promise<void> => {
    const now = new Date().toISOString()
    const of = { id, name: `${id}.txt`, extension: '.txt', mimeType: 'text/plain' }
    await mkdir(join(directory.path, 'documents', id), { recursive: true })
    await writeFile(blobs.path(id, 1), `text of ${id}`)
    await gateways[0]!.jobs.add(owner, of)
    await rows.for(owner).insertOne({ ...of, size: 9, version: 1, status: 'extracting', extractor: null, createdAt: now, updatedAt: now })
  }

  it('read each document once between them', async () => {
    const ids = Array.from({ length: 30 }, (_, index) => `doc_${index}`)
    for (const id of ids) await add(id)
    for (const { extraction } of gateways) extraction.start()
    await waitFor('the texts', async () => (await rows.for(owner).count({ status: 'ready' })) === 30)
    const parsed = gateways.flatMap(({ parser }) => parser.parsed)
    assert.equal(parsed.length, 30)
    assert.equal(new Set(parsed).size, 30)
    assert.equal(await passageRows.for(owner).count({}), 30)
    await waitFor('the jobs to go', async () => (await jobRows.count({})) === 0)
  })

  it('go on with what one of them that is gone was reading', async () => {
    await add('doc_left')
    const [gone, alive] = gateways as [(typeof gateways)[0], (typeof gateways)[0]]
    await gone.jobs.claim((await jobRows.findOne({ id: 'doc_left' }))!)
    gone.holder.close()
    alive.extraction.start()
    await waitFor('the text', async () => (await rows.for(owner).findOne({ id: 'doc_left' }))?.status === 'ready')
    assert.equal(await blobs.readText('doc_left', 1, 100), 'text of doc_left')
  })

  it('finish a removal that was cut off', async () => {
    await add('doc_half')
    const [{ jobs, extraction }] = gateways as [(typeof gateways)[0]]
    await jobs.remove(owner, { id: 'doc_half', extension: '.txt' })
    await jobRows.updateOne({ id: 'doc_half' }, { $set: { dueAt: new Date(Date.now() - 61_000).toISOString() } })
    extraction.start()
    await waitFor('the job to go', async () => (await jobRows.count({})) === 0)
    assert.equal(await rows.for(owner).count({}), 0)
    assert.deepEqual(await readdir(join(directory.path, 'documents')), [])
  })

  it('leave a document to the one that has its file, and say so', async () => {
    await add('doc_elsewhere')
    await blobs.remove('doc_elsewhere')
    const [{ extraction }] = gateways as [(typeof gateways)[0]]
    extraction.start()
    const { status, waitsFor } = await waitFor('what it waits for', async () => {
      const document = await rows.for(owner).findOne({ id: 'doc_elsewhere' })
      return document?.waitsFor === undefined ? undefined : document
    })
    assert.deepEqual([status, waitsFor], ['extracting', 'the gateway that keeps its file'])
    assert.deepEqual([(await jobRows.findOne({ id: 'doc_elsewhere' }))?.attempts, await jobRows.count({ state: 'queued' })], [0, 1])
  })
})
