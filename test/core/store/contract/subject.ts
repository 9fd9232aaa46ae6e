import type { Collection, Document, Store } from '../../../../core/store/collection.js'

export interface Row extends Document {
  name?: string | null
  n?: unknown
  tags?: unknown[]
  inner?: unknown
  state?: string
  createdAt?: string
  expiresAt?: string
  email?: string | null
}

export interface Features {
  /**
   * The server is a whole MongoDB. FerretDB reads first and writes then, has no partial indexes, unique ones that take
   * null for a value, or field paths in expressions, misses operators, fills only the first of a group's accumulators
   * (the others are 0) and does not say which index was broken (of an update: not even that one was).
   */
  complete: boolean
}

/** What the contract's tests work on; set before each of them. */
export interface Subject {
  readonly store: Store
  /** An empty collection with an index over `n` and a sparse unique one over `name`. */
  readonly rows: Collection<Row>
  /** A collection name that was not used yet. */
  fresh: () => string
  /** Skips a test that a partial MongoDB cannot pass. */
  needsAll: (test: Mocha.Context) => void
}

export const ids = (found: Document[]): string[] => found.map(({ id }) => id)
