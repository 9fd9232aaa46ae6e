/** Where in a manifest: keys and indexes from the root. */
export type ManifestPath = readonly (string | number)[]

/** Something to say about one place of a manifest. */
export interface ManifestIssue {
  path: ManifestPath
  message: string
}

/** Stops the reading: the manifest is refused as a whole. */
export class ManifestRejection extends Error {
  readonly path: ManifestPath

  constructor(path: ManifestPath, message: string) {
    super(message)
    this.path = path
  }
}

/** What is said at most about one manifest: a hostile one must not fill the log. */
export const MAX_ISSUES = 50

/** Collects warnings while a manifest is read. */
export class ManifestIssues {
  readonly list: ManifestIssue[] = []
  #left = 0

  warn(path: ManifestPath, message: string): void {
    if (this.list.length < MAX_ISSUES) this.list.push({ path, message })
    else {
      this.#left++
      this.list[MAX_ISSUES - 1] = { path: [], message: `${this.#left + 1} more warnings are left out` }
    }
  }
}

/** `['settings', 2, 'type']` as `settings[2].type`. */
export const pathText = (path: ManifestPath): string =>
  path.map((part, index) => (typeof part === 'number' ? `[${part}]` : index === 0 ? part : `.${part}`)).join('')

/** Any value, short enough for a message. */
export function shown(value: unknown): string {
  const text = JSON.stringify(value) as string | undefined
  return text === undefined ? String(value) : text.length > 80 ? `${text.slice(0, 77)}...` : text
}

export type JsonObject = Record<string, unknown>

export const isObject = (value: unknown): value is JsonObject => typeof value === 'object' && value !== null && !Array.isArray(value)

/** An own, non-null field; JSON's null counts as absent. */
export function field(object: JsonObject, name: string): unknown {
  const value = Object.hasOwn(object, name) ? object[name] : undefined
  return value === null ? undefined : value
}

/** Control, format and unassigned characters: never part of a name that is shown and compared. */
export const hasUnprintable = (text: string): boolean => /\p{C}/u.test(text)

/** Keys that would reach an object's prototype. */
export const isPrototypeKey = (name: string): boolean => name === '__proto__' || name === 'constructor' || name === 'prototype'

/** An optional text: trimmed; anything but a non-blank string is left out, with a warning when it is no string. */
export function readText(object: JsonObject, name: string, issues: ManifestIssues): string | undefined {
  const value = field(object, name)
  if (value === undefined) return undefined
  if (typeof value !== 'string') {
    issues.warn([name], `must be a string, not ${shown(value)}: ignored`)
    return undefined
  }
  return value.trim() === '' ? undefined : value.trim()
}
