/** A place in a text, both counted from 1. */
export interface Place {
  line: number
  column: number
}

/** The text is no JSON: where, and what to write instead. */
export class JsonError extends Error {
  readonly place: Place

  constructor(place: Place, message: string) {
    super(message)
    this.place = place
  }
}

export interface PlacedJson {
  value: unknown
  /** Where the value at `path` stands; of an absent one, its nearest present parent. */
  placeOf(path: readonly (string | number)[]): Place
}

const MAX_DEPTH = 200
const scalarPattern = /(?:true|false|null|-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?)(?![\w.+-])/y
const stringPattern = /"(?:[^"\\\u0000-\u001f]|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*"/y

/** Parses JSON and remembers where each value stands. Throws a `JsonError` that says where it goes wrong. */
export function parseJsonWithPlaces(text: string): PlacedJson {
  const offsets = new Map<string, number>()
  new Scanner(text, offsets).scan()
  const value: unknown = JSON.parse(text.replace(/^\ufeff/, ''))
  return {
    value,
    placeOf: path => {
      for (let length = path.length; length > 0; length--) {
        const offset = offsets.get(JSON.stringify(path.slice(0, length)))
        if (offset !== undefined) return placeAt(text, offset)
      }
      return placeAt(text, offsets.get('[]') ?? 0)
    },
  }
}

function placeAt(text: string, offset: number): Place {
  const before = text.slice(0, offset)
  const line = before.split('\n').length
  return { line, column: offset - before.lastIndexOf('\n') }
}

class Scanner {
  readonly #text: string
  readonly #offsets: Map<string, number>
  #at = 0

  constructor(text: string, offsets: Map<string, number>) {
    this.#text = text
    this.#offsets = offsets
  }

  scan(): void {
    if (this.#text.startsWith('\ufeff')) this.#at = 1
    this.#value([])
    this.#space()
    if (this.#at < this.#text.length) this.#fail('nothing may follow the closing bracket')
  }

  #value(path: readonly (string | number)[]): void {
    this.#space()
    if (path.length > MAX_DEPTH) this.#fail(`more than ${MAX_DEPTH} levels of nesting`)
    this.#offsets.set(JSON.stringify(path), this.#at)
    const first = this.#text[this.#at]
    if (first === '{') this.#list('}', () => this.#member(path))
    else if (first === '[') this.#list(']', index => this.#value([...path, index]))
    else if (first === '"') this.#string()
    else if (this.#match(scalarPattern) === undefined) this.#fail(this.#whyNoValue())
  }

  #list(close: string, item: (index: number) => void): void {
    this.#at++
    this.#space()
    if (this.#take(close)) return
    for (let index = 0; ; index++) {
      item(index)
      this.#space()
      if (this.#take(close)) return
      if (!this.#take(',')) this.#fail(`a comma or "${close}" is missing here`)
      this.#space()
      if (this.#text[this.#at] === close) this.#fail(`remove the comma before "${close}"`)
    }
  }

  #member(path: readonly (string | number)[]): void {
    this.#space()
    if (this.#text[this.#at] !== '"') this.#fail('a field name in double quotes is expected here')
    const key = JSON.parse(this.#string()) as string
    this.#space()
    if (!this.#take(':')) this.#fail(`a colon is missing after ${JSON.stringify(key)}`)
    this.#value([...path, key])
  }

  #string(): string {
    return (
      this.#match(stringPattern) ??
      this.#fail('this text is not closed, or holds a line break or a wrong escape: write \\n for a line break, \\\\ for a backslash')
    )
  }

  #whyNoValue(): string {
    const first = this.#text[this.#at]
    if (first === undefined) return 'the file ends too early: a bracket is not closed'
    if (first === "'") return 'write double quotes instead of single ones'
    if (first === '/') return 'JSON has no comments: remove it'
    return 'a value is expected here: a text in double quotes, a number, true, false, null, {...} or [...]'
  }

  #match(pattern: RegExp): string | undefined {
    pattern.lastIndex = this.#at
    const [found] = pattern.exec(this.#text) ?? []
    if (found !== undefined) this.#at += found.length
    return found
  }

  #take(character: string): boolean {
    if (this.#text[this.#at] !== character) return false
    this.#at++
    return true
  }

  #space(): void {
    this.#match(/[ \t\r\n]*/y)
  }

  #fail(message: string): never {
    throw new JsonError(placeAt(this.#text, this.#at), message)
  }
}
