import {
  type Collection,
  type Document,
  type Filter,
  type FindOneAndUpdateOptions,
  type FindOptions,
  type Page,
  type PageOptions,
  type Sort,
  type Update,
} from '../collection.js'
import { checkFilter } from '../filter.js'
import { checkId, type JsonObject } from '../json.js'
import { makePage, planPage } from '../page.js'
import { checkPipeline, splitMatch } from '../pipeline.js'
import { checkUpdate, upsertId } from '../update.js'
import { serviceUnavailable } from '../../errors.js'
import type { Aggregations } from './aggregate.js'
import type { DocumentCache } from './cache.js'
import { explain } from './errors.js'
import { loadMingo } from './mingo.js'
import type { WriteQueue } from './queue.js'
import { count, search, select, type Search, type Selection, type Statements } from './read.js'
import type { Table } from './table.js'
import { unlimited, type UpdateWrite, type Write, type WriteResult } from './write.js'

const defaultLimit = 1000

/** What the collections of one store share. */
export interface Engine {
  statements: Statements
  queue: WriteQueue
  aggregations: Aggregations
  closed: boolean
}

/** A collection of the embedded store: it reads on the caller's thread and writes through the queue. */
export class SqliteCollection<T extends Document> implements Collection<T> {
  readonly #engine: Engine
  readonly #cache: DocumentCache
  readonly #table: Table
  readonly #byId: string
  #isReady = false

  constructor(engine: Engine, table: Table, cache: DocumentCache) {
    this.#engine = engine
    this.#table = table
    this.#cache = cache
    this.#byId = `SELECT doc FROM ${table.sql} WHERE id=?`
  }

  /** Lets the collection be used, once its table exists. */
  open(): void {
    this.#isReady = true
  }

  async insertOne(document: T): Promise<void> {
    await this.insertMany([document])
  }

