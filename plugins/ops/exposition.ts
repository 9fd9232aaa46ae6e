import type { Registry } from 'prom-client'
import type { HistogramSample, Metric } from './contract.js'

interface Value {
  metricName?: string
  labels: Record<string, string | number>
  value: number
}

/** Writes metrics of the areas and of the process in Prometheus' text format. */
export class Exposition {
  #process: Promise<Registry> | undefined

  /** The text, and its content type. */
  async write(collected: Metric[]): Promise<{ text: string; contentType: string }> {
    const { Registry } = await import('prom-client')
    const registry = new Registry()
    for (const metric of collected) {
      const { name, help, type } = metric
      const values = metric.type === 'histogram' ? metric.samples.flatMap(sample => histogram(name, sample)) : metric.samples
      // The registry asks its metrics for nothing more than this.
      registry.registerMetric({ name, get: () => ({ name, help, type, values, aggregator: 'sum' }) } as never)
    }
    this.#process ??= watchProcess()
    const text = `${await registry.metrics()}\n${await (await this.#process).metrics()}`
    return { text, contentType: registry.contentType }
  }
}

/** Memory, processor time, event loop and garbage collection of the gateway itself, from the first fetch on. */
const watchProcess = async (): Promise<Registry> => {
  const { collectDefaultMetrics, Registry } = await import('prom-client')
  const register = new Registry()
  collectDefaultMetrics({ register, prefix: 'gateway_' })
  return register
}

const histogram = (name: string, { labels, buckets, count, sum }: HistogramSample): Value[] => {
  let below = 0
  return [
    ...buckets.map(bucket => ({ metricName: `${name}_bucket`, labels: { ...labels, le: bucket.le }, value: (below += bucket.count) })),
    { metricName: `${name}_bucket`, labels: { ...labels, le: '+Inf' }, value: count },
    { metricName: `${name}_sum`, labels, value: sum },
    { metricName: `${name}_count`, labels, value: count },
  ]
}
