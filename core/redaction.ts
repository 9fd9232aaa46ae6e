/**
 * The one redaction point: log, audit, error details, plugin logs, diagnostics and backups all pass through it.
 * Plugins register the secret values that they hold in memory; what is registered never leaves in clear.
 */
export const MASK = '********'

/** Values shorter than this are not redacted from running text: they would blank out ordinary words. */
const MIN_SECRET_LENGTH = 6
/** Above this many registered values the oldest are forgotten. */
const MAX_SECRETS = 10_000

const secrets = new Map<string, number>()
let pattern: RegExp | undefined

/** Redacts `value` wherever it would appear, until the returned undo has been called as often as it was registered. */
export const registerSecret = (value: string): (() => void) => {
  if (value.length < MIN_SECRET_LENGTH) return () => undefined
  const known = secrets.get(value) ?? 0
  secrets.set(value, known + 1)
  // Compiling again for a value that is already in the pattern would cost every hand-out of a secret.
  if (known === 0) pattern = undefined
  if (secrets.size > MAX_SECRETS) secrets.delete(secrets.keys().next().value ?? '')
  let done = false
  return () => {
    if (done) return
    done = true
    const count = secrets.get(value) ?? 0
    if (count > 1) {
      secrets.set(value, count - 1)
      return
    }
    secrets.delete(value)
    pattern = undefined
  }
}

/** The text with every registered secret replaced, also in its JSON-escaped form. For JSON documents: `redactJson`. */
export const redact = (text: string): string => {
  if (secrets.size === 0) return text
  pattern ??= compile()
  return text.replace(pattern, MASK)
}

/** A deep copy of plain data with every registered secret replaced, in its texts and names: its shape stays. */
export const redactData = <T>(data: T): T => JSON.parse(redactJson(JSON.stringify(data))) as T

/** The same for a JSON document. A secret that looks like JSON itself never breaks it. */
export const redactJson = (json: string): string => {
  if (secrets.size === 0) return json
  pattern ??= compile()
  return json.search(pattern) < 0 ? json : JSON.stringify(redactValue(JSON.parse(json)))
}

const redactValue = (value: unknown): unknown => {
  if (typeof value === 'string') return redact(value)
  if (Array.isArray(value)) return value.map(redactValue)
  if (typeof value !== 'object' || value === null) return value
  return Object.fromEntries(Object.entries(value).map(([name, field]) => [redact(name), redactValue(field)]))
}

const compile = (): RegExp => {
  const forms = [...secrets.keys()].flatMap(value => [value, JSON.stringify(value).slice(1, -1)])
  const longestFirst = [...new Set(forms)].sort((a, b) => b.length - a.length)
  return new RegExp(longestFirst.map(value => value.replace(/[.*+?^${}()|[\]\\]/g, String.raw`\$&`)).join('|'), 'g')
}
