import { plainText } from './plainText.js'

export interface Cue {
  /** Whole seconds from the start. */
  seconds: number
  text: string
}

export interface Subtitles {
  cues: Cue[]
  /** What stands after `WEBVTT`, if anything. */
  title: string | undefined
  /** Line numbers of what is neither a cue nor anything else the formats know. At most 20 are named. */
  malformed: { count: number; lines: number[] }
}

const MAX_NAMED_LINES = 20
const time = String.raw`(?:(\d{1,4}):)?([0-5]?\d):([0-5]?\d)(?:[.,]\d{1,3})?`
const timingPattern = new RegExp(String.raw`^\s*${time}\s*-->\s*(?:\d{1,4}:)?[0-5]?\d:[0-5]?\d(?:[.,]\d{1,3})?(?:\s.*)?$`)
/** Blocks of WebVTT that hold no speech. */
const asidePattern = /^(NOTE|STYLE|REGION)(?:\s|$)/

/** Reads SubRip and WebVTT alike: what differs between them is a header, the decimal mark and the optional hours. */
export function readSubtitles(content: string): Subtitles {
  const lines = content.replace(/^\ufeff/, '').split(/\r\n|\r|\n/)
  const found: Subtitles = { cues: [], title: undefined, malformed: { count: 0, lines: [] } }
  let at = 0
  const header = /^WEBVTT(?:[ \t]+(.*))?$/.exec(lines[0] ?? '')
  if (header) {
    found.title = header[1]?.replace(/^-\s*/, '').trim() || undefined
    at = endOfBlock(lines, 1)
  }
  while (at < lines.length) {
    if (isBlank(lines[at])) at++
    else at = readBlock(lines, at, found)
  }
  return found
}

/** A block begins at a line that is not blank and ends before a blank one. Returns where the next may begin. */
function readBlock(lines: string[], start: number, found: Subtitles): number {
  const end = endOfBlock(lines, start)
  if (asidePattern.test(lines[start] ?? '')) return end
  const timing = findTiming(lines, start, end)
  // A cue may have a number or a name in the line before its times, and no more.
  if (timing === undefined || timing > start + 1) {
    found.malformed.count++
    if (found.malformed.lines.length < MAX_NAMED_LINES) found.malformed.lines.push(start + 1)
  }
  if (timing === undefined) return end
  const [, hours = '0', minutes = '0', seconds = '0'] = timingPattern.exec(lines[timing] ?? '') ?? []
  const textEnd = endOfCue(lines, timing, end)
  const text = plainText(lines.slice(timing + 1, textEnd))
  if (text !== '') found.cues.push({ seconds: Number(hours) * 3600 + Number(minutes) * 60 + Number(seconds), text })
  return textEnd
}

/** Some files leave out the blank line between two cues: the next one's times, and the number before them, end this one. */
function endOfCue(lines: string[], timing: number, end: number): number {
  const next = findTiming(lines, timing + 1, end)
  if (next === undefined) return end
  return next - 1 > timing && /^\s*\d+\s*$/.test(lines[next - 1] ?? '') ? next - 1 : next
}

function findTiming(lines: string[], from: number, end: number): number | undefined {
  for (let index = from; index < end; index++) if (timingPattern.test(lines[index] ?? '')) return index
  return undefined
}

function endOfBlock(lines: string[], start: number): number {
  let end = start
  while (end < lines.length && !isBlank(lines[end])) end++
  return end
}

const isBlank = (line: string | undefined): boolean => line === undefined || line.trim() === ''
