const entities: Record<string, string> = { amp: '&', lt: '<', gt: '>', quot: '"', apos: "'", nbsp: ' ', lrm: '', rlm: '' }

/** What is spoken: no tags, no positions, entities resolved; `<v Ada>` becomes `Ada: `. One line a speaker. */
export function plainText(lines: string[]): string {
  const spoken = lines.map(line =>
    line
      .replace(/\{\\[^}]*\}/g, '')
      .replace(/<v(?:\.[^\s>]*)?[ \t]+([^>]*)>/gi, (_tag, speaker: string) => `\n${speaker.trim()}: `)
      .replace(/<\/?[a-z][^>]*>|<[\d:.]+>|<\/>/gi, '')
      .replace(/&(#x[0-9a-f]{1,6}|#\d{1,7}|[a-z]+);/gi, resolveEntity),
  )
  return spoken
    .join(' ')
    .split('\n')
    .map(line => line.replace(/\s+/g, ' ').trim())
    .filter(line => line !== '')
    .join('\n')
}

function resolveEntity(whole: string, name: string): string {
  if (!name.startsWith('#')) return entities[name.toLowerCase()] ?? whole
  const code = /^#x/i.test(name) ? parseInt(name.slice(2), 16) : Number(name.slice(1))
  return code > 0 && code <= 0x10ffff ? String.fromCodePoint(code) : whole
}
