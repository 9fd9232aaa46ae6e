const MAX_NAME_LENGTH = 300
const MAX_PART_BYTES = 255
const MAX_DEPTH = 20
/** Devices on Windows, with any ending: opening one does not open a file. */
const RESERVED = /^(?:con|prn|aux|nul|conin\$|conout\$|clock\$|com[0-9¹²³]|lpt[0-9¹²³])[ ]*(?:\.|$)/i

/**
 * Checks the names of an archive, which must mean the same files on every system: relative, printable, none of them
 * reserved, no two that some file system would take for one. `/` separates the parts; a folder's name ends in it.
 */
export class ArchiveNames {
  /** Folded path to how it was first spelled, and what it is. */
  readonly #known = new Map<string, { path: string; isFolder: boolean }>()

  /** Says what is wrong with the next name; `undefined`: nothing, and it is taken. */
  add(name: string): string | undefined {
    const isFolder = name.endsWith('/')
    const path = isFolder ? name.slice(0, -1) : name
    const wrong = whyNoName(path)
    if (wrong !== undefined) return wrong
    const parts = path.split('/')
    for (let depth = 1; depth <= parts.length; depth++) {
      const twin = this.#place(parts.slice(0, depth).join('/'), isFolder || depth < parts.length, depth === parts.length)
      if (twin !== undefined) return twin
    }
    return undefined
  }

  #place(path: string, isFolder: boolean, isLast: boolean): string | undefined {
    const folded = fold(path)
    const known = this.#known.get(folded)
    if (!known) {
      this.#known.set(folded, { path, isFolder })
      return undefined
    }
    if (known.path !== path) return `would be the same file as ${show(known.path)} on some systems`
    if (known.isFolder !== isFolder) return 'is both a file and a folder'
    return isLast && !isFolder ? 'comes twice' : undefined
  }
}

/** Any name, fit for a message. */
export const show = (name: string): string => JSON.stringify(name.length > 100 ? `${name.slice(0, 100)}...` : name)

/** Equal for names that differ in case or in the form of their accents only. */
const fold = (path: string): string => path.normalize('NFC').toUpperCase().toLowerCase().normalize('NFC')

const whyNoName = (path: string): string | undefined => {
  const parts = path.split('/')
  if (path.startsWith('/') || path.includes('\\') || /^[a-z]:/i.test(path) || parts.includes('..')) return 'leads out of the archive'
  if (path.length > MAX_NAME_LENGTH) return `has more than ${MAX_NAME_LENGTH} characters`
  if (parts.length > MAX_DEPTH) return `is nested deeper than ${MAX_DEPTH} folders`
  // U+FFFD stands where bytes were not UTF-8.
  if (/[\p{C}\p{Zl}\p{Zp}\ufffd]/u.test(path)) return 'holds a control, invisible or undecodable character'
  if (/[<>:"|?*]/.test(path)) return 'holds a character that no file name may have on Windows: < > : " | ? *'
  for (const part of parts) {
    if (part === '' || part === '.') return 'has an empty part'
    if (/[. ]$/.test(part)) return 'has a part that ends in a dot or a space'
    if (RESERVED.test(part)) return 'is the name of a device on Windows'
    if (Buffer.byteLength(part) > MAX_PART_BYTES) return `has a part of more than ${MAX_PART_BYTES} bytes`
  }
  return undefined
}
