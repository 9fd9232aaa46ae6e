import pRetry from 'p-retry'
import type { Collection as Native, Filter as NativeFilter, UpdateFilter } from 'mongodb'
import type {
  Collection,
  CollectionSpec,
  Document,
  Filter,
  FindOneAndUpdateOptions,
  FindOptions,
  Page,
  PageOptions,
  Sort,
  Update,
} from '../collection.js'
import { checkFilter } from '../filter.js'
import { checkId, type JsonObject } from '../json.js'
import { makePage, planPage, type PagePlan } from '../page.js'
import { checkPipeline, splitMatch } from '../pipeline.js'
import { checkUpdate, upsertId } from '../update.js'
import { explain, isBusy, isDuplicateKey } from './errors.js'
import { namedIndexes, type NamedIndex } from './indexes.js'
import { fromRow, toFilter, toRow, toSort, toUpdate } from './names.js'

export interface MongoRow extends JsonObject {
  _id: string
}

const defaultLimit = 1000

/** A collection on a MongoDB server, through the official driver. */
export class MongoCollection<T extends Document> implements Collection<T> {
  readonly #rows: Native<MongoRow>
  readonly #name: string
  readonly #indexes: NamedIndex[]

  constructor(rows: Native<MongoRow>, spec: CollectionSpec<Document>) {
    this.#rows = rows
    this.#name = rows.collectionName
    this.#indexes = namedIndexes(spec)
  }

  async insertOne(document: T): Promise<void> {
    await this.#ask(() => this.#rows.insertOne(this.#row(document)))
  }

  async insertMany(documents: T[]): Promise<void> {
    if (documents.length === 0) return
    await this.#ask(() =>
      this.#rows.insertMany(
        documents.map(document => this.#row(document)),
        { ordered: true },
      ),
    )
  }

  async findOne(filter: Filter<T>, { sort }: { sort?: Sort } = {}): Promise<T | null> {
    const row = await this.#ask(() => this.#rows.findOne(this.#filter(filter), sort ? { sort: toSort(sort) } : {}))
    return row && fromRow<T>(row)
  }

  async find(filter: Filter<T>, { sort = {}, skip = 0, limit = defaultLimit }: FindOptions = {}): Promise<T[]> {
    if (limit <= 0) return []
    const rows = await this.#ask(() => this.#rows.find(this.#filter(filter), { sort: toSort(sort), skip, limit }).toArray())
    return rows.map(row => fromRow<T>(row))
  }

  async page(filter: Filter<T>, options: PageOptions = {}): Promise<Page<T>> {
    checkFilter(filter)
    const plan = planPage(this.#name, filter, options)
    const { field, direction, limit } = plan
    const sort: Sort = field === 'id' ? { id: direction } : { [field]: direction, id: direction }
    const following = plan.after ? { $and: [filter, seek(plan, plan.after)] } : filter
    const rows = await this.#ask(() =>
      this.#rows.find(toFilter(following) as NativeFilter<MongoRow>, { sort: toSort(sort), limit: limit + 1 }).toArray(),
    )
    return makePage(
      plan,
      rows.map(row => fromRow<T & JsonObject>(row)),
    )
  }

  async updateOne(filter: Filter<T>, update: Update, { upsert = false }: { upsert?: boolean } = {}): Promise<boolean> {
    const [where, changes] = this.#checked(filter, update, upsert)
    if (Object.keys(changes).length === 0) return (await this.count(filter)) > 0
    const { matchedCount } = await this.#retryUpsert(upsert, () => this.#rows.updateOne(where, changes, { upsert }))
    return matchedCount > 0
  }

  async updateMany(filter: Filter<T>, update: Update): Promise<number> {
    const [where, changes] = this.#checked(filter, update, false)
    if (Object.keys(changes).length === 0) return this.count(filter)
    const { matchedCount } = await this.#ask(() => this.#rows.updateMany(where, changes))
    return matchedCount
  }

  async findOneAndUpdate(filter: Filter<T>, update: Update, options: FindOneAndUpdateOptions = {}): Promise<T | null> {
    const { sort, upsert = false, returns = 'after' } = options
    const [where, changes] = this.#checked(filter, update, upsert)
    if (Object.keys(changes).length === 0) return this.findOne(filter, sort ? { sort } : {})
    const settings = { upsert, returnDocument: returns, ...(sort ? { sort: toSort(sort) } : {}) }
    const row = await this.#retryUpsert(upsert, () => this.#rows.findOneAndUpdate(where, changes, settings))
    return row && fromRow<T>(row)
  }

  async deleteOne(filter: Filter<T>): Promise<boolean> {
    const { deletedCount } = await this.#ask(() => this.#rows.deleteOne(this.#filter(filter)))
    return deletedCount > 0
  }

  async deleteMany(filter: Filter<T>): Promise<number> {
    const { deletedCount } = await this.#ask(() => this.#rows.deleteMany(this.#filter(filter)))
    return deletedCount
  }

  async count(filter: Filter<T>): Promise<number> {
    return this.#ask(() => this.#rows.countDocuments(this.#filter(filter)))
  }

  async aggregate<R>(pipeline: Record<string, unknown>[]): Promise<R[]> {
    checkPipeline(pipeline)
    const { filter, rest } = splitMatch(pipeline)
    const { fields, following } = splitUnset(rest)
    const stages = [{ $match: toFilter(filter) }, { $addFields: { id: '$_id' } }, { $unset: ['_id', ...fields] }, ...following]
    return this.#ask(async () => (await this.#rows.aggregate(stages).toArray()) as R[])
  }

  #filter(filter: JsonObject): NativeFilter<MongoRow> {
    checkFilter(filter)
    return toFilter(filter)
  }

  #checked(filter: JsonObject, update: Update, upsert: boolean): [NativeFilter<MongoRow>, UpdateFilter<MongoRow>] {
    checkUpdate(update)
    const where = this.#filter(filter)
    if (upsert) checkId(upsertId(filter, update))
    // Through JSON, as in the embedded store: a Date becomes text, undefined nothing.
    return [where, toUpdate(JSON.parse(JSON.stringify(update)) as Update)]
  }

  #row(document: T): MongoRow {
    checkId(document.id)
    return toRow(JSON.parse(JSON.stringify(document)) as T)
  }

  /** Of two upserts at once the later can meet the earlier's document: the second try then finds it. */
  async #retryUpsert<R>(upsert: boolean, ask: () => Promise<R>): Promise<R> {
    if (!upsert) return this.#ask(ask)
    try {
      return await untilFree(ask)
    } catch (error) {
      if (!isDuplicateKey(error)) throw explain(error, this.#name, this.#indexes)
    }
    return this.#ask(ask)
  }

  async #ask<R>(ask: () => Promise<R>): Promise<R> {
    try {
      return await untilFree(ask)
    } catch (error) {
      throw explain(error, this.#name, this.#indexes)
    }
  }
}

