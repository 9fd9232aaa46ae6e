export interface Rate {
  /** A second. */
  rate: number
  p50Ms: number
}

/** Does the same again and again, so many at a time, and tells how fast that went. */
export const measureLanes = async (inFlight: number, milliseconds: number, once: () => Promise<unknown>): Promise<Rate> => {
  const took: number[] = []
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
  return { rate, p50Ms: took.sort((a, b) => a - b)[took.length >> 1] ?? NaN }
}
