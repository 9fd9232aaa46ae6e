import type { IncomingMessage } from 'node:http'
import { GatewayError, invalidRequest, payloadTooLarge } from '../errors.js'

const tooLarge = (maxBytes: number): GatewayError => {
  const error = payloadTooLarge('The request body', maxBytes)
  // The rest stays unread, so the connection cannot be used again.
  error.headers.Connection = 'close'
  return error
}

/** The body's bytes. Throws `payload_too_large` as soon as that is known, without reading the rest. */
export const readBody = (request: IncomingMessage, maxBytes: number): Promise<Buffer> => {
  if (Number(request.headers['content-length'] ?? 0) > maxBytes) return Promise.reject(tooLarge(maxBytes))
  return new Promise((resolve, reject) => {
    const chunks: Buffer[] = []
    let size = 0
    const stop = (): void => {
      request.off('data', onData).off('end', onEnd).off('error', onGone).off('close', onGone)
    }
    const onData = (chunk: Buffer): void => {
      size += chunk.length
      if (size > maxBytes) {
        stop()
        request.pause()
        reject(tooLarge(maxBytes))
      } else chunks.push(chunk)
    }
    const onEnd = (): void => {
      stop()
      resolve(chunks.length === 1 && chunks[0] ? chunks[0] : Buffer.concat(chunks, size))
    }
    const onGone = (): void => {
      stop()
      reject(invalidRequest('The client closed the connection before the request body was complete'))
    }
    request.on('data', onData).on('end', onEnd).on('error', onGone).on('close', onGone)
  })
}

/** The JSON document in the body; `undefined` when there is no body. Throws 415 for another type, 400 for what is not JSON. */
export const readJson = async (request: IncomingMessage, maxBytes: number): Promise<unknown> => {
  const type = request.headers['content-type']
  if (type !== undefined && !isJson(type)) throw wrongType(type, 'application/json')
  const bytes = await readBody(request, maxBytes)
  if (bytes.length === 0) return undefined
  if (type === undefined) throw wrongType('none', 'application/json')
  try {
    return JSON.parse(decoder.decode(bytes)) as unknown
  } catch (error) {
    throw invalidRequest(`The request body is not valid JSON: ${(error as Error).message}`)
  }
}

/** Refuses bytes that are not UTF-8, as JSON has to be. */
const decoder = new TextDecoder('utf-8', { fatal: true })

const isJson = (type: string): boolean => /^application\/(?:[\w.+-]+\+)?json\s*(?:;|$)/i.test(type)

export const wrongType = (type: string, wanted: string): GatewayError =>
  new GatewayError('invalid_request', `The content type ${type.slice(0, 100)} cannot be used here: send ${wanted}`, { status: 415 })
