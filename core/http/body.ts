import type { IncomingMessage } from 'node:http'
import { GatewayError, invalidRequest, payloadTooLarge } from '../errors.js'

const tooLarge = (maxBytes: number): GatewayError => {
  const error = payloadTooLarge('The request body', maxBytes)
  // The rest stays unread, so the connection cannot be used again.
  error.headers.Connection = 'close'
  return error
}

/** A whole body may take this many times as long as it may be silent. */
const SILENCES = 10

/** Says that the client has stopped in the middle of its body. The rest stays unread here too. */
export const tooLate = (): GatewayError =>
  new GatewayError('invalid_request', 'The request body did not arrive in time: send it again, without a pause', {
    status: 408,
    headers: { Connection: 'close' },
  })

/**
 * For a request that was answered before its body was there. The rest is read past, so that the connection can serve
 * the next request; one that goes on sending it ends after this long.
 */
export const boundRest = (request: IncomingMessage, milliseconds: number): void => {
  const { headers, socket } = request
  if (request.complete || (headers['content-length'] === undefined && headers['transfer-encoding'] === undefined)) return
  const cut = setTimeout(() => {
    if (!request.complete) socket.destroy()
  }, milliseconds).unref()
  request.once('close', () => {
    clearTimeout(cut)
  })
}

/** What a body may have, in bytes, and how long it may be silent. */
export interface BodyLimits {
  maxBytes: number
  silenceMs: number
}

/** The body's bytes. Throws `payload_too_large` as soon as that is known, without reading the rest; 408 when it does not come. */
export const readBody = (request: IncomingMessage, { maxBytes, silenceMs }: BodyLimits): Promise<Buffer> => {
  if (Number(request.headers['content-length'] ?? 0) > maxBytes) return Promise.reject(tooLarge(maxBytes))
  return new Promise((resolve, reject) => {
    const chunks: Buffer[] = []
    let size = 0
    const giveUp = (error: GatewayError): void => {
      stop()
      request.pause()
      reject(error)
    }
    const deadline = performance.now() + SILENCES * silenceMs
    const silence = setTimeout(() => {
      giveUp(tooLate())
    }, silenceMs)
    const stop = (): void => {
      clearTimeout(silence)
      request.off('data', onData).off('end', onEnd).off('error', onGone).off('close', onGone)
    }
    const onData = (chunk: Buffer): void => {
      size += chunk.length
      chunks.push(chunk)
      silence.refresh()
      if (size > maxBytes) giveUp(tooLarge(maxBytes))
      else if (performance.now() > deadline) giveUp(tooLate())
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
export const readJson = async (request: IncomingMessage, limits: BodyLimits): Promise<unknown> => {
  refuseEncoding(request)
  const type = request.headers['content-type']
  if (type !== undefined && !isJson(type)) throw wrongType(type, 'application/json')
  const bytes = await readBody(request, limits)
  if (bytes.length === 0) return undefined
  if (type === undefined) throw wrongType('none', 'application/json')
  if (isNestedTooDeep(bytes)) throw invalidRequest(`The request body is nested more than ${MAX_DEPTH} levels deep`)
  try {
    return JSON.parse(decoder.decode(bytes)) as unknown
  } catch (error) {
    throw invalidRequest(`The request body is not valid JSON: ${(error as Error).message}`)
  }
}

/** What is read deeper than this could be read, but not be written again: whoever writes it goes down a call for each level. */
const MAX_DEPTH = 500
const [QUOTE, BACKSLASH] = [0x22, 0x5c]
/** Brackets and braces lie so far apart. */
const APART = 0x20
const [OPENING, CLOSING] = [0x7b, 0x7d]

const isNestedTooDeep = (bytes: Buffer): boolean => {
  // Each level is a byte at least: small bodies are not looked through.
  if (bytes.length <= MAX_DEPTH) return false
  let depth = 0
  for (let at = 0; at < bytes.length; at += 1) {
    const byte = bytes[at] as number
    if (byte === QUOTE) at = endOfText(bytes, at)
    else if ((byte | APART) === OPENING) {
      depth += 1
      if (depth > MAX_DEPTH) return true
    } else if ((byte | APART) === CLOSING) depth -= 1
  }
  return false
}

/** Where the text that begins here ends; the end of the bytes when it does not. */
const endOfText = (bytes: Buffer, start: number): number => {
  for (let end = bytes.indexOf(QUOTE, start + 1); end >= 0; end = bytes.indexOf(QUOTE, end + 1)) {
    let first = end
    while (bytes[first - 1] === BACKSLASH) first -= 1
    if ((end - first) % 2 === 0) return end
  }
  return bytes.length
}

/** Refuses bytes that are not UTF-8, as JSON has to be. */
const decoder = new TextDecoder('utf-8', { fatal: true })

const isJson = (type: string): boolean => /^application\/(?:[\w.+-]+\+)?json\s*(?:;|$)/i.test(type)

/** Throws 415 for a compressed body: what its bytes mean is not looked into. */
export const refuseEncoding = ({ headers }: IncomingMessage): void => {
  const encoding = headers['content-encoding']
  if (encoding === undefined || /^\s*(?:identity)?\s*$/i.test(encoding)) return
  throw new GatewayError('invalid_request', `The content encoding ${encoding.slice(0, 100)} cannot be used here: send the body as it is`, {
    status: 415,
    // RFC 9110, section 15.5.16: tells the encoding apart from the type.
    headers: { 'Accept-Encoding': 'identity' },
  })
}

export const wrongType = (type: string, wanted: string): GatewayError =>
  new GatewayError('invalid_request', `The content type ${type.slice(0, 100)} cannot be used here: send ${wanted}`, { status: 415 })
