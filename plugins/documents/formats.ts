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

const MAX_EXTENSION_LENGTH = 33

/** The extension of a file name: lower case, with the dot; empty without one. */
export const extensionOf = (name: string): string => {
  const at = name.lastIndexOf('.')
  return at <= 0 || name.length - at > MAX_EXTENSION_LENGTH ? '' : name.slice(at).toLowerCase()
}

/** The extension decides; only a file without one goes by what the client says it is. */
export const builtinFormat = (extension: string, mimeType: string): Format | undefined =>
  extension === '' ? byMimeType[mimeType.split(';')[0]?.trim().toLowerCase() ?? ''] : byExtension[extension]
