import { createHmac, timingSafeEqual } from 'node:crypto'

/** `sha256=` and the HMAC, in hex, of the timestamp, a dot, and the body's exact bytes. */
export function sign(secret: string, timestamp: string, body: string | Buffer): string {
  return `sha256=${createHmac('sha256', secret).update(`${timestamp}.`).update(body).digest('hex')}`
}

export interface SignedRequest {
  signature: string | undefined
  timestamp: string | undefined
  body: Buffer
  /** When the gateway took the request in: a delivery that waited for this plugin is older than now. */
  receivedAt: string
}

/** Why a request cannot be trusted; undefined when it can. The signature covers the timestamp, so neither can be changed alone. */
export function distrust(secret: string, toleranceSeconds: number, request: SignedRequest): string | undefined {
  const { signature, timestamp, body, receivedAt } = request
  if (signature === undefined || timestamp === undefined) return 'The headers X-Signature and X-Timestamp are required'
  if (!/^\d{1,12}$/.test(timestamp)) return 'X-Timestamp must be seconds since 1970'
  const [given, expected] = [Buffer.from(signature), Buffer.from(sign(secret, timestamp, body))]
  if (given.length !== expected.length || !timingSafeEqual(given, expected)) return 'X-Signature does not match the body and the secret'
  const secondsOff = Math.abs(Date.parse(receivedAt) / 1000 - Number(timestamp))
  return secondsOff <= toleranceSeconds ? undefined : `X-Timestamp is more than ${toleranceSeconds} s off`
}
