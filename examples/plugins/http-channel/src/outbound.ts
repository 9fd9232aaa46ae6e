import { rejected, temporary } from '@agent-gateway/sdk'
import { setTimeout as sleep } from 'node:timers/promises'
import { sign } from './signature.js'

/** Tries within one call; the gateway itself tries again later, with the same idempotency key. */
const ATTEMPTS = 3
const ATTEMPT_MS = 8000
const FIRST_PAUSE_MS = 250
/** A longer `Retry-After` is left to the gateway. */
const MAX_PAUSE_MS = 2000
const MAX_ANSWER_BYTES = 64 * 1024

export interface Callback {
  url: URL
  secret: string
}

export interface Delivery {
  idempotencyKey: string
  body: Record<string, unknown>
  signal: AbortSignal
  /** Called between attempts. */
  progress: () => void
}

/** One attempt that did not work and may work later. */
interface Setback {
  why: string
  retryAfterMs?: number
  cause?: unknown
}

/**
 * Posts signed JSON until it is taken. Resolves with the `id` of the answer, if it has one. Throws `rejected` when the
 * callback refuses it for good, and `temporary` when it may take it later.
 */
export async function deliver(callback: Callback, { idempotencyKey, body, signal, progress }: Delivery): Promise<string | undefined> {
  for (let attempt = 1; ; attempt++) {
    const outcome = await post(callback, JSON.stringify(body), idempotencyKey, signal)
    if (outcome instanceof Response) return readId(outcome)
    const pause = outcome.retryAfterMs ?? FIRST_PAUSE_MS * 2 ** (attempt - 1)
    if (attempt === ATTEMPTS || pause > MAX_PAUSE_MS) {
      throw temporary(`${outcome.why}, after ${attempt} of ${ATTEMPTS} attempts`, {
        cause: outcome.cause,
        ...(outcome.retryAfterMs === undefined ? {} : { retryAfterMs: outcome.retryAfterMs }),
      })
    }
    progress()
    await sleep(pause, undefined, { signal })
  }
}

async function post({ url, secret }: Callback, text: string, idempotencyKey: string, signal: AbortSignal): Promise<Response | Setback> {
  const timestamp = String(Math.floor(Date.now() / 1000))
  const headers = {
    'content-type': 'application/json',
    'idempotency-key': idempotencyKey,
    'x-timestamp': timestamp,
    'x-signature': sign(secret, timestamp, text),
  }
  let response: Response
  try {
    // A redirect would hand the signed message to an address nobody has configured.
    const limit = AbortSignal.any([signal, AbortSignal.timeout(ATTEMPT_MS)])
    response = await fetch(url, { method: 'POST', headers, body: text, redirect: 'manual', signal: limit })
  } catch (cause) {
    signal.throwIfAborted()
    return { why: `${url.origin} could not be reached: ${reasonOf(cause)}`, cause }
  }
  if (response.ok) return response
  await response.body?.cancel()
  const why = `${url.origin} answered with ${response.status}`
  const mayWorkLater = response.status >= 500 || [408, 425, 429].includes(response.status)
  if (!mayWorkLater) throw rejected(`${why}: the reply is refused for good`)
  const retryAfterMs = readRetryAfter(response.headers.get('retry-after'))
  return retryAfterMs === undefined ? { why } : { why, retryAfterMs }
}

/** Seconds, or a date; in milliseconds from now. */
export function readRetryAfter(header: string | null, now = Date.now()): number | undefined {
  if (header === null) return undefined
  const milliseconds = /^\d+$/.test(header.trim()) ? Number(header) * 1000 : Date.parse(header) - now
  return Number.isFinite(milliseconds) ? Math.max(0, milliseconds) : undefined
}

/** The callback may say how it knows the message. An answer that is long or no JSON says nothing: the reply was taken all the same. */
async function readId(response: Response): Promise<string | undefined> {
  let text = ''
  const decoder = new TextDecoder()
  for await (const chunk of (response.body ?? []) as AsyncIterable<Uint8Array>) {
    text += decoder.decode(chunk, { stream: true })
    if (text.length > MAX_ANSWER_BYTES) return undefined
  }
  try {
    const { id } = JSON.parse(text) as { id?: unknown }
    return typeof id === 'string' ? id : undefined
  } catch {
    return undefined
  }
}

function reasonOf(error: unknown): string {
  const { message, cause } = error as Error
  return cause instanceof Error ? ((cause as NodeJS.ErrnoException).code ?? cause.message) : message
}
