import type { IncomingMessage } from 'node:http'
import { refuseUpgrade, type Endpoint } from '../../../core/http/endpoints.js'
import { networkOf } from '../../../core/http/network.js'
import type { Hub } from './hub.js'
import { openSignalR } from './signalR.js'
import { openSocketIo, type HubProtocol, type ProtocolOptions } from './socketIo.js'
import { Turnstile } from './turnstile.js'

/** Engine.IO's own mark in a URL; everything else at the path is SignalR. */
const isSocketIo = (request: IncomingMessage): boolean => /[?&]EIO=/.test(request.url ?? '')

/** The hub's endpoint. Each protocol is loaded when its first node comes: start-up does not pay for them. */
export const hubEndpoint = (hub: Hub, options: ProtocolOptions): Endpoint => {
  const turnstile = new Turnstile()
  const opened = new Map<typeof openSocketIo, Promise<HubProtocol>>()
  const protocolOf = (request: IncomingMessage): Promise<HubProtocol> => {
    const open = isSocketIo(request) ? openSocketIo : openSignalR
    const known = opened.get(open)
    if (known) return known
    const opening = open(hub, options)
    opened.set(open, opening)
    opening.catch((error: unknown) => {
      opened.delete(open)
      options.log.error({ err: error }, 'a protocol of the node hub could not be loaded')
    })
    return opening
  }
  return {
    request: (request, response) => {
      protocolOf(request).then(
        protocol => {
          protocol.request(request, response)
        },
        () => response.writeHead(503).end(),
      )
    },
    upgrade: (request, socket, head) => {
      protocolOf(request).then(
        protocol => {
          turnstile.queue(networkOf(options.addressOf(request)), {
            enter: () => {
              if (!socket.destroyed) protocol.upgrade(request, socket, head)
            },
            refuse: () => {
              refuseUpgrade(socket, 503)
            },
          })
        },
        () => {
          refuseUpgrade(socket, 503)
        },
      )
    },
    close: async () => {
      hub.close()
      for (const protocol of await Promise.all(opened.values())) protocol.close()
    },
  }
}
