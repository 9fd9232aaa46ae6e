/** The candidate that `name` was most likely meant to be: at most a third of its letters differ, upper and lower case aside. */
export function nearest(name: string, candidates: readonly string[]): string | undefined {
  const distances = candidates.map(candidate => ({
    candidate,
    distance: distanceOf(name.toLowerCase().slice(0, 64), candidate.toLowerCase()),
  }))
  const [best] = distances.sort((a, b) => a.distance - b.distance)
  return best && best.distance <= Math.floor(best.candidate.length / 3) ? best.candidate : undefined
}

/** Levenshtein's distance, in UTF-16 units. */
function distanceOf(a: string, b: string): number {
  let row = Array.from({ length: b.length + 1 }, (_, index) => index)
  for (let i = 0; i < a.length; i++) {
    const next = [i + 1]
    for (let j = 0; j < b.length; j++)
      next.push(Math.min((next[j] ?? 0) + 1, (row[j + 1] ?? 0) + 1, (row[j] ?? 0) + (a[i] === b[j] ? 0 : 1)))
    row = next
  }
  return row.at(-1) ?? 0
}
