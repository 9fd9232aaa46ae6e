import { z } from 'zod'
import type { InboundMessage } from '../../sdk/protocol.js'

/** What adapters answer is checked like any other input from outside: a plugin may be written in anything. */
const MAX_TEXT_LENGTH = 256 * 1024
const MAX_MESSAGES = 500
const MAX_ANSWER_LENGTH = 1024 * 1024
export const MAX_CURSOR_LENGTH = 64 * 1024

export const Metadata = z
  .record(z.string().max(200), z.union([z.string().max(4096), z.number(), z.boolean()]))
  .refine(metadata => Object.keys(metadata).length <= 50, 'at most 50 entries')

const Message = z.object({
  id: z.string().min(1).max(512),
  text: z.string().max(MAX_TEXT_LENGTH),
  sender: z.object({ id: z.string().max(512), name: z.string().max(512).optional() }),
  metadata: Metadata,
  sentAt: z.string().max(64).optional(),
})

const Messages = z.array(Message).max(MAX_MESSAGES)

const Webhook = z.object({
  response: z
    .object({
      status: z.int().min(200).max(599).default(200),
      headers: z.record(z.string(), z.string()).default({}),
      body: z.string().max(MAX_ANSWER_LENGTH).optional(),
      bodyEncoding: z.enum(['utf8', 'base64']).default('utf8'),
    })
    .default({ status: 200, headers: {}, bodyEncoding: 'utf8' }),
  messages: Messages.default([]),
})
export interface AdapterAnswer {
  status: number
  headers: Record<string, string>
  body: Buffer | string | undefined
  messages: InboundMessage[]
}

const Receive = z.object({ channelId: z.string().max(100), messages: Messages, cursor: z.string().max(MAX_CURSOR_LENGTH).optional() })

const Connect = z.object({ info: z.string().max(500).optional() })
const Disconnect = z.object({ cursor: z.string().max(MAX_CURSOR_LENGTH).optional() })
const Test = z.object({ ok: z.boolean(), message: z.string().max(2000).optional() })
const Status = z.object({
  channelId: z.string().max(100),
  status: z.enum(['connected', 'disconnected', 'error']),
  message: z.string().max(2000).optional(),
})

/** The adapter answered with something that the protocol does not allow. */
export class BadAnswer extends Error {
  override readonly name = 'BadAnswer'
}

const read = <T>(schema: z.ZodType<T>, value: unknown, method: string): T => {
  const result = schema.safeParse(value)
  if (result.success) return result.data
  const issues = result.error.issues.slice(0, 3).map(({ path, message }) => `${path.map(String).join('.')}: ${message}`)
  throw new BadAnswer(`The adapter's ${method} is not as the protocol says: ${issues.join('; ')}`)
}

export const readWebhookResult = (value: unknown): AdapterAnswer => {
  const { response, messages } = read(Webhook, value, 'answer to channel.webhook')
  const { status, headers, body, bodyEncoding } = response
  return {
    status,
    headers,
    body: body !== undefined && bodyEncoding === 'base64' ? Buffer.from(body, 'base64') : body,
    messages: messages as InboundMessage[],
  }
}

export const readReceive = (value: unknown): { channelId: string; messages: InboundMessage[]; cursor?: string | undefined } => {
  const { messages, ...rest } = read(Receive, value, 'channel.receive')
  return { ...rest, messages: messages as InboundMessage[] }
}

export const readConnectResult = (value: unknown): z.infer<typeof Connect> => read(Connect, value ?? {}, 'answer to channel.connect')
export const readDisconnectResult = (value: unknown): z.infer<typeof Disconnect> =>
  read(Disconnect, value ?? {}, 'answer to channel.disconnect')
export const readTestResult = (value: unknown): z.infer<typeof Test> => read(Test, value, 'answer to channel.test')
/** `undefined` for what is none: nobody waits for an answer to a notification. */
export const readStatus = (value: unknown): z.infer<typeof Status> | undefined => Status.safeParse(value).data
