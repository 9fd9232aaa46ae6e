/** Calls kept for the percentiles: the newest ones. */
const SAMPLE_SIZE = 256

/** Counts calls and keeps the newest durations, in milliseconds. */
export class Latency {
  readonly #sample = new Float64Array(SAMPLE_SIZE)
  calls = 0
  errors = 0

  record(milliseconds: number, failed: boolean): void {
    this.#sample[this.calls % SAMPLE_SIZE] = milliseconds
    this.calls += 1
    if (failed) this.errors += 1
  }

  /** The duration that `share` (0 to 1) of the newest calls stayed within; `null` before the first. */
  percentile(share: number): number | null {
    const filled = Math.min(this.calls, SAMPLE_SIZE)
    if (filled === 0) return null
    const sorted = this.#sample.slice(0, filled).sort()
    return Math.round((sorted[Math.min(filled - 1, Math.floor(share * filled))] ?? 0) * 100) / 100
  }
}
