import { defineCommand, identityIn, integer, startNode, withDefault } from '../../../sdk/node/index.js'

/** A node with its state in a directory: `node --import tsx clockedNode.ts DIRECTORY`. It tells the time of its machine. */
const [directory = ''] = process.argv.slice(2)

const node = await startNode({
  identity: identityIn(directory),
  stateDir: directory,
  scopes: ['*'],
  version: '1.0.0',
  commands: [
    defineCommand({
      name: 'test.sleep',
      params: { ms: withDefault(integer({ min: 0 }), 0) },
      run: async ({ ms }) => {
        await new Promise(resolve => setTimeout(resolve, ms))
        return { clock: new Date().toISOString() }
      },
    }),
  ],
  timing: { heartbeatMs: 200, reconnectMs: 50, maxReconnectMs: 100 },
})
process.once('SIGTERM', () => void node.stop())
await node.reportCrash(new Error('by a wrong clock'))
await node.ended
