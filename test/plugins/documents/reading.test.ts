import assert from 'node:assert/strict'
import { cp, readdir } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { ADMIN, login, startGateway, type TestGateway } from '../../support/gateway.js'
import { waitFor } from '../../support/waitFor.js'

const SUBTITLES = fileURLToPath(new URL('../../../examples/plugins/subtitles', import.meta.url))

interface Document {
  id: string
  name: string
  status: string
  reason?: string
  extractor: string | null
  text: string | null
}

describe('documents', () => {
  let gateway: TestGateway
  let token: string
  let stranger: string

  before(async () => {
    gateway = await startGateway({ settings: { 'Service:Plugins:Enabled': 'true', 'Service:Documents:ParseTimeoutSeconds': '3' } })
    token = await login(gateway)
    const other = { email: 'other@example.com', password: 'another long password' }
    const made = await gateway.call('POST', '/admin/users', { token, body: { ...other, name: 'Other', roles: ['User'] } })
    assert.equal(made.status, 201, made.text)
    stranger = await login(gateway, other)
  })
  after(() => gateway.stop())

  const upload = (name: string, content: string | Buffer, type = '') => {
    const form = new FormData()
    form.append('file', new Blob([typeof content === 'string' ? content : new Uint8Array(content)], { type }), name)
    return gateway.call('POST', '/documents/upload', { token, body: form })
  }

  /** The document once it is read, or not to be read. */
  const read = async (name: string, content: string | Buffer, type = ''): Promise<Document> => {
    const { body, status, text } = await upload(name, content, type)
    assert.equal(status, 201, text)
    return settled((body as Document).id)
  }

  const settled = (id: string): Promise<Document> =>
    waitFor(`the document ${id}`, async () => {
      const { body } = await gateway.call('GET', `/documents/${id}`, { token })
      return (body as Document).status === 'extracting' ? undefined : (body as Document)
    })

  it('are read in every built-in format', async () => {
    assert.equal((await read('a.txt', 'Plain text.')).text, 'Plain text.')
    assert.equal((await read('a.md', '# Title\n\nText')).text, '# Title\n\nText')
    assert.equal((await read('a.csv', 'name;age\nAda;36\n')).text, 'name | age\nAda | 36')
    assert.equal((await read('a.json', '{"a": [1]}')).text, '{"a": [1]}')
    const page = await read(
      'a.html',
      '<html><head><title>T</title><script>evil()</script></head><body><h1>Head</h1><p>Some <b>text</b></p></body></html>',
    )
    assert.match(page.text ?? '', /Some \*\*text\*\*/)
    assert.ok(!page.text?.includes('evil'))
    assert.equal(page.extractor, 'builtin:html')
    assert.equal((await read('unnamed', 'By its type', 'text/plain')).text, 'By its type')
    assert.equal((await read('empty.txt', '')).text, '')
    for (const [content, extractor, text] of [
      ['all: build\n', 'builtin:text', 'all: build\n'],
      ['<!doctype html><p>A <i>page</i>', 'builtin:html', 'A _page_'],
      ['{"a": 1}', 'builtin:json', '{"a": 1}'],
    ] as const) {
      const sniffed = await read('Makefile', content)
      assert.deepEqual([sniffed.extractor, sniffed.text], [extractor, text])
    }
    const binary = await read('program', Buffer.from([127, 69, 76, 70, 2, 1, 1, 0, 0, 0]))
    assert.deepEqual([binary.status, binary.extractor], ['failed', null])
  })

  it('keep long texts whole, whatever their characters', async () => {
    // One character more than half of them shifts where pieces begin.
    const text = `x${'😀é'.repeat(150_000)}`
    assert.equal((await read('long.txt', text)).text, text)
  })

  it('are read in other encodings', async () => {
    assert.equal((await read('bom.txt', Buffer.from([0xef, 0xbb, 0xbf, 0xc3, 0xa9]))).text, 'é')
    assert.equal((await read('utf16.txt', Buffer.from([0xff, 0xfe, 0x41, 0x00, 0xe9, 0x00]))).text, 'Aé')
    assert.match(
      (
        await read(
          'latin.html',
          Buffer.concat([Buffer.from('<meta charset="iso-8859-1"><p>caf'), Buffer.from([0xe9]), Buffer.from('</p>')]),
        )
      ).text ?? '',
      /café/,
    )
  })

  it('that cannot be read are kept, with the reason', async () => {
    const binary = await read('picture.txt', Buffer.from([0, 1, 2, 3, 255, 0]))
    assert.deepEqual([binary.status, binary.text], ['failed', null])
    assert.match(binary.reason ?? '', /not text/)
    assert.match((await read('broken.json', '{"a":')).reason ?? '', /not valid JSON/)
    const deep = await read('deep.html', '<div>level '.repeat(100_000))
    assert.deepEqual([deep.status, deep.text?.slice(0, 12)], ['ready', 'level\nlevel\n'])
    const wide = await read('wide.csv', 'x,'.repeat(500_000))
    assert.ok((wide.text ?? '').length < 5_000_000)
    assert.equal((await gateway.call('GET', '/health')).status, 200)
  })

  it('keep their names and bytes, whatever they are called', async () => {
    const bytes = Buffer.from([1, 2, 3, 250])
    for (const name of ['../../etc/passwd.bin', 'quote".bin', 'a;b.bin', 'ünï-\u202e.bin', `${'x'.repeat(400)}.bin`]) {
      const { body, headers } = await upload(name, bytes)
      assert.match(headers.get('location') ?? '', /^\/api\/documents\/doc_/)
      const answer = await fetch(`${gateway.url}/api/documents/${(body as Document).id}/download`, {
        headers: { Authorization: `Bearer ${token}` },
      })
      assert.deepEqual(Buffer.from(await answer.arrayBuffer()), bytes)
      assert.match(
        answer.headers.get('content-disposition') ?? '',
        /^attachment; filename="[^"\r\n]+"; filename\*=UTF-8''[\w%.~!$&+^`|-]+$/,
      )
      assert.ok(!(body as Document).name.includes('/'))
    }
  })

  it('are seen by their owner alone', async () => {
    const { id } = await read('mine.txt', 'mine')
    for (const [method, path] of [
      ['GET', `/documents/${id}`],
      ['GET', `/documents/${id}/download`],
      ['DELETE', `/documents/${id}`],
    ] as const)
      assert.equal((await gateway.call(method, path, { token: stranger })).status, 404)
    assert.deepEqual((await gateway.call('GET', '/documents', { token: stranger })).body.items, [])
    assert.equal((await gateway.call('GET', `/documents/${id}`, { token })).body.text, 'mine')
  })

  it('are listed in pages and filtered; a damaged cursor is refused', async () => {
    const first = (await gateway.call('GET', '/documents?limit=2', { token })).body
    assert.deepEqual([first.items.length, first.hasMore], [2, true])
    const next = (await gateway.call('GET', `/documents?limit=2&cursor=${encodeURIComponent(first.nextCursor as string)}`, { token })).body
    assert.notEqual(next.items[0].id, first.items[0].id)
    assert.equal((await gateway.call('GET', '/documents?cursor=damaged', { token })).status, 400)
    assert.equal((await gateway.call('GET', '/documents?limit=0', { token })).status, 400)
    const failed = (await gateway.call('GET', '/documents?status=failed&extension=json', { token })).body.items as Document[]
    assert.deepEqual(
      failed.map(({ name }) => name),
      ['broken.json'],
    )
  })

  it('are gone with their files once deleted', async () => {
    const { id } = await read('gone.txt', 'gone')
    assert.equal((await gateway.call('DELETE', `/documents/${id}`, { token })).status, 204)
    assert.equal((await gateway.call('GET', `/documents/${id}`, { token })).status, 404)
    assert.equal((await gateway.call('DELETE', `/documents/${id}`, { token })).status, 404)
    await waitFor('the files to go', async () => !(await readdir(join(gateway.dataDir, 'documents'))).includes(id))
  })

  it('that nothing reads are read when a plugin that does is installed', async () => {
    const waiting = await read('talk.srt', '1\n00:00:01,000 --> 00:00:02,000\nWords of a subtitle\n')
    assert.equal(waiting.status, 'failed')
    assert.match(waiting.reason ?? '', /nothing here reads \.srt files/)
    await cp(SUBTITLES, join(gateway.dataDir, 'plugins', 'subtitles'), { recursive: true })
    await gateway.call('POST', '/plugins/scan', { token })
    const ready = await waitFor('the text', async () => {
      const { body } = await gateway.call('GET', `/documents/${waiting.id}`, { token })
      return (body as Document).status === 'ready' ? (body as Document) : undefined
    })
    assert.match(ready.text ?? '', /Words of a subtitle/)
    assert.equal(ready.extractor, 'subtitles')
    assert.equal(ready.reason, undefined)
  })

  it('answer questions when no model is configured, by name', async () => {
    await read('mat.txt', 'The spare key of the lighthouse lies under the third flowerpot.')
    const { body } = await gateway.call('POST', '/chat', { token, body: { message: 'Where is the spare key of the lighthouse?' } })
    const reply = await waitFor('the reply', async () => {
      const { items } = (await gateway.call('GET', `/sessions/${body.sessionId as string}/messages`, { token })).body as {
        items: { role: string; content: string }[]
      }
      return items.find(({ role }) => role === 'assistant')
    })
    assert.match(reply.content, /mat\.txt/)
    assert.match(reply.content, /third flowerpot/)
  })

  it('uploaded before a restart are read after it', async () => {
    const dataDir = gateway.dataDir
    const { body } = await upload('late.txt', 'Read after all.')
    await gateway.stop({ keep: true })
    gateway = await startGateway({ dataDir, settings: { 'Service:Plugins:Enabled': 'true' } })
    token = await login(gateway, ADMIN)
    assert.equal((await settled((body as Document).id)).text, 'Read after all.')
  })
})
