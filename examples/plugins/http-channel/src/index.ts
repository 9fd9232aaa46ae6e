import { defineChannelAdapter, rejected } from '@agent-gateway/sdk'
import { receiveWebhook } from './inbound.js'
import { deliver, type Callback } from './outbound.js'

/** The part of manifest.json that gives the settings their types. */
const manifest = {
  recipientMetadataKey: 'chatId',
  settings: [
    { name: 'secret', required: true },
    { name: 'callbackUrl', required: true },
    { name: 'toleranceSeconds', default: '300' },
  ],
} as const

const WEAK_SECRET_LENGTH = 16
const MAX_TOLERANCE_SECONDS = 86_400

/** Signed JSON in by webhook, signed JSON out to a callback URL. */
export default defineChannelAdapter({
  manifest,

  connect({ settings, log }) {
    const callback = readCallback(settings.callbackUrl, settings.secret)
    const toleranceSeconds = readTolerance(settings.toleranceSeconds)
    if (settings.secret.length < WEAK_SECRET_LENGTH)
      log.warn(`The secret is shorter than ${WEAK_SECRET_LENGTH} characters: it can be guessed from a signature`)
    return {
      info: `posts replies to ${callback.url.origin}`,
      webhook: request => receiveWebhook(request, settings.secret, toleranceSeconds),
      async send({ deliveryId, recipient, text }, call) {
        const body = { type: 'message', id: deliveryId, chatId: recipient, text }
        const externalId = await deliver(callback, { idempotencyKey: deliveryId, body, signal: call.signal, progress: call.progress })
        return externalId === undefined ? {} : { externalId }
      },
    }
  },

  async test({ settings, signal }) {
    try {
      readTolerance(settings.toleranceSeconds)
      const callback = readCallback(settings.callbackUrl, settings.secret)
      await deliver(callback, { idempotencyKey: `test-${Date.now()}`, body: { type: 'test' }, signal, progress: () => undefined })
      return { ok: true, message: `${callback.url.origin} took a signed test request` }
    } catch (error) {
      return { ok: false, message: (error as Error).message }
    }
  },
})

function readCallback(address: string, secret: string): Callback {
  const url = URL.canParse(address) ? new URL(address) : undefined
  if (url?.protocol !== 'http:' && url?.protocol !== 'https:')
    throw rejected('callbackUrl must be an address that begins with http:// or https://')
  // fetch takes no user and password in an address, and they would show up in messages.
  if (url.username !== '' || url.password !== '')
    throw rejected('callbackUrl must not hold a user or a password: requests are signed instead')
  return { url, secret }
}

function readTolerance(text: string): number {
  const seconds = Number(text)
  if (/^\d+$/.test(text) && seconds >= 1 && seconds <= MAX_TOLERANCE_SECONDS) return seconds
  throw rejected(`toleranceSeconds must be a whole number from 1 to ${MAX_TOLERANCE_SECONDS}`)
}
