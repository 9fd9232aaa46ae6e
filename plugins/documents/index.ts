import { mkdir } from 'node:fs/promises'
import { join, resolve } from 'node:path'
import { z } from 'zod'
import { setting } from '../../core/config.js'
import { gatewayListening } from '../../core/events.js'
import { Holder } from '../../core/lease.js'
import { definePlugin } from '../../core/plugin.js'
import { coreSettings } from '../../core/settings.js'
import { collection } from '../../core/store/collection.js'
import { identity } from '../identity/contract.js'
import { pluginHost } from '../plugins/contract.js'
import { tools, type Tool } from '../tools/contract.js'
import { Blobs } from './blobs.js'
import { documents, type Documents } from './contract.js'
import { Extraction } from './extraction.js'
import { Jobs } from './jobs.js'
import { Parser } from './parser.js'
import { Passages } from './passages.js'
import { Quota } from './quota.js'
import { documentRoutes } from './routes.js'
import type { DocumentRow, JobRow, PassageRow, ReservationRow } from './rows.js'
import { DocumentService } from './service.js'

const GIB = 1024 ** 3
const Query = z.object({ query: z.string().min(1).max(1_000), limit: z.int().min(1).max(20).default(5) })

/** What agents can do with documents. */
const searchTool = (service: Documents): Tool<typeof Query> => ({
  name: 'documents.search',
  description: "Finds passages in this user's documents, best match first, each with the document's name.",
  parameters: Query,
  execute: ({ query, limit }, { owner }) => service.search(owner, query, limit),
})

export default definePlugin({
  id: 'documents',
  tags: { documents: 'Files, with the text that the built-in formats and plugins read from them.' },
  provides: documents,
  needs: { identity, pluginHost, tools },
  extends: ['tools'],
  collections: {
    rows: collection.user<DocumentRow>(),
    passages: collection.user<PassageRow>({ indexes: [{ fields: { documentId: 1 } }] }),
    reservations: collection.user<ReservationRow>({ expires: true }),
    jobs: collection.global<JobRow>({ indexes: [{ fields: { state: 1, dueAt: 1 } }, { fields: { state: 1, extension: 1 } }] }),
  },
  settings: {
    dataDir: coreSettings.dataDir,
    /** Where the files are kept; empty: in the data directory. Gateways that share a store share this directory too. */
    directory: setting.string('Service:Documents:Directory', { default: '' }),
    maxBytes: setting.number('Service:Documents:MaxBytesPerUser', { default: 5 * GIB, integer: true, hot: true }),
    maxDocuments: setting.number('Service:Documents:MaxDocumentsPerUser', { default: 10_000, integer: true, hot: true }),
    /** How long one document may keep a parser busy, in seconds. */
    timeoutSeconds: setting.number('Service:Documents:ParseTimeoutSeconds', { default: 30, min: 1, max: 600 }),
  },
  setup: async ({ needs: { identity: people, pluginHost: host, tools: toolSet }, store, settings, log, routes, on, onStop }) => {
    const root = resolve(settings.directory.get() || join(settings.dataDir.get(), 'documents'))
    await mkdir(root, { recursive: true, mode: 0o700 })
    const blobs = new Blobs(root)
    const passages = new Passages(store.passages)
    onStop(() => passages.close())
    const parser = new Parser(settings.timeoutSeconds.get() * 1000)
    onStop(() => parser.close())
    const holder = new Holder()
    onStop(() => holder.close())
    const jobs = new Jobs(store.jobs, holder)
    const extraction = new Extraction({ rows: store.rows, jobs, blobs, passages, parser, host, log })
    onStop(() => extraction.stop())
    const service = new DocumentService({
      rows: store.rows,
      jobs,
      blobs,
      passages,
      extraction,
      quota: new Quota({
        rows: store.rows,
        reservations: store.reservations,
        limits: () => ({ bytes: settings.maxBytes.get(), documents: settings.maxDocuments.get() }),
        log,
      }),
    })

    on(gatewayListening, async () => {
      extraction.start()
      const swept = await blobs.sweep(async ids => new Set((await store.rows.everyone.find({ id: { $in: ids } })).map(({ id }) => id)))
      if (swept > 0) log.info(`removed ${swept} files of uploads that were cut off`)
    })
    onStop(
      host.onChange(() => {
        extraction.pluginsChanged().catch((error: unknown) => {
          log.error({ err: error }, 'documents that wait for a plugin could not be looked at')
        })
      }),
    )
    onStop(toolSet.register(searchTool(service)))
    onStop(people.onRemoval('documents', owner => service.removeAll(owner)))
    routes(documentRoutes(service))
    return service
  },
})
