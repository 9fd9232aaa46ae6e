import assert from 'node:assert/strict'
import { login, startGateway, type TestGateway } from '../../support/gateway.js'
import { waitFor } from '../../support/waitFor.js'
import { Library, Reader } from './library.js'

describe("a plugin's answer about a document", () => {
  let gateway: TestGateway
  let library: Library

  before(async () => {
    gateway = await startGateway({ settings: { 'Service:Plugins:Enabled': 'true' } })
    const token = await login(gateway)
    library = new Library(gateway, token)
    await new Reader(gateway.dataDir).install()
    await gateway.call('POST', '/plugins/scan', { token })
    await waitFor('the plugin', async () => (await gateway.call('GET', '/plugins/reader', { token })).body.state === 'ready')
  })
  after(() => gateway.stop())

  const refused: Record<string, RegExp> = {
    nothing: /made a mistake: it has to answer with either a text or a textPath/,
    list: /either a text or a textPath/,
    'no-text': /either a text or a textPath/,
    'text-is-a-number': /either a text or a textPath/,
    both: /either a text or a textPath/,
    'title-is-a-list': /its title is not a text/,
    'absolute-path': /its textPath is not a file in its outputDir/,
    'dots-path': /its textPath is not a file in its outputDir/,
    'no-such-file': /not in its exchange directory/,
    'a-directory': /not in its exchange directory/,
    'a-link': /not in its exchange directory/,
    'inline-over-the-limit': /its text has 1048577 bytes, and more than 1048576 have to go by file/,
    'broken-unicode': /its text is not valid Unicode/,
    'not-utf8': /its text file is not valid UTF-8/,
  }
  for (const [name, reason] of Object.entries(refused))
    it(`is refused, with the reason: ${name}`, async () => {
      const document = await library.read(`${name}.odd`)
      assert.deepEqual([document.status, document.text, document.extractor], ['failed', null, 'reader'])
      assert.match(document.reason ?? '', reason)
    })

  it('may be a file in a subfolder, by its whole path or from the output directory', async () => {
    assert.equal((await library.read('subfolder.odd')).text, 'from a subfolder')
    assert.equal((await library.read('relative-path.odd')).text, 'from a relative path')
  })

  it('may be a text of up to 1 MiB, and a longer file, of which the beginning is kept', async () => {
    assert.equal((await library.read('inline-at-the-limit.odd')).text?.length, 1024 * 1024)
    const long = await library.read('long-file.odd')
    assert.deepEqual([long.status, long.text?.length], ['ready', 5_000_000])
  })
})
