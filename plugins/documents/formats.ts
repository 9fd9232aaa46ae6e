/** The formats that the gateway reads by itself; they win over plugins. */
export type Format = 'text' | 'markdown' | 'csv' | 'json' | 'html'

const byExtension: Record<string, Format> = {
  '.txt': 'text',
  '.text': 'text',
  '.log': 'text',
  '.md': 'markdown',
  '.markdown': 'markdown',
  '.csv': 'csv',
  '.tsv': 'csv',
  '.json': 'json',
  '.html': 'html',
  '.htm': 'html',
  '.xhtml': 'html',
}

const byMimeType: Record<string, Format> = {
  'text/plain': 'text',
  'text/markdown': 'markdown',
  'text/csv': 'csv',
  'text/tab-separated-values': 'csv',
  'application/json': 'json',
  'text/html': 'html',
  'application/xhtml+xml': 'html',
}

/** What a client says that does not know. */
const UNKNOWN_TYPES = new Set(['', 'application/octet-stream', 'binary/octet-stream'])

const MAX_EXTENSION_LENGTH = 33

/** The extension of a file name: lower case, with the dot; empty without one. */
export const extensionOf = (name: string): string => {
  const at = name.lastIndexOf('.')
  return at <= 0 || name.length - at > MAX_EXTENSION_LENGTH ? '' : name.slice(at).toLowerCase()
}

/**
 * The extension decides. A file without one goes by what the client says it is, and where it does not know, by its
 * content, which is looked at when it is parsed: `sniff`.
 */
export const builtinFormat = (extension: string, mimeType: string): Format | 'sniff' | undefined => {
  if (extension !== '') return byExtension[extension]
  const type = mimeType.split(';')[0]?.trim().toLowerCase() ?? ''
  return byMimeType[type] ?? (UNKNOWN_TYPES.has(type) ? 'sniff' : undefined)
}

/** What a text is by its look: for files without an extension that nobody has named a type for. */
export const sniffFormat = (text: string): Format => {
  const start = text.slice(0, 1_000).trimStart()
  if (/^(?:<\?xml[^>]*>\s*)?(?:<!--[^]*?-->\s*)*<(?:!doctype html|html|head|body)[\s>]/i.test(start)) return 'html'
  return /^[{[]/.test(start) && isJson(text) ? 'json' : 'text'
}

const isJson = (text: string): boolean => {
  try {
    JSON.parse(text)
    return true
  } catch {
    return false
  }
}
