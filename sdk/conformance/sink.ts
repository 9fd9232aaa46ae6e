import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'

/** A platform that is happy with everything. */
export interface Sink {
  url: string
  close: () => Promise<void>
}

/** Answers every request with 200 and `{}`, on a free port of this machine alone. */
export async function openSink(): Promise<Sink> {
  const server = createServer((request, response) => {
    request.resume()
    request.on('end', () => response.setHeader('content-type', 'application/json').end('{}'))
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  return {
    url: `http://127.0.0.1:${port}/`,
    close: async () => {
      server.closeAllConnections()
      server.close()
      await once(server, 'close')
    },
  }
}
