import { GatewayError } from '../../../core/errors.js'
import type { Log } from '../../../core/log.js'
import type { NodeSession } from '../session.js'
import type { Hub } from './hub.js'
import { Refusal } from './refusal.js'

/** What a node is told that was refused, where its protocol can say it. */
interface Refused {
  code: string
  message: string
}

/** Gives an invocation to the hub and tells how it ended: at once where nothing has to be waited for. */
export const hear = (
  hub: Hub,
  session: NodeSession,
  { method, argument }: { method: string; argument: unknown },
  log: Log,
  done: (refused?: Refused) => void,
): void => {
  const refuse = (error: unknown): void => {
    if (error instanceof Refusal || error instanceof GatewayError) {
      log.debug({ err: error, nodeId: session.node.id }, `${method.slice(0, 100)} of a node was refused`)
      done({ code: error.code, message: error.message })
      return
    }
    log.error({ err: error, nodeId: session.node.id }, `${method.slice(0, 100)} of a node failed`)
    done({ code: 'internal_error', message: 'Something went wrong in the gateway' })
  }
  try {
    const working = hub.receive(session, method, argument)
    if (working) working.then(() => done(), refuse)
    else done()
  } catch (error) {
    refuse(error)
  }
}
