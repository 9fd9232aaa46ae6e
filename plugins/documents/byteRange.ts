/** A part of a file, both ends included. */
export interface ByteRange {
  start: number
  end: number
}

/**
 * What a `Range` header asks for of a file of this size: one range of bytes as in RFC 9110, section 14. `undefined`, the
 * whole file: without a header, for several ranges at once (which a server may answer in full), other units, and what
 * makes no sense. `'unsatisfiable'`: it begins behind the end.
 */
export const readByteRange = (header: string | undefined, size: number): ByteRange | 'unsatisfiable' | undefined => {
  const match = /^bytes=[ \t]*(\d*)-(\d*)[ \t]*$/i.exec(header ?? '')
  if (!match || (match[1] === '' && match[2] === '')) return undefined
  const [first, last] = [match[1], match[2]].map(digits => (digits === '' ? undefined : Number(digits)))
  if (first === undefined) {
    const length = Math.min(last ?? 0, size)
    return length === 0 ? 'unsatisfiable' : { start: size - length, end: size - 1 }
  }
  if (last !== undefined && last < first) return undefined
  return first >= size ? 'unsatisfiable' : { start: first, end: Math.min(last ?? size - 1, size - 1) }
}
