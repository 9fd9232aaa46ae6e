import { PROTOCOL_VERSIONS, RpcErrorCode } from '../protocol.js'
import { brief, expect, Skip, type Check } from './check.js'
import { callOf } from './kinds.js'

/** A version that no plugin speaks. */
const UNKNOWN = '2999-01-01'
/** The steps of the host's stop ladder. */
const SHUTDOWN_MS = 5000
const END_OF_INPUT_MS = 2000
const TERMINATE_MS = 2000

/** Starting, shaking hands and ending. */
export const lifeChecks: readonly Check[] = [
  {
    name: 'handshake/version',
    expected: 'answers plugin.initialize with a version that was offered',
    run: async bench => {
      const wire = await bench.fresh()
      const { result, error } = await wire.handshake()
      expect(error === undefined, `it was refused: ${brief(error)}`)
      const { protocolVersion } = (result ?? {}) as { protocolVersion?: string }
      expect(
        PROTOCOL_VERSIONS.includes(protocolVersion ?? ''),
        `${PROTOCOL_VERSIONS.join(', ')} was offered, it chose ${brief(protocolVersion)}`,
      )
    },
  },
  {
    name: 'handshake/newer-gateway',
    expected: 'takes the first version that it speaks, behind one that it does not know',
    run: async bench => {
      const wire = await bench.fresh()
      const { result, error } = await wire.handshake([UNKNOWN, ...PROTOCOL_VERSIONS])
      const { protocolVersion } = (result ?? {}) as { protocolVersion?: string }
      expect(PROTOCOL_VERSIONS.includes(protocolVersion ?? ''), `it answered ${brief(error ?? result)}`)
    },
  },
  {
    name: 'handshake/older-gateway',
    expected: 'takes a version that is offered alone, or refuses it with rejected (-32004); it takes one of those in use',
    run: async bench => {
      let taken = 0
      for (const version of PROTOCOL_VERSIONS) {
        const wire = await bench.fresh()
        const { result, error } = await wire.handshake([version])
        const { protocolVersion } = (result ?? {}) as { protocolVersion?: string }
        expect(error?.code === RpcErrorCode.rejected || protocolVersion === version, `of ${version} alone: ${brief(error ?? result)}`)
        if (error === undefined) taken++
      }
      expect(taken > 0, `it takes none of ${PROTOCOL_VERSIONS.join(', ')}`)
    },
  },
  {
    name: 'handshake/no-common-version',
    expected: 'refuses a gateway that speaks no version of its own with rejected (-32004)',
    run: async bench => {
      const wire = await bench.fresh()
      const { result, error } = await wire.handshake([UNKNOWN])
      expect(error?.code === RpcErrorCode.rejected, `it answered ${brief(error ?? result)}`)
    },
  },
  {
    name: 'handshake/once',
    expected: 'refuses a second handshake with -32600 and serves on',
    run: async bench => {
      const wire = await bench.fresh()
      await wire.handshake()
      const { result, error } = await wire.handshake()
      expect(error?.code === RpcErrorCode.invalidRequest, `it answered ${brief(error ?? result)}`)
      await wire.mustBeAlive('a second handshake')
    },
  },
  {
    name: 'handshake/first',
    expected: 'refuses calls before the handshake with -32600, and still shakes hands',
    run: async bench => {
      const call = callOf(bench.manifest)
      if (!call) throw new Skip(`nothing is fixed yet for plugins of the interface ${bench.manifest.pluginInterface}`)
      const wire = await bench.fresh()
      await wire.refusal(call.method, call.params, [RpcErrorCode.invalidRequest])
      await wire.handshake()
      await wire.mustBeAlive('a call before the handshake')
    },
  },
  {
    name: 'life/ping',
    expected: 'answers plugin.ping',
    run: async bench => {
      await (await bench.ready()).result('plugin.ping', {})
    },
  },
  {
    name: 'life/shutdown',
    expected: 'answers plugin.shutdown within 5 s, then exits with code 0',
    run: async bench => {
      const wire = await bench.fresh()
      await wire.handshake()
      await wire.result('plugin.shutdown', { reason: 'a check' }, { timeoutMs: SHUTDOWN_MS })
      const { code, signal } = await wire.endsWithin(END_OF_INPUT_MS, 'it has answered plugin.shutdown')
      expect(code === 0, `it ended with ${signal ?? `code ${String(code)}`}`)
    },
  },
  {
    name: 'life/end-of-input',
    expected: 'exits within 2 s of the end of its stdin: that is all it sees of a gateway that has died',
    run: async bench => {
      const wire = await bench.fresh()
      await wire.handshake()
      wire.endInput()
      await wire.endsWithin(END_OF_INPUT_MS, 'the end of its stdin')
    },
  },
  {
    name: 'life/end-of-input-early',
    expected: 'exits at the end of its stdin before any handshake, and in the middle of a line',
    run: async bench => {
      const silent = await bench.fresh()
      silent.endInput()
      await silent.endsWithin(END_OF_INPUT_MS + START_MS, 'the end of its stdin, before the handshake')
      const half = await bench.fresh()
      await half.handshake()
      half.write('{"jsonrpc":"2.0","id":9,"method":"plugin.pi')
      half.endInput()
      await half.endsWithin(END_OF_INPUT_MS, 'its stdin ended in the middle of a line')
    },
  },
  {
    name: 'life/terminate',
    expected: 'ends within 2 s of SIGTERM',
    run: async bench => {
      if (process.platform === 'win32') throw new Skip('there are no signals on Windows')
      const wire = await bench.fresh()
      await wire.handshake()
      wire.kill('SIGTERM')
      await wire.endsWithin(TERMINATE_MS, 'SIGTERM')
    },
  },
]

/** What a program may need to come so far that it looks at its stdin. */
const START_MS = 5000
