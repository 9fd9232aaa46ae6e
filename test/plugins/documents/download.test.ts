import assert from 'node:assert/strict'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { login, startGateway, type TestGateway } from '../../support/gateway.js'
import { Library } from './library.js'

describe('the download of a document', () => {
  let gateway: TestGateway
  let library: Library
  let token: string
  let id: string
  let directory: string
  const bytes = Buffer.from(Array.from({ length: 100_000 }, (_, index) => index % 251))

  before(async () => {
    directory = await mkdtemp(join(tmpdir(), 'gateway-documents-'))
    gateway = await startGateway({ settings: { 'Service:Documents:Directory': directory } })
    token = await login(gateway)
    library = new Library(gateway, token)
    id = await library.add('bytes.bin', bytes)
  })
  after(async () => {
    await gateway.stop()
    await rm(directory, { recursive: true, force: true })
  })

  const download = async (headers: Record<string, string> = {}, of = id): Promise<{ answer: Response; content: Buffer }> => {
    const answer = await fetch(`${gateway.url}/api/documents/${of}/download`, { headers: { Authorization: `Bearer ${token}`, ...headers } })
    return { answer, content: Buffer.from(await answer.arrayBuffer()) }
  }

  it('is the whole file, as it came, and says that parts can be had', async () => {
    const { answer, content } = await download({ 'Accept-Encoding': 'gzip' })
    assert.equal(answer.status, 200)
    assert.deepEqual(content, bytes)
    assert.equal(answer.headers.get('content-length'), '100000')
    assert.equal(answer.headers.get('content-encoding'), null)
    assert.equal(answer.headers.get('accept-ranges'), 'bytes')
    assert.match(answer.headers.get('etag') ?? '', /^"[^"]+"$/)
  })

  it('is a part for a range of bytes', async () => {
    for (const [range, start, end] of [
      ['bytes=0-0', 0, 0],
      ['bytes=70000-', 70_000, 99_999],
      ['bytes=-10', 99_990, 99_999],
      ['bytes=99999-200000', 99_999, 99_999],
    ] as const) {
      const { answer, content } = await download({ Range: range })
      assert.equal(answer.status, 206)
      assert.equal(answer.headers.get('content-range'), `bytes ${start}-${end}/100000`)
      assert.equal(answer.headers.get('content-length'), String(end - start + 1))
      assert.deepEqual(content, bytes.subarray(start, end + 1))
    }
  })

  it('is refused for a range behind the end', async () => {
    const { answer, content } = await download({ Range: 'bytes=100000-' })
    assert.equal(answer.status, 416)
    assert.equal(answer.headers.get('content-range'), 'bytes */100000')
    assert.equal(JSON.parse(content.toString()).error.code, 'invalid_request')
    const empty = await library.add('empty.bin', '')
    assert.equal((await download({ Range: 'bytes=0-' }, empty)).answer.status, 416)
    assert.equal((await download({}, empty)).answer.status, 200)
  })

  it('is the whole file for several ranges, and for a part of another version', async () => {
    const etag = (await download()).answer.headers.get('etag') ?? ''
    assert.equal((await download({ Range: 'bytes=0-1,5-6' })).answer.status, 200)
    assert.equal((await download({ Range: 'bytes=0-1', 'If-Range': etag })).answer.status, 206)
    for (const other of ['"another"', `W/${etag}`, 'Wed, 21 Oct 2015 07:28:00 GMT']) {
      const { answer, content } = await download({ Range: 'bytes=0-1', 'If-Range': other })
      assert.deepEqual([answer.status, content.length], [200, 100_000], other)
    }
  })

  it('says so when the file is not there', async () => {
    const lost = await library.add('lost.bin', 'lost')
    await rm(join(directory, lost), { recursive: true })
    const { answer, content } = await download({}, lost)
    assert.equal(answer.status, 503)
    assert.match(content.toString(), /not in the documents directory of this gateway/)
  })
})
