import { LRUCache } from 'lru-cache'

/** One owner's vectors that are searched: the newest, by number and by bytes. */
const MAX_VECTORS = 5_000
const MAX_SPACE_BYTES = 32 * 1024 * 1024
/** All owners' vectors that stay in memory. */
const MAX_BYTES = 64 * 1024 * 1024
const FLOAT_BYTES = 4
/** Vectors that room is made for at a time. */
const GROWTH = 256

/** How many vectors of this dimension an owner can have. */
export const capacityOf = (dimension: number): number => Math.min(MAX_VECTORS, Math.floor(MAX_SPACE_BYTES / (dimension * FLOAT_BYTES)))

/** A vector as it is stored: base64 of little-endian 32-bit floats. */
export interface VectorRow {
  id: string
  createdAt: string
  vector: string
}

export interface Hit {
  id: string
  score: number
}

/** What can be asked of the thread that holds the vectors. A `space` is one owner's, of one embedder and one dimension. */
export type Task =
  | { kind: 'open'; space: string; dimension: number }
  | { kind: 'add'; space: string; rows: VectorRow[] }
  | { kind: 'unknown'; space: string; ids: string[] }
  | { kind: 'search'; space: string; vector: string; minSimilarity: number; limit: number }

/** What each gives: `null` when the space is not open (any more). */
export interface Results {
  open: null
  add: true | null
  unknown: string[] | null
  search: Hit[] | null
}

/** Vectors in memory, compared one by one: exact, and quick enough for a thread of its own. */
export class VectorSpaces {
  readonly #spaces = new LRUCache<string, Space>({ maxSize: MAX_BYTES, sizeCalculation: ({ bytes }) => bytes })

  run(task: Task): Results[Task['kind']] {
    if (task.kind === 'open') {
      this.#spaces.set(task.space, new Space(task.dimension))
      return null
    }
    const space = this.#spaces.get(task.space)
    if (!space) return null
    if (task.kind === 'unknown') return task.ids.filter(id => !space.has(id))
    if (task.kind === 'search') return space.search(read(task.vector), task.minSimilarity, task.limit)
    for (const row of task.rows) space.add(row.id, row.createdAt, read(row.vector))
    // It has grown: its size is taken anew, which the cache does for what is new to it.
    this.#spaces.delete(task.space)
    this.#spaces.set(task.space, space)
    return true
  }
}

class Space {
  readonly #dimension: number
  readonly #capacity: number
  readonly #places = new Map<string, number>()
  readonly #ids: string[] = []
  readonly #createdAt: string[] = []
  #floats: Float32Array

  constructor(dimension: number) {
    this.#dimension = dimension
    this.#capacity = capacityOf(dimension)
    this.#floats = new Float32Array(0)
  }

  /** Never nothing, which the cache does not take. */
  get bytes(): number {
    return this.#floats.byteLength + 1
  }

  has(id: string): boolean {
    return this.#places.has(id)
  }

  /** When it is full, the oldest goes; what is older than all is left out. */
  add(id: string, createdAt: string, vector: Float32Array): void {
    if (vector.length !== this.#dimension) throw new Error(`a vector has ${vector.length} dimensions instead of ${this.#dimension}`)
    const place = this.#placeFor(id, createdAt)
    if (place === undefined) return
    const previous = this.#ids[place]
    if (previous !== undefined) this.#places.delete(previous)
    this.#places.set(id, place)
    this.#ids[place] = id
    this.#createdAt[place] = createdAt
    this.#floats.set(vector, place * this.#dimension)
  }

  search(query: Float32Array, minSimilarity: number, limit: number): Hit[] {
    if (query.length !== this.#dimension) throw new Error(`the query's vector has ${query.length} dimensions instead of ${this.#dimension}`)
    const hits: Hit[] = []
    for (const [place, id] of this.#ids.entries()) {
      let score = 0
      const start = place * this.#dimension
      for (let index = 0; index < this.#dimension; index += 1) score += (query[index] as number) * (this.#floats[start + index] as number)
      if (score >= minSimilarity) hits.push({ id, score })
    }
    return hits.sort((a, b) => b.score - a.score).slice(0, limit)
  }

  #placeFor(id: string, createdAt: string): number | undefined {
    const known = this.#places.get(id)
    if (known !== undefined) return known
    if (this.#ids.length < this.#capacity) {
      this.#grow(this.#ids.length + 1)
      return this.#ids.length
    }
    let oldest = 0
    for (const [place, at] of this.#createdAt.entries()) if (at < (this.#createdAt[oldest] as string)) oldest = place
    return createdAt < (this.#createdAt[oldest] as string) ? undefined : oldest
  }

  #grow(count: number): void {
    if (count * this.#dimension <= this.#floats.length) return
    const room = Math.min(this.#capacity, Math.ceil(count / GROWTH) * GROWTH, Math.max(GROWTH, count * 2))
    const grown = new Float32Array(Math.max(room, count) * this.#dimension)
    grown.set(this.#floats)
    this.#floats = grown
  }
}

/** Of length 1, so that a product of two is their cosine. */
const read = (base64: string): Float32Array => {
  const bytes = Buffer.from(base64, 'base64')
  const vector = Float32Array.from({ length: bytes.length / FLOAT_BYTES }, (_, index) => bytes.readFloatLE(index * FLOAT_BYTES))
  let largest = 0
  for (const value of vector) {
    if (!Number.isFinite(value)) throw new Error('a vector holds what is no number')
    largest = Math.max(largest, Math.abs(value))
  }
  if (largest === 0) throw new Error('a vector is all zeros')
  // By the largest first: squares of very large or small floats would leave the range.
  let squares = 0
  for (const value of vector) squares += (value / largest) ** 2
  const norm = Math.sqrt(squares)
  return vector.map(value => value / largest / norm)
}
