import { Reply } from '../../core/http/route.js'
import type { WebhookAnswer } from './contract.js'

/** Headers that a receiver may set. Everything else belongs to the gateway: cookies, framing, security, caching of its own. */
const ALLOWED = new Set(['content-type', 'content-language', 'allow', 'retry-after', 'www-authenticate'])
/** And extensions, such as `x-hub-...`, except those that speak for the gateway or change how a browser treats the answer. */
const ALLOWED_PREFIX = 'x-'
const RESERVED = /^x-(service-|forwarded-|content-type-options|frame-options|xss-protection|powered-by|accel-|sendfile)/
const MAX_HEADERS = 20
const MAX_HEADER_LENGTH = 2048

/** Types that a browser would run as a page. They go out as plain text: a webhook URL is no place to host one. */
const ACTIVE_TYPE = /^\s*(text\/html|application\/xhtml\+xml|image\/svg\+xml|multipart\/)/i
const PLAIN = 'text/plain; charset=utf-8'

/** The answer as sent: its status, the headers that a receiver may set, and a content type that no browser runs. */
export const toReply = ({ status, headers = {}, body }: WebhookAnswer): Reply => {
  const kept = allowedHeaders(headers)
  if (body === undefined || body.length === 0) return new Reply(status, null, withoutType(kept))
  const type = kept['content-type']
  const safe = type === undefined ? defaultType(body) : ACTIVE_TYPE.test(type) ? PLAIN : type
  return new Reply(status, body, { ...withoutType(kept), 'Content-Type': safe })
}

const defaultType = (body: Buffer | string): string => (typeof body === 'string' ? PLAIN : 'application/octet-stream')

/** The headers on the allow-list, by lower-case name. */
export const allowedHeaders = (headers: Record<string, string>): Record<string, string> =>
  Object.fromEntries(
    Object.entries(headers)
      .map(([name, value]) => [name.toLowerCase(), value] as const)
      .filter(([name, value]) => isAllowed(name) && isHeaderValue(value))
      .slice(0, MAX_HEADERS),
  )

const isAllowed = (name: string): boolean =>
  ALLOWED.has(name) || (name.startsWith(ALLOWED_PREFIX) && /^[a-z0-9-]{3,64}$/.test(name) && !RESERVED.test(name))

const isHeaderValue = (value: string): boolean => value.length <= MAX_HEADER_LENGTH && /^[\t\x20-\x7e]*$/.test(value)

const withoutType = (headers: Record<string, string>): Record<string, string> =>
  Object.fromEntries(Object.entries(headers).filter(([name]) => name !== 'content-type'))
