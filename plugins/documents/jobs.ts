import { isStale, type Holder } from '../../core/lease.js'
import type { Collection, Owner } from '../../core/store/collection.js'
import type { PluginExtractor } from '../plugins/contract.js'
import type { DocumentRow, JobRow } from './rows.js'

/** Jobs looked at at once. */
const BATCH = 32
const MAX_RUNNING = 1_000
/** The newest versions of plugins that are remembered to have crashed on a document. */
const MAX_REFUSED = 20
/** A removal that takes longer was cut off. */
const REMOVAL_MS = 60_000
/** A job comes before its document: one that is still alone after this has lost it. */
const ORPHAN_MS = 600_000

/** A version of a plugin, as jobs remember it. */
export const versionOf = ({ pluginId, version }: Pick<PluginExtractor, 'pluginId' | 'version'>): string => `${pluginId}@${version}`

/**
 * The work to do on documents, on disk. A gateway that works on a document holds its job by a lease, so that of several
 * gateways on one store one works on it; every change is one conditional update that only the holder can make.
 */
export class Jobs {
  readonly #rows: Collection<JobRow>
  readonly #holder: Holder

  constructor(rows: Collection<JobRow>, holder: Holder) {
    this.#rows = rows
    this.#holder = holder
  }

  async add({ tenant, userId }: Owner, { id, extension }: Pick<DocumentRow, 'id' | 'extension'>): Promise<void> {
    const now = new Date().toISOString()
    await this.#rows.insertOne({ id, tenant, userId, extension, state: 'queued', attempts: 0, dueAt: now, createdAt: now })
  }

  /** What can be started now, first come, first served. */
  due(except: { ids: string[]; extensions: string[] }): Promise<JobRow[]> {
    const filter = {
      state: 'queued' as const,
      dueAt: { $lte: new Date().toISOString() },
      ...(except.ids.length > 0 ? { id: { $nin: except.ids } } : {}),
      ...(except.extensions.length > 0 ? { extension: { $nin: except.extensions } } : {}),
    }
    return this.#rows.find(filter, { sort: { dueAt: 1 }, limit: BATCH })
  }

  /** What gateways that are gone were working on. */
  async abandoned(): Promise<JobRow[]> {
    const running = await this.#rows.find({ state: 'running' }, { sort: { dueAt: 1 }, limit: MAX_RUNNING })
    return running.filter(({ lease }) => !lease || isStale(lease))
  }

  /** Takes a job that is due or abandoned; it counts as tried until it is released. `null`: someone else was faster. */
  claim({ id, state, lease }: JobRow): Promise<JobRow | null> {
    const asSeen = state === 'running' ? { state, 'lease.by': lease?.by ?? null, 'lease.until': lease?.until ?? null } : { state }
    return this.#rows.findOneAndUpdate(
      { id, ...asSeen },
      { $set: { state: 'running', lease: this.#holder.lease() }, $inc: { attempts: 1 } },
    )
  }

  /** Whether the job is still this gateway's to work on; if so, for another while. */
  renew(id: string): Promise<boolean> {
    return this.#rows.updateOne(this.#held(id), { $set: { lease: this.#holder.lease() } })
  }

  async isHeld(id: string): Promise<boolean> {
    return (await this.#rows.findOne(this.#held(id))) !== null
  }

  /** Back into the queue, after a while. One that does not count costs the document no try. */
  async release(id: string, { delayMs = 0, counts }: { delayMs?: number; counts: boolean }): Promise<void> {
    await this.#leave(id, 'queued', { dueAt: new Date(Date.now() + delayMs).toISOString() }, counts ? 0 : -1)
  }

  /** Until a plugin runs that takes the document; costs no try. */
  async wait(id: string): Promise<void> {
    await this.#leave(id, 'waiting', {}, -1)
  }

  /** Until another plugin, or another version of this one, takes the document. */
  async putAside({ id, refused = [] }: JobRow, by: Pick<PluginExtractor, 'pluginId' | 'version'>): Promise<void> {
    await this.#leave(id, 'waiting', { refused: [...refused, versionOf(by)].slice(-MAX_REFUSED), attempts: 0 })
  }

  /** Queues what waited for one of these plugins. */
  async wake(extractors: readonly PluginExtractor[]): Promise<void> {
    const dueAt = new Date().toISOString()
    for (const extractor of extractors.filter(({ ready }) => ready))
      await this.#rows.updateMany(
        { state: 'waiting', extension: { $in: extractor.extensions }, refused: { $ne: versionOf(extractor) } },
        { $set: { state: 'queued', dueAt } },
      )
  }

  async done(id: string): Promise<void> {
    await this.#rows.deleteOne(this.#held(id))
  }

  /** Notes that the document is being removed: whoever works on it loses it, and a removal cut off by a crash is finished later. */
  async remove({ tenant, userId }: Owner, { id, extension }: Pick<DocumentRow, 'id' | 'extension'>): Promise<void> {
    const now = Date.now()
    const since = { dueAt: new Date(now).toISOString(), createdAt: new Date(now).toISOString() }
    await this.#rows.updateOne(
      { id },
      { $set: { tenant, userId, extension, state: 'removing', attempts: 0, ...since }, $unset: { lease: '' } },
      { upsert: true },
    )
  }

  /** Removals that a crash cut off. */
  cutOff(): Promise<JobRow[]> {
    const before = new Date(Date.now() - REMOVAL_MS).toISOString()
    return this.#rows.find({ state: 'removing', dueAt: { $lt: before } }, { limit: BATCH })
  }

  async removed(id: string): Promise<void> {
    await this.#rows.deleteOne({ id, state: 'removing' })
  }

  /** Drops a job whose document is not there, unless it may yet come. */
  async dropOrphan({ id, state, createdAt }: JobRow): Promise<void> {
    if (Date.parse(createdAt) < Date.now() - ORPHAN_MS) await this.#rows.deleteOne({ id, state })
  }

  /** Takes back a job whose document could not be stored. */
  async takeBack(id: string): Promise<void> {
    await this.#rows.deleteOne({ id })
  }

  #held(id: string) {
    return { id, state: 'running' as const, 'lease.by': this.#holder.id }
  }

  async #leave(id: string, state: JobRow['state'], changes: Partial<JobRow>, tries = 0): Promise<void> {
    await this.#rows.updateOne(this.#held(id), {
      $set: { state, ...changes },
      $unset: { lease: '' },
      ...(tries === 0 ? {} : { $inc: { attempts: tries } }),
    })
  }
}
