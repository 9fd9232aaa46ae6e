import { mkdir, rm, stat } from 'node:fs/promises'
import type { IncomingMessage } from 'node:http'
import { basename, join } from 'node:path'
import { diskFull, GatewayError, invalidRequest, payloadTooLarge, validationFailed } from '../errors.js'
import { isDiskFull } from '../files.js'
import { wrongType } from './body.js'
import type { UploadedFile } from './route.js'

/** Files in one form, and bytes of all its other fields together. */
const MAX_FILES = 10
const MAX_FIELD_BYTES = 1024 * 1024
const MAX_NAME_LENGTH = 255
const UNKNOWN_TYPE = 'application/octet-stream'

export interface Upload {
  files: UploadedFile[]
  fields: Record<string, string>
  /** Removes the files that were not moved away. */
  remove(): Promise<void>
}

interface UploadOptions {
  field: string | undefined
  maxBytes: number
  /** Made when missing; on the same disk as the data, so that a file is kept by a rename. */
  directory: string
}

/** Streams a multipart/form-data body to disk. What was written is removed again when it fails. */
export const readUpload = async (request: IncomingMessage, { field, maxBytes, directory }: UploadOptions): Promise<Upload> => {
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
  const status = (error as { httpCode?: number }).httpCode
  const message = (error as Error).message
  if (status === 413) return closing(payloadTooLarge('The upload', maxBytes))
  if (status !== undefined && status < 500) return closing(invalidRequest(`The form could not be read: ${message}`))
  return error
}
