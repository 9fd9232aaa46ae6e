import { boolean, defineCommand, integer, optional } from '@agent-gateway/sdk/node'
import { requireTool, runTool } from '../execute.js'

const SINK = '@DEFAULT_SINK@'

/** Sets the volume of the speakers, where a level or `muted` is given, and tells it. */
export const audioVolume = defineCommand({
  name: 'audio.volume',
  params: { level: optional(integer({ min: 0, max: 100 })), muted: optional(boolean()) },
  lane: 'audio',
  check: () => requireTool('pactl'),
  run: async ({ level, muted }, { signal }) => {
    const tool = await requireTool('pactl')
    const pactl = (...args: string[]): Promise<string> => runTool(tool, args, { signal })
    if (level !== undefined) await pactl('set-sink-volume', SINK, `${level}%`)
    if (muted !== undefined) await pactl('set-sink-mute', SINK, muted ? '1' : '0')
    const [volume, mute] = [await pactl('get-sink-volume', SINK), await pactl('get-sink-mute', SINK)]
    return { level: Number(/(\d+)%/.exec(volume)?.[1] ?? 0), muted: /\byes\b/.test(mute) }
  },
})
