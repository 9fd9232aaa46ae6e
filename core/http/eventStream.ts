import { PassThrough } from 'node:stream'
import { Reply, type RouteRequest } from './route.js'

const KEEP_ALIVE_MS = 15_000
/** A client that leaves more than this unread is cut off: it can come back with `Last-Event-ID`. */
const MAX_UNREAD_BYTES = 4 * 1024 * 1024

/** How often it is looked at whether the caller may still read what comes. */
const ADMISSION_CHECK_MS = 5_000

/** One event: its data goes out as JSON. */
export interface StreamedEvent {
  /** What a client that comes back sends as `Last-Event-ID`. */
  id: string
  /** The kind of event; `message` when it is left out. */
  name?: string
  data: unknown
}

/** Whether the client asks for server-sent events rather than for a record. */
export const wantsEventStream = ({ headers }: Pick<RouteRequest, 'headers'>): boolean =>
  /\btext\/event-stream\b/i.test(headers.accept ?? '')

/**
 * Answers with server-sent events until the client goes away, the gateway begins to stop, or what let the caller in (a
 * session, a token, a role) is no longer there. `subscribe` gets the function that sends one and returns the undo, which
 * is called once.
 */
export const eventStream = async (
  request: Pick<RouteRequest, 'draining' | 'isStillAdmitted'>,
  subscribe: (send: (event: StreamedEvent) => void) => () => void,
  { admissionCheckMs = ADMISSION_CHECK_MS } = {},
): Promise<Reply> => {
  const { draining } = request
  const { createEventBuffer } = await import('better-sse')
  const body = new PassThrough({ highWaterMark: MAX_UNREAD_BYTES })
  const write = (text: string): void => {
    if (body.destroyed || body.writableEnded) return
    if (!body.write(text)) body.destroy()
  }
  const keepAlive = setInterval(() => {
    write(': still here\n\n')
  }, KEEP_ALIVE_MS).unref()
  const end = (): void => void body.end()
  const admission = every(admissionCheckMs, async () => {
    // Where it cannot be told, the next look may.
    if (!(await request.isStillAdmitted().catch(() => true))) end()
  })
  write(': connected\n\n')
  const unsubscribe = subscribe(({ id, name = 'message', data }) => {
    write(createEventBuffer().push(data, name, id).read())
  })
  draining.addEventListener('abort', end)
  body.once('close', () => {
    clearInterval(keepAlive)
    clearInterval(admission)
    draining.removeEventListener('abort', end)
    unsubscribe()
  })
  if (draining.aborted) end()
  return new Reply(200, body, { 'Content-Type': 'text/event-stream; charset=utf-8', 'X-Accel-Buffering': 'no' })
}

/** Does it every so often; a look that takes longer is not doubled. */
const every = (milliseconds: number, look: () => Promise<void>): NodeJS.Timeout => {
  let isLooking = false
  return setInterval(() => {
    if (isLooking) return
    isLooking = true
    void look().finally(() => {
      isLooking = false
    })
  }, milliseconds).unref()
}