const WHILE_BUSY = { retries: 11, minTimeout: 10, maxTimeout: 500, randomize: true }

/** Asks again while the server is too busy to begin: nothing has happened then. */
const untilFree = async <R>(ask: () => Promise<R>): Promise<R> => {
  try {
    return await ask()
  } catch (error) {
    if (!isBusy(error)) throw error
    return pRetry(ask, { ...WHILE_BUSY, shouldRetry: ({ error: again }) => isBusy(again) })
  }
}

/**
 * The fields that a pipeline unsets first, and the stages after that. They leave together with `_id`: FerretDB cannot
 * unset anything of a document without one - it cuts the connection, and its whole process ends a little later.
 */
const splitUnset = (pipeline: JsonObject[]): { fields: string[]; following: JsonObject[] } => {
  const [first, ...following] = pipeline
  if (first?.$unset === undefined) return { fields: [], following: pipeline }
  return { fields: [first.$unset].flat() as string[], following }
}

/** MongoDB's order of the types of JSON values. */
const typeOrder = ['null', 'number', 'string', 'object', 'array', 'bool']

/** The filter of what follows a document in a plan's order: the same type beyond its value, a later type, or a later id. */
const seek = ({ field, direction }: PagePlan, { value, id }: { value: unknown; id: string }): JsonObject => {
  const beyond = direction === 1 ? '$gt' : '$lt'
  if (field === 'id') return { id: { [beyond]: id } }
  const type = value === null ? 'null' : typeof value === 'boolean' ? 'bool' : Array.isArray(value) ? 'array' : typeof value
  const place = typeOrder.indexOf(type)
  const others = direction === 1 ? typeOrder.slice(place + 1) : typeOrder.slice(0, place)
  const branches: JsonObject[] = [{ [field]: value, id: { [beyond]: id } }]
  if (value !== null) branches.push({ [field]: { [beyond]: value } })
  if (others.includes('null')) branches.push({ [field]: null })
  const types = others.filter(other => other !== 'null')
  if (types.length > 0) branches.push({ [field]: { $type: types } })
  return { $or: branches }
}
