/** Lines a second that go on to the gateway's log; a flood is counted, not written. */
const MAX_LINES_A_SECOND = 50

/** Passes lines on, at most so many a second; says how many were left out. */
export const throttleLines = <T>(write: (line: T | string) => void): ((line: T) => void) => {
  let second = 0
  let written = 0
  let dropped = 0
  return line => {
    const now = Math.floor(Date.now() / 1000)
    if (now !== second) {
      if (dropped > 0) write(`${dropped} lines were left out: it writes too much`)
      second = now
      written = 0
      dropped = 0
    }
    if (written < MAX_LINES_A_SECOND) {
      written += 1
      write(line)
    } else dropped += 1
  }
}
