import { compare } from 'semver'
import type { Candidate, Rejection, Served } from './discovery.js'

interface Sorted {
  accepted: Candidate[]
  rejected: Rejection[]
}

/** Of several with one id (without regard to case) the highest version stays, at equal versions the first found. */
export const keepHighest = (candidates: readonly Candidate[]): Sorted => {
  const kept = new Map<string, Candidate>()
  const rejected: Rejection[] = []
  const reject = (loser: Candidate, winner: Candidate): void => {
    const { id, manifest, source } = loser
    rejected.push({
      id,
      version: manifest.version,
      source,
      reason: `the same id as ${winner.source}, which has version ${winner.manifest.version}`,
    })
  }
  for (const candidate of candidates) {
    const key = candidate.id.toLowerCase()
    const other = kept.get(key)
    if (other && compare(candidate.manifest.version, other.manifest.version) <= 0) reject(candidate, other)
    else {
      if (other) reject(other, candidate)
      kept.set(key, candidate)
    }
  }
  return { accepted: [...kept.values()], rejected }
}

/** Takes back what would replace a served plugin by the same or a lower version only because its own files are damaged now. */
export const holdBack = (candidates: readonly Candidate[], rejections: readonly Rejection[], served: readonly Served[]): Sorted => {
  const damaged = new Set(rejections.map(({ source }) => source))
  const held = new Map(served.filter(({ source }) => damaged.has(source)).map(one => [one.id.toLowerCase(), one]))
  const accepted: Candidate[] = []
  const rejected: Rejection[] = []
  for (const candidate of candidates) {
    const { id, manifest, source } = candidate
    const holder = held.get(id.toLowerCase())
    if (!holder || compare(manifest.version, holder.version) > 0) accepted.push(candidate)
    else {
      const reason = `the same id as ${holder.source}, which is damaged at the moment and runs on with version ${holder.version}`
      rejected.push({ id, version: manifest.version, source, reason })
    }
  }
  return { accepted, rejected }
}
