import { invalidRequest } from '../../core/errors.js'
import { Reply, type RouteRequest } from '../../core/http/route.js'
import { readByteRange, type ByteRange } from './byteRange.js'
import type { DocumentRow } from './rows.js'
import type { DocumentFile } from './service.js'

const TYPE = 'application/octet-stream'

/** Answers with the file, or the part of it that was asked for. */
export const answerWithFile = async ({ document, open }: DocumentFile, headers: RouteRequest['headers']): Promise<Reply> => {
  const { size, name } = document
  const etag = etagOf(document)
  const range = isSameVersion(headers['if-range'], etag) ? readByteRange(headers.range, size) : undefined
  if (range === 'unsatisfiable')
    throw invalidRequest(`The range begins behind the end of the file, which has ${size} bytes`, {
      status: 416,
      headers: { 'Content-Range': `bytes */${size}`, 'Accept-Ranges': 'bytes' },
    })
  return new Reply(range ? 206 : 200, await open(range), {
    'Content-Type': TYPE,
    'Content-Length': String(range ? range.end - range.start + 1 : size),
    'Content-Disposition': attachment(name),
    'Accept-Ranges': 'bytes',
    ETag: etag,
    // Ranges and their ETag are those of the file's own bytes.
    'Cache-Control': 'no-store, no-transform',
    ...(range ? { 'Content-Range': contentRange(range, size) } : {}),
  })
}

/** A version's bytes never change. */
const etagOf = ({ id, version }: DocumentRow): string => `"${id}-v${version}"`

/** Whether a part may be answered: without `If-Range`, or with the ETag that the part would be added to. */
const isSameVersion = (ifRange: string | string[] | undefined, etag: string): boolean => ifRange === undefined || ifRange === etag

const contentRange = ({ start, end }: ByteRange, size: number): string => `bytes ${start}-${end}/${size}`

/** Saved, never shown: someone's HTML must not run under the gateway's address. RFC 6266 with the encoding of RFC 5987. */
const attachment = (name: string): string => {
  const ascii = name.replaceAll(/[^\u0020-\u007e]|["\\%]/g, '_')
  const encoded = encodeURIComponent(name.replaceAll(/\p{Surrogate}/gu, '_')).replaceAll(
    /['()*]/g,
    character => `%${character.charCodeAt(0).toString(16).toUpperCase()}`,
  )
  return `attachment; filename="${ascii}"; filename*=UTF-8''${encoded}`
}
