import { Peer } from '../../sdk/rpc.js'
import type { EchoRequests } from './rpc.js'

/** The SDK's Peer in a child process. */
new Peer<object, EchoRequests>({
  input: process.stdin,
  output: process.stdout,
  handlers: { echo: params => params },
  onClose: () => process.exit(),
})
