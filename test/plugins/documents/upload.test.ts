import assert from 'node:assert/strict'
import { readdir } from 'node:fs/promises'
import { request } from 'node:http'
import { join } from 'node:path'
import { ADMIN, login, startGateway, type TestGateway } from '../../support/gateway.js'
import { waitFor } from '../../support/waitFor.js'
import { Library, type Document } from './library.js'

describe('uploads', () => {
  let gateway: TestGateway
  let token: string
  let library: Library

  before(async () => {
    const settings = {
      'Service:Http:UploadLimitBytes': '200000',
      'Service:Documents:MaxBytesPerUser': '1000000',
      'Service:Documents:MaxDocumentsPerUser': '20',
    }
    gateway = await startGateway({ settings })
    token = await login(gateway, ADMIN)
  })
  after(() => gateway.stop())

  /** Each test has a user, and so a quota, of its own. */
  beforeEach(async function () {
    const other = { email: `user${Date.now()}@example.com`, password: 'another long password' }
    const { id } = (await gateway.call('POST', '/admin/users', { token, body: { ...other, name: 'Other', roles: ['User'] } })).body
    assert.ok(id, this.currentTest?.title)
    library = new Library(gateway, (userToken = await login(gateway, other)))
  })
  let userToken = ''

  const post = (body: FormData | string, headers: Record<string, string> = {}) =>
    gateway.call('POST', '/documents/upload', { token: userToken, body, headers })

  const listed = async (query = ''): Promise<Document[]> =>
    (await gateway.call('GET', `/documents?limit=200${query}`, { token: userToken })).body.items as Document[]

  const leaveNothing = async (): Promise<void> => {
    assert.deepEqual(await listed(), [])
    await waitFor('received files to go', async () => (await readdir(join(gateway.dataDir, 'tmp', 'uploads')).catch(() => [])).length === 0)
  }

  it('over the limit are refused, whether the size is announced or not, and leave nothing', async () => {
    const announced = await library.upload('big.txt', Buffer.alloc(5_000_000, 0x61))
    assert.deepEqual([announced.status, announced.body.error.code], [413, 'payload_too_large'])
    const status = await new Promise<number | undefined>((resolve, reject) => {
      const headers = { Authorization: `Bearer ${userToken}`, 'Content-Type': 'multipart/form-data; boundary=b' }
      const sending = request(`${gateway.url}/api/documents/upload`, { method: 'POST', headers }, answer => {
        answer.resume()
        resolve(answer.statusCode)
      })
      sending.on('error', reject)
      sending.write('--b\r\nContent-Disposition: form-data; name="file"; filename="big.txt"\r\nContent-Type: text/plain\r\n\r\n')
      sending.write(Buffer.alloc(300_000, 0x61))
    })
    assert.equal(status, 413)
    await leaveNothing()
  })

  it('without a content type are files too', async () => {
    const body = '--b\r\nContent-Disposition: form-data; name="file"; filename="plain.txt"\r\n\r\ntext\r\n--b--\r\n'
    const answer = await post(body, { 'Content-Type': 'multipart/form-data; boundary=b' })
    assert.deepEqual([answer.status, answer.body.name, answer.body.mimeType], [201, 'plain.txt', 'application/octet-stream'])
    assert.equal((await library.settled(answer.body.id as string)).text, 'text')
  })

  it('of another content type, or without a file in the right field, are refused by name', async () => {
    const json = await post('{"file": "x"}', { 'Content-Type': 'application/json' })
    assert.deepEqual([json.status, json.body.error.code], [415, 'invalid_request'])
    const wrong = new FormData()
    wrong.append('document', new Blob(['x']), 'x.txt')
    const { status, body } = await post(wrong)
    assert.deepEqual([status, body.error.code, body.error.details.issues[0].path], [422, 'validation_failed', 'file'])
    const text = new FormData()
    text.append('file', 'only a text field')
    assert.equal((await post(text)).status, 422)
    const broken = await post('--b\r\nContent-Disposition: form-data', { 'Content-Type': 'multipart/form-data; boundary=b' })
    assert.deepEqual([broken.status, broken.body.error.code], [400, 'invalid_request'])
    await leaveNothing()
  })

  it('with an encoding that nobody knows are refused as such, not taken for a fault of the gateway', async () => {
    const part = 'Content-Disposition: form-data; name="file"; filename="a.txt"\r\nContent-Transfer-Encoding: rot13'
    const answer = await post(`--b\r\n${part}\r\n\r\nabc\r\n--b--\r\n`, { 'Content-Type': 'multipart/form-data; boundary=b' })
    assert.deepEqual([answer.status, answer.body.error.code], [400, 'invalid_request'])
    assert.match(answer.body.error.message, /unknown transfer-encoding/)
    await leaveNothing()
  })

  it('of too many files or fields are told what there was too much of', async () => {
    const form = (names: string[], value: () => string | Blob): FormData => {
      const made = new FormData()
      for (const name of names) made.append(name, value())
      return made
    }
    const files = await post(form(Array<string>(11).fill('file'), () => new Blob(['a'])))
    assert.deepEqual([files.status, files.body.error.message], [413, 'The form cannot be taken: it has more than 10 files'])
    const fields = await post(form(Array<string>(1001).fill('note'), () => 'a'))
    assert.deepEqual([fields.status, fields.body.error.message], [413, 'The form cannot be taken: it has more than 1000 fields'])
    await leaveNothing()
  })

  it('at the same time never exceed the bytes that a user may keep, and use them all', async () => {
    const answers = await Promise.all(Array.from({ length: 10 }, (_, index) => library.upload(`${index}.txt`, Buffer.alloc(150_000, 0x61))))
    assert.equal(answers.filter(({ status }) => status === 201).length, 6)
    const refused = answers.filter(({ status }) => status !== 201)
    for (const { status, body } of refused)
      assert.deepEqual([status, body.error.code, body.error.details], [413, 'payload_too_large', { maxBytes: 1_000_000 }])
    const documents = await listed()
    assert.equal(documents.length, 6)
    assert.equal((await library.remove(documents[0]!.id)).status, 204)
    assert.equal((await library.upload('again.txt', Buffer.alloc(150_000, 0x61))).status, 201)
  })

  it('at the same time never exceed the number of documents that a user may keep', async () => {
    const answers = await Promise.all(Array.from({ length: 25 }, (_, index) => library.upload(`${index}.txt`, 'x')))
    assert.equal(answers.filter(({ status }) => status === 201).length, 20)
    const { status, body } = await library.upload('more.txt', 'x')
    assert.deepEqual([status, body.error.code, body.error.details], [409, 'conflict', { maxDocuments: 20 }])
    assert.equal((await listed()).length, 20)
    const kept = new Set((await listed()).map(({ id }) => id))
    const files = await readdir(join(gateway.dataDir, 'documents'))
    assert.equal(files.filter(name => kept.has(name)).length, 20)
  })

  it('are found by a part of their name and by their type', async () => {
    await library.add('Report (final).TXT', 'x', 'text/plain; charset=utf-8')
    await library.add('report.json', '{}', 'application/json')
    await library.add('notes.md', 'x', 'text/markdown')
    const names = async (query: string): Promise<string[]> => (await listed(query)).map(({ name }) => name).sort()
    assert.deepEqual(await names('&name=REPORT'), ['Report (final).TXT', 'report.json'])
    assert.deepEqual(await names('&name=(final).'), ['Report (final).TXT'])
    assert.deepEqual(await names('&name=.*'), [])
    assert.deepEqual(await names('&mimeType=Text/Plain'), ['Report (final).TXT'])
    assert.deepEqual(await names('&mimeType=text'), [])
    assert.deepEqual(await names('&name=report&mimeType=application/json'), ['report.json'])
  })

  it('say why there is no text where one document is shown, and only there', async () => {
    const { id, reason } = await library.read('picture.odd', 'x')
    assert.match(reason ?? '', /nothing here reads \.odd files/)
    assert.ok(!('reason' in (await listed()).find(document => document.id === id)!))
    const ready = await library.read('ready.txt', 'x')
    for (const field of ['reason', 'waitsFor', 'truncated']) assert.ok(!(field in ready), field)
  })
})
