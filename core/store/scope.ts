import type {
  Collection,
  CollectionScope,
  CollectionSpec,
  Document,
  Filter,
  FindOneAndUpdateOptions,
  FindOptions,
  Handle,
  Owned,
  Page,
  PageOptions,
  ScopedHandle,
  Sort,
  Stamp,
  Update,
} from './collection.js'
import { fieldsOf } from './filter.js'
import { scopeFields } from './indexes.js'
import { isWithin, type JsonObject } from './json.js'
import { checkPipeline } from './pipeline.js'
import { updatedPaths } from './update.js'

type ScopeField = 'tenant' | 'userId'

/** The handle of an opened collection: the collection itself when it is global, else one that must be told whose documents. */
export const scoped = <T extends Document, S extends CollectionScope>(
  collection: Collection<T>,
  { scope }: CollectionSpec<T, S>,
): Handle<CollectionSpec<T, S>> =>
  (scope === 'global' ? collection : bindable(collection, scopeFields(scope))) as Handle<CollectionSpec<T, S>>

const bindable = <T extends Document>(collection: Collection<T>, fields: ScopeField[]): ScopedHandle<T, CollectionScope> => ({
  everyone: collection as unknown as Collection<Owned<T, CollectionScope>>,
  for: owner => new OwnedCollection<T>(collection as unknown as Collection<Stored>, stampOf(owner, fields), fields),
})

/** Whether a filter is `{ id }` with a plain id. */
const isLoneId = (filter: JsonObject): filter is { id: string } => {
  if (typeof filter.id !== 'string') return false
  for (const field in filter) if (field !== 'id') return false
  return true
}

type Stored = Document & JsonObject

const stampOf = (owner: Stamp<CollectionScope>, fields: ScopeField[]): JsonObject => {
  const { tenant, userId } = owner as { tenant: unknown; userId?: unknown }
  if (tenant !== null && (typeof tenant !== 'string' || tenant === '')) throw new TypeError('An owner has a tenant, or null for none')
  if (!fields.includes('userId')) return { tenant }
  if (typeof userId !== 'string' || userId === '') throw new TypeError('An owner has a userId')
  return { tenant, userId }
}

/** One owner's part of a collection. The owner's filter is added to every call; naming its fields is refused. */
class OwnedCollection<T extends Document> implements Collection<T> {
  readonly #collection: Collection<Stored>
  readonly #stamp: JsonObject
  readonly #fields: ScopeField[]

  constructor(collection: Collection<Stored>, stamp: JsonObject, fields: ScopeField[]) {
    this.#collection = collection
    this.#stamp = stamp
    this.#fields = fields
  }

  async insertOne(document: T): Promise<void> {
    await this.#collection.insertOne(this.#stamped(document))
  }

  async insertMany(documents: T[]): Promise<void> {
    await this.#collection.insertMany(documents.map(document => this.#stamped(document)))
  }

  async findOne(filter: Filter<T>, options?: { sort?: Sort }): Promise<T | null> {
    return this.#bare(await this.#collection.findOne(this.#bound(filter), options))
  }

  async find(filter: Filter<T>, options?: FindOptions): Promise<T[]> {
    const found = await this.#collection.find(this.#bound(filter), options)
    return found.map(document => this.#strip(document))
  }

  async page(filter: Filter<T>, options?: PageOptions): Promise<Page<T>> {
    const page = await this.#collection.page(this.#bound(filter), options)
    return { ...page, items: page.items.map(document => this.#strip(document)) }
  }

  async updateOne(filter: Filter<T>, update: Update, options?: { upsert?: boolean }): Promise<boolean> {
    return this.#collection.updateOne(this.#bound(filter), this.#checked(update), options)
  }

  async updateMany(filter: Filter<T>, update: Update): Promise<number> {
    return this.#collection.updateMany(this.#bound(filter), this.#checked(update))
  }

  async findOneAndUpdate(filter: Filter<T>, update: Update, options?: FindOneAndUpdateOptions): Promise<T | null> {
    return this.#bare(await this.#collection.findOneAndUpdate(this.#bound(filter), this.#checked(update), options))
  }

  async deleteOne(filter: Filter<T>): Promise<boolean> {
    return this.#collection.deleteOne(this.#bound(filter))
  }

  async deleteMany(filter: Filter<T>): Promise<number> {
    return this.#collection.deleteMany(this.#bound(filter))
  }

  async count(filter: Filter<T>): Promise<number> {
    return this.#collection.count(this.#bound(filter))
  }

  async aggregate<R>(pipeline: Record<string, unknown>[]): Promise<R[]> {
    checkPipeline(pipeline)
    // What a pipeline matches first is asked with the stamp: both engines answer that from their indexes.
    const isFirst = ({ $match }: Record<string, unknown>): boolean =>
      $match !== undefined && !fieldsOf($match as JsonObject).some(field => this.#isStamp(field))
    const end = pipeline.findIndex(stage => !isFirst(stage))
    const length = end === -1 ? pipeline.length : end
    return this.#collection.aggregate([
      { $match: this.#stamp },
      ...pipeline.slice(0, length),
      { $unset: this.#fields },
      ...pipeline.slice(length),
    ])
  }

  #bound(filter: JsonObject): Filter<Stored> {
    // The most frequent filter of all: a lone id names no owner.
    if (isLoneId(filter)) return { id: filter.id, ...this.#stamp }
    const foreign = fieldsOf(filter).find(field => this.#isStamp(field))
    if (foreign !== undefined) throw new TypeError(`A filter within an owner's documents cannot name "${foreign}"`)
    return { ...filter, ...this.#stamp }
  }

  #checked(update: Update): Update {
    const foreign = updatedPaths(update).find(path => this.#isStamp(path))
    if (foreign !== undefined) throw new TypeError(`An update within an owner's documents cannot change "${foreign}"`)
    return update
  }

  #stamped(document: T): Stored {
    const foreign = this.#fields.find(field => field in document)
    if (foreign !== undefined) throw new TypeError(`A document within an owner's documents cannot have a field "${foreign}" of its own`)
    return { ...document, ...this.#stamp }
  }

  #isStamp(path: string): boolean {
    return this.#fields.some(field => isWithin(path, field))
  }

  #bare(document: Stored | null): T | null {
    return document && this.#strip(document)
  }

  #strip(document: Stored): T {
    const bare: JsonObject = {}
    for (const field in document)
      if (field !== 'tenant' && (field !== 'userId' || !('userId' in this.#stamp))) bare[field] = document[field]
    return bare as unknown as T
  }
}
