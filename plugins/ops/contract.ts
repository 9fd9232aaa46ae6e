import { service } from '../../core/plugin.js'

export type Labels = Record<string, string>

/** A metric as Prometheus knows it; durations are in seconds, sizes in bytes. */
export type Metric = { /** snake_case, beginning with `gateway_`; a counter ends with `_total`. */ name: string; help: string } & (
  { type: 'counter' | 'gauge'; samples: { labels: Labels; value: number }[] } | { type: 'histogram'; samples: HistogramSample[] }
)

export interface HistogramSample {
  labels: Labels
  /** How many observations each bucket has alone, by its upper bound, ascending. */
  buckets: { le: number; count: number }[]
  /** All observations, also those above the last bucket. */
  count: number
  sum: number
}

/** What areas measure, for monitoring systems to fetch. */
export interface Metrics {
  /** `read` is called at each fetch and returns what was counted until then. Returns the undo. */
  collect(read: () => Metric[]): () => void
}

export const metrics = service<Metrics>('metrics')
