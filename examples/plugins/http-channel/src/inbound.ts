import { webhookBytes, type InboundMessage, type WebhookRequest, type WebhookResult } from '@agent-gateway/sdk'
import { distrust } from './signature.js'

const MAX_ID_LENGTH = 256

/** Answers one request to the channel's webhook URL. */
export function receiveWebhook(request: WebhookRequest, secret: string, toleranceSeconds: number): WebhookResult {
  if (request.method === 'GET') return answerChallenge(request.query.challenge)
  if (request.method !== 'POST') return refuse(405, 'POST a message, or GET with a challenge', { allow: 'GET, POST' })
  const body = webhookBytes(request)
  const { 'x-signature': signature, 'x-timestamp': timestamp } = request.headers
  const doubt = distrust(secret, toleranceSeconds, { signature, timestamp, body, receivedAt: request.receivedAt })
  if (doubt !== undefined) return refuse(401, doubt)
  const message = readMessage(body.toString())
  if (typeof message === 'string') return refuse(400, message)
  return { response: { status: 202, ...json({ accepted: message.id }) }, messages: [message] }
}

/** Proves to the sender that this URL is meant for it. Only harmless characters are echoed. */
function answerChallenge(challenge: string | undefined): WebhookResult {
  if (challenge === undefined || !/^[\w.~-]{1,256}$/.test(challenge))
    return refuse(400, 'The query needs a challenge of 1 to 256 of A-Z a-z 0-9 . _ ~ -')
  return { response: { status: 200, headers: { 'content-type': 'text/plain; charset=utf-8' }, body: challenge } }
}

/** The message, or what is wrong with it. */
function readMessage(text: string): InboundMessage | string {
  let body: unknown
  try {
    body = JSON.parse(text)
  } catch {
    return 'The body is not valid JSON'
  }
  const { id, chatId, from, text: words, sentAt } = asObject(body)
  const sender = asObject(from)
  if (!isId(id)) return `id must be a text of 1 to ${MAX_ID_LENGTH} characters`
  if (!isId(chatId)) return `chatId must be a text of 1 to ${MAX_ID_LENGTH} characters`
  if (!isId(sender.id)) return `from.id must be a text of 1 to ${MAX_ID_LENGTH} characters`
  if (typeof words !== 'string' || words.trim() === '') return 'text must be a text that is not blank'
  if (sentAt !== undefined && (typeof sentAt !== 'string' || Number.isNaN(Date.parse(sentAt)))) return 'sentAt must be an ISO 8601 time'
  return {
    id,
    text: words,
    sender: { id: sender.id, ...(typeof sender.name === 'string' ? { name: sender.name } : {}) },
    metadata: { chatId },
    ...(sentAt === undefined ? {} : { sentAt: new Date(sentAt).toISOString() }),
  }
}

const asObject = (value: unknown): Record<string, unknown> =>
  typeof value === 'object' && value !== null ? (value as Record<string, unknown>) : {}

const isId = (value: unknown): value is string => typeof value === 'string' && value !== '' && value.length <= MAX_ID_LENGTH

const refuse = (status: number, error: string, headers: Record<string, string> = {}): WebhookResult => {
  const { body, headers: typed } = json({ error })
  return { response: { status, headers: { ...typed, ...headers }, body } }
}

const json = (value: unknown): { headers: Record<string, string>; body: string } => ({
  headers: { 'content-type': 'application/json' },
  body: JSON.stringify(value),
})
