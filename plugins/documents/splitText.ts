/** Characters of a passage, and passages of one document that can be found; text beyond them is kept and not searched. */
const PASSAGE_LENGTH = 1_000
const MAX_PASSAGES = 1_000

/** The passages of a text, by which it is searched. Cuts at the ends of paragraphs, lines or words, whichever comes last in a passage. */
export const splitText = (text: string): string[] => {
  const passages: string[] = []
  for (let at = 0; at < text.length && passages.length < MAX_PASSAGES;) {
    const window = text.slice(at, at + PASSAGE_LENGTH)
    const cut =
      window.length < PASSAGE_LENGTH
        ? window.length
        : [window.lastIndexOf('\n\n'), window.lastIndexOf('\n'), window.lastIndexOf(' ')].find(end => end > PASSAGE_LENGTH / 2)
    const passage = window.slice(0, cut).trim()
    if (passage !== '') passages.push(passage)
    at += cut ?? window.length
  }
  return passages
}
