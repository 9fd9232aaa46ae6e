import type { VectorRow } from './vectorSpaces.js'

/** An entry's vector as it is stored; the id is the entry's. */
export interface StoredVector extends VectorRow {
  /** What made it: vectors of another one cannot be compared with it. */
  madeBy: string
}
