interface Ranked {
  id: string
  score: number
}

/** Cormack, Clarke and Büttcher, "Reciprocal Rank Fusion", SIGIR 2009. */
const RANK_CONSTANT = 60

/** Two rankings as one, by ranks, since their scores cannot be compared. One that is empty leaves the other as it is. */
export const fuse = (first: Ranked[], second: Ranked[]): Ranked[] => {
  if (second.length === 0) return first
  const scores = new Map<string, number>()
  for (const ranking of [first, second])
    for (const [rank, { id }] of ranking.entries()) scores.set(id, (scores.get(id) ?? 0) + 1 / (RANK_CONSTANT + rank + 1))
  return [...scores].map(([id, score]) => ({ id, score })).sort((a, b) => b.score - a.score)
}
