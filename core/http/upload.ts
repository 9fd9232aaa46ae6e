import { mkdir, rm, stat } from 'node:fs/promises'
import type { IncomingMessage } from 'node:http'
import { basename, join } from 'node:path'
import { diskFull, GatewayError, invalidRequest, payloadTooLarge, validationFailed } from '../errors.js'
import { isDiskFull } from '../files.js'
import { refuseEncoding, tooLate, wrongType } from './body.js'
import type { UploadedFile } from './route.js'

/** Files in one form; its other fields, and the bytes of all of them together. */
const MAX_FILES = 10
const MAX_FIELDS = 1000
const MAX_FIELD_BYTES = 1024 * 1024
const MAX_NAME_LENGTH = 255
const UNKNOWN_TYPE = 'application/octet-stream'

/** The parser's codes for what a form can have too much of, other than bytes of files. */
const TOO_MUCH: Record<number, string> = {
  1006: `its fields that are not files are larger than ${MAX_FIELD_BYTES} bytes together`,
  1007: `it has more than ${MAX_FIELDS} fields`,
  1015: `it has more than ${MAX_FILES} files`,
}
/** The parser's code for a `Content-Transfer-Encoding` that it does not know, which it reports as the server's fault (501). */
const UNKNOWN_ENCODING = 1014

export interface Upload {
  files: UploadedFile[]
  fields: Record<string, string>
  /** Removes the files that were not moved away. */
  remove(): Promise<void>
}

interface UploadOptions {
  field: string | undefined
  maxBytes: number
  /** How long the client may send nothing. */
  silenceMs: number
  /** Made when missing; on the same disk as the data, so that a file is kept by a rename. */
  directory: string
}

/** Streams a multipart/form-data body to disk. What was written is removed again when it fails. */
export const readUpload = async (request: IncomingMessage, { field, maxBytes, silenceMs, directory }: UploadOptions): Promise<Upload> => {
  refuseEncoding(request)
  const type = request.headers['content-type'] ?? 'none'
  if (!/^multipart\/form-data\s*;/i.test(type)) throw wrongType(type, 'multipart/form-data with a file')
  // Room for the form's own lines and other fields.
  if (Number(request.headers['content-length'] ?? 0) > maxBytes + 2 * MAX_FIELD_BYTES)
    throw closing(payloadTooLarge('The upload', maxBytes))
  await mkdir(directory, { recursive: true, mode: 0o700 }).catch((error: unknown) => {
    throw translate(error, maxBytes)
  })
  const { default: formidable } = await import('formidable')
  const form = formidable({
    uploadDir: directory,
    maxFiles: MAX_FILES,
    maxFileSize: maxBytes,
    maxTotalFileSize: maxBytes,
    maxFields: MAX_FIELDS,
    maxFieldsSize: MAX_FIELD_BYTES,
    allowEmptyFiles: true,
    minFileSize: 0,
  })
  // A part that has a file name is a file, also without a content type (RFC 7578, section 4.4); the parser takes it for a field.
  // What it returns is waited for before the part's bytes are given out.
  form.onPart = part =>
    form._handlePart(part.originalFilename === null ? part : Object.assign(part, { mimetype: part.mimetype ?? UNKNOWN_TYPE }))
  const started: string[] = []
  form.on('fileBegin', (_name, file) => started.push(file.filepath))
  const remove = async (): Promise<void> => {
    await Promise.all(started.map(path => rm(path, { force: true })))
  }
  const stopWatching = onSilence(request, silenceMs, () => {
    // It closes what it has open, and ends `parse`.
    ;(form as unknown as { _error(error: Error): void })._error(tooLate())
  })
  try {
    const [fields, files] = await form.parse(request)
    const received = Object.entries(files).flatMap(([name, list]) =>
      (list ?? []).map(file => ({
        field: name,
        name: cleanName(file.originalFilename),
        mimeType: file.mimetype ?? UNKNOWN_TYPE,
        size: file.size,
        path: join(directory, basename(file.filepath)),
      })),
    )
    await Promise.all(received.map(checkWhole))
    if (!received.some(file => field === undefined || file.field === field))
      throw validationFailed([{ path: field ?? 'file', message: `the form needs a file in the field "${field ?? 'file'}"` }])
    return {
      files: received,
      fields: Object.fromEntries(Object.entries(fields).map(([name, values]) => [name, values?.[0] ?? ''])),
      remove,
    }
  } catch (error) {
    await remove()
    throw translate(error, maxBytes)
  } finally {
    stopWatching()
  }
}

/** Looks this many times in the length of a silence. */
const LOOKS = 4

/** Calls back once nothing has come from the client for that long. By the socket's count: the bytes are the parser's. Returns the undo. */
const onSilence = ({ socket }: IncomingMessage, silenceMs: number, act: () => void): (() => void) => {
  let received = socket.bytesRead
  let quiet = 0
  const timer = setInterval(() => {
    quiet = socket.bytesRead === received ? quiet + 1 : 0
    received = socket.bytesRead
    if (quiet >= LOOKS) act()
  }, silenceMs / LOOKS)
  return () => {
    clearInterval(timer)
  }
}

/** The parser may miss that the disk filled up under the last writes, and takes the file for whole. */
const checkWhole = async ({ path, size }: UploadedFile): Promise<void> => {
  const written = await stat(path).catch(() => undefined)
  if (written?.size !== size) throw diskFull(new Error(`${path} holds ${written?.size ?? 'none'} of the ${size} bytes received`))
}

/** The client's file name without directories and control characters. */
const cleanName = (name: string | null): string => {
  const clean =
    (name ?? '')
      .replaceAll('\\', '/')
      .split('/')
      .at(-1)
      ?.replace(/[\u0000-\u001f\u007f]/g, '')
      .trim() ?? ''
  return clean === '' || clean === '.' || clean === '..' ? 'unnamed' : clean.slice(-MAX_NAME_LENGTH)
}

const closing = (error: GatewayError): GatewayError => {
  error.headers.Connection = 'close'
  return error
}

const translate = (error: unknown, maxBytes: number): unknown => {
  if (error instanceof GatewayError) return error
  if (isDiskFull(error)) return closing(diskFull(error))
  const { httpCode: status, code = 0, message } = error as Error & { httpCode?: number; code?: number }
  const tooMuch = TOO_MUCH[code]
  if (tooMuch !== undefined) return closing(new GatewayError('payload_too_large', `The form cannot be taken: ${tooMuch}`))
  if (status === 413) return closing(payloadTooLarge('The upload', maxBytes))
  if (code === UNKNOWN_ENCODING || (status !== undefined && status < 500))
    return closing(invalidRequest(`The form could not be read: ${message}`))
  return error
}