  async insertMany(documents: T[]): Promise<void> {
    if (documents.length === 0) return
    const rows = documents.map(document => ({ id: checkId(document.id), text: JSON.stringify(document) }))
    const bytes = rows.reduce((sum, { text }) => sum + text.length, 0)
    await this.#write(
      { kind: 'insert', documents: rows },
      bytes,
      rows.map(({ id }) => id),
    )
  }

  async findOne(filter: Filter<T>, options?: { sort?: Sort }): Promise<T | null> {
    const id = pointId(filter)
    const found = id === undefined ? undefined : this.#readById(id, filter)
    return found === undefined ? this.#findFirst(filter, options?.sort) : (found as unknown as T | null)
  }

  async find(filter: Filter<T>, { sort, skip, limit = defaultLimit }: FindOptions = {}): Promise<T[]> {
    return this.#select(filter, { sort, skip, limit })
  }

  async page(filter: Filter<T>, options: PageOptions = {}): Promise<Page<T>> {
    checkFilter(filter)
    const plan = planPage(this.#table.name, filter, options)
    const { field, direction, limit, after } = plan
    const sort: Sort = field === 'id' ? { id: direction } : { [field]: direction, id: direction }
    return makePage(plan, (await this.#select(filter, { sort, limit: limit + 1, after })) as (T & JsonObject)[])
  }

  async updateOne(filter: Filter<T>, update: Update, { upsert = false }: { upsert?: boolean } = {}): Promise<boolean> {
    const { count } = await this.#update(filter, update, { many: false, upsert })
    return count > 0
  }

  async updateMany(filter: Filter<T>, update: Update): Promise<number> {
    const { count } = await this.#update(filter, update, { many: true, upsert: false })
    return count
  }

  async findOneAndUpdate(filter: Filter<T>, update: Update, options: FindOneAndUpdateOptions = {}): Promise<T | null> {
    const { text } = await this.#update(filter, update, { many: false, upsert: options.upsert ?? false, options })
    return text === undefined || text === null ? null : (JSON.parse(text) as T)
  }

  async deleteOne(filter: Filter<T>): Promise<boolean> {
    return (await this.deleteSome(filter, 1)) > 0
  }

  async deleteMany(filter: Filter<T>): Promise<number> {
    return this.deleteSome(filter, unlimited)
  }

  async deleteSome(filter: Filter<T>, limit: number): Promise<number> {
    checkFilter(filter)
    const { count } = await this.#write({ kind: 'delete', filter, limit }, JSON.stringify(filter).length, idsOf(filter))
    return count
  }

  async count(filter: Filter<T>): Promise<number> {
    const matching = await this.#search(filter)
    return this.#read(() => count(this.#engine.statements, matching))
  }

  async aggregate<R>(pipeline: Record<string, unknown>[]): Promise<R[]> {
    checkPipeline(pipeline)
    this.#checkReady()
    const { filter, rest } = splitMatch(pipeline)
    return JSON.parse(await this.#engine.aggregations.run(this.#table.name, filter, rest)) as R[]
  }

  /** The document, null when there is none or it is not the filter's; undefined: ask the general way. */
  #readById(id: string, filter: JsonObject): JsonObject | null | undefined {
    this.#checkReady()
    let text = this.#cache.get(id)
    if (text === undefined) {
      text = this.#read(() => this.#engine.statements.get(this.#byId).get(id)?.doc) as string | undefined
      if (text === undefined) return null
      this.#cache.keep(id, text)
    }
    const document = JSON.parse(text) as JsonObject
    for (const field in filter) {
      const stored = document[field] ?? null
      if (typeof stored === 'object' && stored !== null) return undefined
      if (stored !== filter[field]) return null
    }
    return document
  }

  async #findFirst(filter: Filter<T>, sort: Sort | undefined): Promise<T | null> {
    const [first = null] = await this.#select(filter, { sort, limit: 1 })
    return first
  }

  async #select(filter: JsonObject, selection: Selection): Promise<T[]> {
    const matching = await this.#search(filter)
    return this.#read(() => select(this.#engine.statements, matching, selection)).map(({ document }) => document as unknown as T)
  }

  async #search(filter: JsonObject): Promise<Search> {
    checkFilter(filter)
    this.#checkReady()
    const matching = search(this.#table, filter)
    if (!matching.residual) return matching
    const { matcher } = await loadMingo()
    // Meanwhile a field may have changed its shape.
    const current = search(this.#table, filter)
    return current.residual ? { ...current, test: matcher(current.residual) } : current
  }

  async #update(
    filter: JsonObject,
    update: Update,
    how: { many: boolean; upsert: boolean; options?: FindOneAndUpdateOptions },
  ): Promise<WriteResult> {
    checkFilter(filter)
    checkUpdate(update)
    if (how.upsert) checkId(upsertId(filter, update))
    // Through JSON, as documents are: what JSON cannot say must not reach the store as something else.
    const text = JSON.stringify({ filter, update, ...how } satisfies UpdateWrite)
    return this.#write({ kind: 'update', text }, text.length, idsOf(filter))
  }

  async #write(write: Write, bytes: number, ids: string[] | undefined): Promise<WriteResult> {
    this.#checkReady()
    return this.#engine.queue.submit(this.#table, write, bytes, this.#cache.writing(ids))
  }

  #read<R>(read: () => R): R {
    try {
      return read()
    } catch (error) {
      throw explain(error)
    }
  }

  #checkReady(): void {
    if (this.#engine.closed) throw serviceUnavailable('The store is closed')
    if (!this.#isReady) throw new Error(`The collection ${this.#table.name} is not ready: call ready() after declaring it`)
  }
}

/** The id when the filter is nothing but an id and an owner. */
const pointId = (filter: JsonObject): string | undefined => {
  for (const field in filter) {
    const value = filter[field]
    const fits =
      field === 'id'
        ? typeof value === 'string'
        : (field === 'tenant' || field === 'userId') && (typeof value === 'string' || value === null)
    if (!fits) return undefined
  }
  return filter.id as string | undefined
}

/** The only document that a write can touch, when its filter says so. */
const idsOf = (filter: JsonObject): string[] | undefined => (typeof filter.id === 'string' ? [filter.id] : undefined)
