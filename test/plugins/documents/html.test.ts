import assert from 'node:assert/strict'
import { parseHtml, readingOf } from '../../../plugins/documents/html.js'

describe('a page', () => {
  it('is read as its article, in Markdown, without what is not for readers', async () => {
    const { text, title } = await parseHtml(
      '<html><head><title>T</title><style>p {}</style></head><body><h2>Head</h2><p>Some <b>text</b></p><script>evil()</script></body></html>',
    )
    assert.match(text, /Some \*\*text\*\*/)
    assert.ok(!/evil|p \{\}/.test(text))
    assert.equal(title, 'T')
  })

  it('loses its structure by its depth and size, not its text', () => {
    assert.equal(readingOf({ depth: 30, nodes: 30_000 }), 'article')
    assert.equal(readingOf({ depth: 300, nodes: 1_000 }), 'markdown')
    assert.equal(readingOf({ depth: 10, nodes: 100_000 }), 'markdown')
    assert.equal(readingOf({ depth: 140, nodes: 100_000 }), 'text')
    assert.equal(readingOf({ depth: 501, nodes: 501 }), 'text')
    assert.equal(readingOf({ depth: 1, nodes: 200_000 }), 'text')
  })

  // Each of these took a parser half a minute and more.
  const hostile: [string, string, RegExp][] = [
    ['nested 1,000 deep', '<div>level &amp; '.repeat(1_000), /^(level &\n){999}level &$/],
    ['nested 300,000 deep', '<b>x</b>'.padStart(300_000 * 5, '<div>'), /^x$/],
    ['of a hundred thousand cells', `<table>${'<tr><td>x<td>y'.repeat(50_000)}`, /^(x\ny\n){49999}x\ny$/],
    ['of nothing but brackets', '<'.repeat(1_000_000), /^<{1000000}$/],
  ]
  for (const [what, source, expected] of hostile)
    it(`${what} is read at once, as plain text`, async () => {
      const { text } = await parseHtml(`<title>A &amp; B</title><script>evil()</script>${source}`)
      assert.match(text, expected)
    })

  it('read as plain text keeps its lines, its title and its entities, and hides what is hidden', async () => {
    const page = `<title>A &amp; B</title><style>p {}</style><p>One <i>line</i>\n of &eacute;</p><!-- no --><script>"<p>evil</p>"</script><p>two</p>`
    const { text, title } = await parseHtml(`${page}${'<div>'.repeat(600)}`)
    assert.deepEqual({ text, title }, { text: 'One line\nof é\ntwo', title: 'A & B' })
  })
})
