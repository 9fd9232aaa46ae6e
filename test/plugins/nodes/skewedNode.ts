/** A node whose machine's clock is wrong: `node --import tsx skewedNode.ts OFFSET_MS DIRECTORY`. The clock is set before anything is loaded. */
const [offset = '0', directory = ''] = process.argv.slice(2)
const RealDate = Date

globalThis.Date = class extends RealDate {
  constructor(...args: [] | ConstructorParameters<typeof Date>) {
    if (args.length === 0) super(RealDate.now() + Number(offset))
    else super(...args)
  }

  static override now(): number {
    return RealDate.now() + Number(offset)
  }
} as DateConstructor

const { defineCommand, identityIn, integer, startNode, withDefault } = await import('../../../sdk/node/index.js')

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
