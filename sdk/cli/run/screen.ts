/** Lines for the terminal: when, what, and text. */
export class Screen {
  readonly #write: (text: string) => void

  constructor(write: (text: string) => void) {
    this.#write = write
  }

  say(what: string, text: string): void {
    const time = new Date().toTimeString().slice(0, 8)
    for (const line of clean(text).split('\n')) this.#write(`${time}  ${what.padEnd(11)}  ${line}\n`)
  }
}

/** What a plugin wrote must not steer the terminal. */
const clean = (text: string): string => text.replace(/[\u0000-\u0008\u000b-\u001f\u007f-\u009f]/g, '?')
