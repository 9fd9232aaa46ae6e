import { z } from 'zod'
import { rateLimited } from '../../core/errors.js'
import { eventStream, wantsEventStream } from '../../core/http/eventStream.js'
import { route, type Route } from '../../core/http/route.js'
import { LOG_LEVELS, type LogLine, type PluginLog } from '../../core/host/pluginLog.js'
import { redactData } from '../../core/redaction.js'

const MAX_LINES = 1_000
const DEFAULT_LINES = 200
/** Streams open at once, over all plugins. */
const MAX_STREAMS = 50
const RETRY_SECONDS = 30

const LogLineRecord = z
  .object({
    seq: z.number().describe("Grows by one with each of the plugin's lines; greater than every one before a restart of the gateway"),
    at: z.string(),
    level: z.enum(LOG_LEVELS),
    source: z
      .enum(['output', 'plugin', 'gateway'])
      .describe('What the process wrote, what it said by the protocol, or what happened to it'),
    text: z.string(),
  })
  .meta({ id: 'PluginLogLine' })
const Logs = z.object({ lines: z.array(LogLineRecord) }).meta({ id: 'PluginLogs' })

const Query = z.object({
  limit: z.coerce.number().int().min(1).max(MAX_LINES).optional().describe(`The newest so many lines; ${DEFAULT_LINES} when absent`),
  after: z.coerce
    .number()
    .int()
    .min(0)
    .optional()
    .describe('Only lines after this seq. One from before a restart of the gateway, or that is unknown: all that are kept'),
})

/** A plugin's log: what is kept of it, and live. */
export const logRoutes = (logOf: (id: string) => PluginLog): Route[] => {
  let streams = 0
  return [
    route({
      method: 'GET',
      path: '/plugins/:id/logs',
      access: 'gatewayAdmin',
      limit: 'read',
      summary: "A plugin's log: its output, what it logs, and what happened to it",
      description: `The newest ${MAX_LINES} lines are kept, over restarts of the plugin but not of the gateway. With \`Accept: text/event-stream\` the lines come as server-sent events, those that are kept first (after \`Last-Event-ID\`, when it is sent; one from before a restart of the gateway is before all of them), then each as it is written. The stream ends when the session or token that opened it does. Values of secrets are masked.`,
      params: z.object({ id: z.string().min(1).max(256) }),
      query: Query,
      returns: Logs,
      produces: ['text/event-stream'],
      handle: request => {
        const { id } = request.params
        const { limit = DEFAULT_LINES, after = 0 } = request.query
        const log = logOf(id)
        if (!wantsEventStream(request)) return { lines: redactData(log.lines({ after, limit })) }
        if (streams >= MAX_STREAMS) throw rateLimited(RETRY_SECONDS, `${MAX_STREAMS} log streams are open already: close one`)
        const seen = Number(request.headers['last-event-id'])
        streams += 1
        return eventStream(request, send => {
          const sendLine = (line: LogLine): void => {
            send({ id: String(line.seq), data: redactData(line) })
          }
          log.lines({ after: Number.isSafeInteger(seen) && seen > 0 ? seen : after, limit }).forEach(sendLine)
          const unsubscribe = log.onLine(sendLine)
          return () => {
            streams -= 1
            unsubscribe()
          }
        })
      },
    }),
  ]
}
