import { median } from '../measured.js'
import { sizes } from './bench.js'
import type { Rate } from './lanes.js'

/** Rounds of several measurements side by side: each round has one of each. */
export class Rounds<Name extends string> {
  readonly #rounds: Record<Name, Rate>[]

  constructor(rounds: Record<Name, Rate>[]) {
    this.#rounds = rounds
  }

  rate(name: Name): string {
    return `${median(this.#rounds.map(round => round[name].rate)).toFixed(0)}/s`
  }

  p50(name: Name): string {
    return `${(median(this.#rounds.map(round => round[name].p50Ms)) * 1000).toFixed(0)} µs`
  }

  /** The median of the ratios within a round: what disturbs a machine for a while disturbs both. */
  ratio(name: Name, bare: Name, of: keyof Rate): number {
    return median(this.#rounds.map(round => round[name][of] / round[bare][of]))
  }
}

/** Interleaved; the first round only warms up. */
export const compare = async <Name extends string>(runs: Record<Name, () => Promise<Rate>>): Promise<Rounds<Name>> => {
  const rounds: Record<Name, Rate>[] = []
  for (let round = 0; round <= sizes.rounds; round++) {
    const measured: Partial<Record<Name, Rate>> = {}
    for (const name of Object.keys(runs) as Name[]) measured[name] = await runs[name]()
    if (round > 0) rounds.push(measured as Record<Name, Rate>)
  }
  return new Rounds(rounds)
}
