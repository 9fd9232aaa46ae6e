export interface Rate {
  /** A second. */
  rate: number
  p50Ms: number
  p99Ms: number
  /** Processor time of this process for each. */
  cpuMicros: number
}

/** Does the same again and again, so many at a time, and tells how fast that went. */
export const measureLanes = async (inFlight: number, milliseconds: number, once: () => Promise<unknown>): Promise<Rate> => {
  const took: number[] = []
  const used = process.cpuUsage()
  const started = performance.now()
  const end = started + milliseconds
  const lane = async (): Promise<void> => {
    for (let before = performance.now(); before < end;) {
      await once()
      const now = performance.now()
      took.push(now - before)
      before = now
    }
  }
  await Promise.all(Array.from({ length: inFlight }, lane))
  const rate = (took.length * 1000) / (performance.now() - started)
  const { user, system } = process.cpuUsage(used)
  took.sort((a, b) => a - b)
  const at = (share: number): number => took[Math.floor(took.length * share)] ?? 0
  return { rate, p50Ms: at(0.5), p99Ms: at(0.99), cpuMicros: (user + system) / took.length }
}
