/**
 * How many seconds the caller would rather wait than be answered at once: `Prefer: wait=30` (RFC 7240), at most `limit`.
 * 0 when it does not say, or says it in a form that is none: such a preference is ignored.
 */
export const preferredWait = (prefer: string | string[] | undefined, limit: number): number => {
  if (prefer === undefined) return 0
  // Of one that is given twice the first counts.
  const seconds = /(?:^|,)\s*wait\s*=\s*"?(\d{1,9})"?\s*(?:[,;]|$)/i.exec(String(prefer))?.[1]
  return Math.min(Number(seconds ?? 0), limit)
}
