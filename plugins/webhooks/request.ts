import type { IncomingHttpHeaders } from 'node:http'

/** Headers of the connection, not of the request (RFC 9110, 7.6.1), and cookies, which no platform sends on purpose. */
const DROPPED = new Set([
  'connection',
  'keep-alive',
  'proxy-authenticate',
  'proxy-authorization',
  'proxy-connection',
  'te',
  'trailer',
  'transfer-encoding',
  'upgrade',
  'expect',
  'cookie',
])

/** The headers that a receiver sees; a repeated one is joined by commas. */
export const requestHeaders = (headers: IncomingHttpHeaders): Record<string, string> =>
  Object.fromEntries(
    Object.entries(headers)
      .filter(([name, value]) => value !== undefined && !DROPPED.has(name))
      .map(([name, value]) => [name, Array.isArray(value) ? value.join(', ') : (value ?? '')]),
  )
