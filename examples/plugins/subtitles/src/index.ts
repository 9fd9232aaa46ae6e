import { defineDocumentExtractor, rejected } from '@agent-gateway/sdk'
import { readSubtitles, type Cue } from './cues.js'
import { decode } from './decode.js'

/** The speech of a subtitle file, one line a cue, each with the time at which it begins. */
export default defineDocumentExtractor({
  async extract({ name, read, log }) {
    const { cues, title, malformed } = readSubtitles(decode(await read()))
    const lines = malformed.lines.join(', ')
    if (cues.length === 0)
      throw rejected(
        malformed.count === 0 ? `${name} holds no subtitles` : `${name} holds no subtitles that can be read: no times at line ${lines}`,
      )
    if (malformed.count > 0) log.warn(`${name}: ${malformed.count} blocks without times were left out`, { lines })
    return { text: render(cues), title: title ?? name.replace(/\.[^.]*$/, '') }
  },
})

/** Rolling captions repeat what still stands on the screen: a line that was just said is not said again. */
function render(cues: Cue[]): string {
  let last = ''
  const lines: string[] = []
  for (const { seconds, text } of cues) {
    if (text === last) continue
    lines.push(`[${clock(seconds)}] ${text}`)
    last = text
  }
  return lines.join('\n')
}

const clock = (seconds: number): string =>
  [seconds / 3600, (seconds / 60) % 60, seconds % 60].map(part => String(Math.floor(part)).padStart(2, '0')).join(':')
