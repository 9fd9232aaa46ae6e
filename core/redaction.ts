/**
 * The one redaction point: log, audit, error details, plugin logs, diagnostics and backups all pass through it.
 * Plugins register the secret values that they hold in memory; what is registered never leaves in clear.
 */
export const MASK = '********'

/** Values shorter than this are not redacted from running text: they would blank out ordinary words. */
const MIN_SECRET_LENGTH = 6
/** Above this many registered values the oldest are forgotten. */
const MAX_SECRETS = 10_000

/** Value to how many hold it, oldest first. */
const secrets = new Map<string, number>()
/** What to look for, by the hash of its first characters, longest first: finding costs the same for one and for thousands. */
const formsByHash = new Map<number, string[]>()

/** Redacts `value` wherever it would appear, until the returned undo has been called as often as it was registered. */
export const registerSecret = (value: string): (() => void) => {
  if (value.length < MIN_SECRET_LENGTH) return () => undefined
  const known = secrets.get(value) ?? 0
  secrets.set(value, known + 1)
  if (known === 0) {
    for (const form of formsOf(value)) addForm(form)
    if (secrets.size > MAX_SECRETS) forget(secrets.keys().next().value ?? '')
  }
  let done = false
  return () => {
    if (done) return
    done = true
    const count = secrets.get(value) ?? 0
    if (count > 1) secrets.set(value, count - 1)
    else forget(value)
  }
}

/** The text with every registered secret replaced, also in its JSON-escaped form. For JSON documents: `redactJson`. */
export const redact = (text: string): string => redactHead(text, text.length)

/**
 * The same for the first `maxLength` characters only. A secret that the cut goes through is replaced as a whole: cut
 * first, half of it would be taken for an ordinary word.
 */
export const redactHead = (text: string, maxLength: number): string => {
  const end = Math.min(maxLength, text.length)
  if (secrets.size === 0) return text.slice(0, end)
  let redacted = ''
  let copied = 0
  for (let at = 0; at < end && at + MIN_SECRET_LENGTH <= text.length;) {
    const form = formsByHash.get(hashAt(text, at))?.find(one => text.startsWith(one, at))
    if (form === undefined) {
      at += 1
      continue
    }
    redacted += text.slice(copied, at) + MASK
    at += form.length
    copied = at
  }
  return copied === 0 ? text.slice(0, end) : redacted + text.slice(copied, Math.max(copied, end))
}

/** A deep copy of plain data with every registered secret replaced, in its texts and names: its shape stays. */
export const redactData = <T>(data: T): T => JSON.parse(redactJson(JSON.stringify(data))) as T

/** The same for a JSON document. A secret that looks like JSON itself never breaks it. */
export const redactJson = (json: string): string =>
  // Where nothing is found in the text, nothing is in what it says.
  redact(json) === json ? json : JSON.stringify(redactValue(JSON.parse(json)))

const redactValue = (value: unknown): unknown => {
  if (typeof value === 'string') return redact(value)
  if (Array.isArray(value)) return value.map(redactValue)
  if (typeof value !== 'object' || value === null) return value
  return Object.fromEntries(Object.entries(value).map(([name, field]) => [redact(name), redactValue(field)]))
}

/** Lines of a secret of several lines that say as much as it does: what is written line by line is redacted so. */
const MIN_LINE_LENGTH = 16

const formsOf = (value: string): Set<string> => {
  const lines = value.includes('\n') ? value.split(/\r?\n/).filter(line => line.length >= MIN_LINE_LENGTH && !line.startsWith('-----')) : []
  return new Set([value, ...lines].flatMap(form => [form, JSON.stringify(form).slice(1, -1)]))
}

const hashAt = (text: string, at: number): number => {
  let hash = 0
  for (let index = at; index < at + MIN_SECRET_LENGTH; index += 1) hash = (Math.imul(hash, 31) + text.charCodeAt(index)) | 0
  return hash
}

const addForm = (form: string): void => {
  const hash = hashAt(form, 0)
  const forms = formsByHash.get(hash) ?? []
  const shorter = forms.findIndex(other => other.length < form.length)
  forms.splice(shorter < 0 ? forms.length : shorter, 0, form)
  formsByHash.set(hash, forms)
}

const forget = (value: string): void => {
  if (!secrets.delete(value)) return
  for (const form of formsOf(value)) {
    const hash = hashAt(form, 0)
    const forms = formsByHash.get(hash) ?? []
    // One of them: another secret may be written the same.
    forms.splice(forms.indexOf(form), 1)
    if (forms.length === 0) formsByHash.delete(hash)
  }
}
