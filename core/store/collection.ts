/**
 * The store's narrow interface, in MongoDB's own terms. Two engines implement it (`sqlite.ts`, `mongo.ts`)
 * and one contract suite runs over both.
 *
 * A document is plain JSON with a string `id`, unique within its collection. Times are ISO 8601 strings, which sort
 * as they read; there are no Date, RegExp or binary values in documents.
 */
export interface Document {
  id: string
}

/**
 * A MongoDB filter document: equality, `$in`, `$gt`, `$exists`, `$or`, dotted paths ... over the JSON of `T`. `undefined`
 * anywhere in it, scripts and unknown operators are a `TypeError`: a forgotten variable never matches everything.
 */
export type Filter<T> = { [K in keyof T]?: T[K] | Condition } & Record<string, unknown>
type Condition = Record<`$${string}`, unknown>

/** A MongoDB update document made of operators: `$set`, `$unset`, `$inc`, `$push` (with `$each`, `$slice`), `$setOnInsert` ... */
export type Update = Record<`$${string}`, Record<string, unknown>>

/** Field to direction; the order of the keys is the order of the sort. */
export type Sort = Record<string, 1 | -1>

export interface FindOptions {
  sort?: Sort
  skip?: number
  /** Default 1,000: no query is without a bound. */
  limit?: number
}

export interface PageOptions {
  /** 1 to 200, default 50. */
  limit?: number | undefined
  /** The `nextCursor` of the page before. Foreign or damaged: throws `invalid_request`. */
  cursor?: string | undefined
  /** One field and its direction; `id` breaks ties. Default `{ createdAt: -1 }`. */
  sort?: Sort
}

export interface Page<T> {
  items: T[]
  nextCursor: string | null
  hasMore: boolean
}

export interface FindOneAndUpdateOptions {
  /** Which document, when several match. */
  sort?: Sort
  upsert?: boolean
  /** Default `after`. */
  returns?: 'before' | 'after'
}

/**
 * One collection. Every write is durable (on disk, synced) when its promise resolves, and atomic for its document.
 * A write that breaks a unique index or reuses an `id` rejects with `DuplicateKey`, one that the store cannot take now
 * (a full disk or queue, a server out of reach) with `service_unavailable`.
 */
export interface Collection<T extends Document> {
  insertOne(document: T): Promise<void>
  /** All or none within the embedded store; in order, up to the first failure, on MongoDB. */
  insertMany(documents: T[]): Promise<void>
  findOne(filter: Filter<T>, options?: { sort?: Sort }): Promise<T | null>
  find(filter: Filter<T>, options?: FindOptions): Promise<T[]>
  /** Keyset pagination: stable while documents come and go. */
  page(filter: Filter<T>, options?: PageOptions): Promise<Page<T>>
  /** Whether a document matched. */
  updateOne(filter: Filter<T>, update: Update, options?: { upsert?: boolean }): Promise<boolean>
  /** How many documents matched. */
  updateMany(filter: Filter<T>, update: Update): Promise<number>
  /** The conditional update that every change of state is made of. `null`: nothing matched. */
  findOneAndUpdate(filter: Filter<T>, update: Update, options?: FindOneAndUpdateOptions): Promise<T | null>
  deleteOne(filter: Filter<T>): Promise<boolean>
  deleteMany(filter: Filter<T>): Promise<number>
  count(filter: Filter<T>): Promise<number>
  aggregate<R>(pipeline: Record<string, unknown>[]): Promise<R[]>
}

export interface Index {
  /** Field (dotted paths allowed) to direction, in order. */
  fields: Sort
  unique?: boolean
  /** Only documents that have every one of the fields (not missing, not null) take part: for unique optional fields. */
  sparse?: boolean
  /** Leaves the scope fields out: for look-ups through `everyone`, such as by a slug; `unique` then holds across all owners. */
  acrossOwners?: boolean
}

/** Whose documents a collection holds. Scoped handles add and check these fields by themselves. */
export type CollectionScope = 'global' | 'tenant' | 'user'

export interface CollectionSpec<T extends Document, S extends CollectionScope = CollectionScope> {
  readonly scope: S
  readonly indexes: Index[]
  /** Documents carry `expiresAt` (ISO string or absent) and a sweep removes those past it. */
  readonly expires: boolean
  /** Never set: carries the document's type. */
  readonly document?: T
}

interface CollectionOptions {
  indexes?: Index[]
  expires?: boolean
}

const declare =
  <S extends CollectionScope>(scope: S) =>
  <T extends Document>({ indexes = [], expires = false }: CollectionOptions = {}): CollectionSpec<T, S> => ({ scope, indexes, expires })

/**
 * Declares a collection of an internal plugin: `rows: collection.user<AgentRow>({ indexes: [...] })`.
 * Scoped collections get an index on their scope fields and `createdAt` by themselves, and their declared indexes
 * are prefixed with the scope fields (so `unique` means unique within the tenant or user) unless `acrossOwners`.
 */
export const collection = {
  global: declare('global'),
  tenant: declare('tenant'),
  user: declare('user'),
}

/** Who a scoped handle is bound to. A caller of a route satisfies it. */
export interface Owner {
  tenant: string | null
  userId: string
}

/** The fields that a scoped handle adds to each stored document: of a `tenant` collection the tenant alone. */
export type Stamp<S extends CollectionScope = 'user'> = S extends 'user' ? Owner : Pick<Owner, 'tenant'>

/** A document as it is stored, with its owner. */
export type Owned<T, S extends CollectionScope = 'user'> = T & Stamp<S>

/** The handle of a `tenant` or `user` collection: nothing can be read or written without naming whose. */
export interface ScopedHandle<T extends Document, S extends CollectionScope = 'user'> {
  /** The owner's documents only: its filter is part of every call, and what is inserted is stamped with it. */
  for(owner: Stamp<S>): Collection<T>
  /** Every tenant's and user's documents, for a plugin's own background work; never for a request. */
  readonly everyone: Collection<Owned<T, S>>
}

export type Handle<Spec> =
  Spec extends CollectionSpec<infer T, 'global'>
    ? Collection<T>
    : Spec extends CollectionSpec<infer T, infer S>
      ? ScopedHandle<T, S>
      : never

export type Handles<Specs> = { [K in keyof Specs]: Handle<Specs[K]> }

/** One engine: opens collections by their full name (`<plugin>.<collection>`). */
export interface Store {
  readonly engine: 'sqlite' | 'mongodb'
  collection<T extends Document>(name: string, spec: CollectionSpec<T>): Collection<T>
  /** Makes what `collection()` declared since the last call usable: tables and indexes. Cheap when nothing changed. */
  ready(): Promise<void>
  /** Removes expired documents now; the engine also does so on its own every minute. */
  sweep(now?: Date): Promise<number>
  /** Finishes writes under way and closes. */
  close(): Promise<void>
}

/** A write would have broken the unique index over `fields`. */
export class DuplicateKey extends Error {
  readonly collection: string
  readonly fields: string[]

  constructor(collection: string, fields: string[], cause?: unknown) {
    super(`${collection} already holds a document with this ${fields.join(' and ')}`, { cause })
    this.name = 'DuplicateKey'
    this.collection = collection
    this.fields = fields
  }
}
