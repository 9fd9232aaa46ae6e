/** Calls kept for the percentiles: the newest ones. */
const SAMPLE_SIZE = 256

/** Upper bounds of the histogram, in milliseconds; slower calls are in none. */
const BOUNDS = [1, 2.5, 5, 10, 25, 50, 100, 250, 500, 1_000, 2_500, 5_000, 10_000, 30_000]

/** Counts calls and keeps the newest durations, in milliseconds. */
export class Latency {
  readonly #sample = new Float64Array(SAMPLE_SIZE)
  readonly #counts = BOUNDS.map(() => 0)
  calls = 0
  errors = 0
  /** Milliseconds of all calls together. */
  sum = 0

  record(milliseconds: number, failed: boolean): void {
    this.#sample[this.calls % SAMPLE_SIZE] = milliseconds
    this.calls += 1
    this.sum += milliseconds
    const bucket = BOUNDS.findIndex(bound => milliseconds <= bound)
    if (bucket >= 0) this.#counts[bucket] = (this.#counts[bucket] ?? 0) + 1
    if (failed) this.errors += 1
  }

  /** Calls by the smallest bound, in milliseconds, that they stayed within. */
  get buckets(): { le: number; count: number }[] {
    return BOUNDS.map((le, index) => ({ le, count: this.#counts[index] ?? 0 }))
  }

  /** The duration that `share` (0 to 1) of the newest calls stayed within; `null` before the first. */
  percentile(share: number): number | null {
    const filled = Math.min(this.calls, SAMPLE_SIZE)
    if (filled === 0) return null
    const sorted = this.#sample.slice(0, filled).sort()
    return Math.round((sorted[Math.min(filled - 1, Math.floor(share * filled))] ?? 0) * 100) / 100
  }
}
