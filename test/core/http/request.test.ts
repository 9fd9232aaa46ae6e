import assert from 'node:assert/strict'
import { existsSync } from 'node:fs'
import { mkdir, mkdtemp, readdir, writeFile } from 'node:fs/promises'
import { connect } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { gzipSync } from 'node:zlib'
import { route } from '../../../core/http/route.js'
import { startGateway, type TestGateway } from '../../support/gateway.js'
import { waitFor } from '../../support/waitFor.js'
import { exampleRoutes, routesPlugin, testIdentity } from './support.js'

describe('a request', () => {
  let gateway: TestGateway
  let handlerSignal: AbortSignal | undefined

  before(async () => {
    const hanging = route({
      method: 'GET',
      path: '/hang',
      access: 'public',
      limit: 'read',
      summary: 'Hangs until the client goes',
      handle: ({ signal }) => {
        handlerSignal = signal
        return new Promise((_, reject) => {
          signal.addEventListener('abort', () => {
            reject(new Error('gone'))
          })
        })
      },
    })
    gateway = await startGateway({
      plugins: [testIdentity, routesPlugin(...exampleRoutes(), hanging)],
      settings: { 'Service:Http:ReceiveTimeoutSeconds': '1' },
    })
  })
  after(() => gateway.stop())

  const envelope = async (method: string, path: string, status: number, code: string, options = {}) => {
    const answer = await gateway.call(method, path, options)
    assert.equal(answer.status, status, answer.text)
    assert.equal(answer.body.error.code, code)
    assert.equal(answer.body.error.requestId, answer.headers.get('x-service-request-id'))
    assert.equal(typeof answer.body.error.message, 'string')
    assert.equal(typeof answer.body.error.details, 'object')
    return answer
  }

  describe('without a fault', () => {
    it('gets the record, only the fields that the route names, and a request id', async () => {
      const { status, body, headers } = await gateway.call('GET', '/things/t9', { token: 'user' })
      assert.equal(status, 200)
      assert.deepEqual(body, { id: 't9', name: 'a thing' })
      assert.match(headers.get('x-service-request-id') ?? '', /^[\w-]{36}$/)
      assert.equal(headers.get('x-content-type-options'), 'nosniff')
      assert.equal(headers.get('cache-control'), 'no-store')
      assert.match(headers.get('content-security-policy') ?? '', /default-src 'none'/)
    })

    it('keeps a well-formed request id of the caller, and only such a one', async () => {
      const id = async (sent: string) =>
        (await gateway.call('GET', '/open', { headers: { 'X-Service-Request-Id': sent } })).headers.get('x-service-request-id')
      assert.equal(await id('ticket-7.a_B'), 'ticket-7.a_B')
      assert.notEqual(await id('a'.repeat(65)), 'a'.repeat(65))
      assert.notEqual(await id('a b'), 'a b')
    })

    it('that creates gets 201 with Location, one that deletes 204 without a body', async () => {
      const made = await gateway.call('POST', '/things', { token: 'user', body: { name: 'new', unknown: 'ignored' } })
      assert.equal(made.status, 201)
      assert.equal(made.headers.get('location'), '/api/things/t1')
      const removed = await gateway.call('DELETE', '/things/t1', { token: 'user' })
      assert.equal(removed.status, 204)
      assert.equal(removed.text, '')
    })

    it('by HEAD gets the headers only', async () => {
      const response = await fetch(`${gateway.url}/api/open`, { method: 'HEAD' })
      assert.equal(response.status, 200)
      assert.equal(await response.text(), '')
    })
  })

  describe('with a fault', () => {
    it('for an unknown path is 404, for a known one with another method 405 with Allow', async () => {
      await envelope('GET', '/nothing/here', 404, 'not_found')
      const root = (await (await fetch(`${gateway.url}/`)).json()) as { error: { message: string } }
      assert.equal(root.error.message, 'There is nothing at /: the API is below /api, its description at /openapi')
      const { headers } = await envelope('PUT', '/things/t1', 405, 'invalid_request')
      assert.equal(headers.get('allow'), 'GET, DELETE')
      const outside = await fetch(`${gateway.url}/somewhere`)
      assert.equal(outside.status, 404)
    })

    it('with wrong JSON is 400, without a body 400, of another type 415', async () => {
      const headers = { 'Content-Type': 'application/json' }
      await envelope('POST', '/things', 400, 'invalid_request', { token: 'user', body: '{"name": ', headers })
      await envelope('POST', '/things', 400, 'invalid_request', { token: 'user', body: Buffer.from([0x22, 0xff, 0x22]), headers })
      await envelope('POST', '/things', 400, 'invalid_request', { token: 'user' })
      await envelope('POST', '/things', 415, 'invalid_request', {
        token: 'user',
        body: 'name=x',
        headers: { 'Content-Type': 'application/x-www-form-urlencoded' },
      })
    })

    it('that breaks the schema is 422 and names every field', async () => {
      const { body } = await envelope('POST', '/things', 422, 'validation_failed', { token: 'user', body: { name: '', size: 'big' } })
      assert.deepEqual(
        body.error.details.issues.map(({ path }: { path: string }) => path),
        ['name', 'size'],
      )
    })

    it('with a malformed path or query parameter is 400', async () => {
      await envelope('GET', '/things/x1', 400, 'invalid_request', { token: 'user' })
      await envelope('GET', '/open?n=zero', 400, 'invalid_request')
      await envelope('GET', '/things/%E0%A4%A', 400, 'invalid_request', { token: 'user' })
    })

    it('whose handler crashes is 500: the cause is in the log and not in the answer', async () => {
      const { text } = await envelope('GET', '/crash', 500, 'internal_error')
      assert.ok(!text.includes('hunter2'))
      assert.ok(gateway.logged().includes('hunter2'))
      await envelope('GET', '/breaks-its-schema', 500, 'internal_error')
    })

    it('with too large a body is 413, answered without reading the rest', async () => {
      await envelope('POST', '/things', 413, 'payload_too_large', { token: 'user', body: { name: 'x'.repeat(1024 * 1024) } })
      const answer = await new Promise<string>((resolve, reject) => {
        const socket = connect(Number(new URL(gateway.url).port), '127.0.0.1', () => {
          socket.write('POST /api/raw HTTP/1.1\r\nHost: x\r\nContent-Type: a/b\r\nTransfer-Encoding: chunked\r\n\r\n')
          socket.write(`1000\r\n${'x'.repeat(0x1000)}\r\n`)
        })
        let text = ''
        socket.on('data', chunk => (text += chunk.toString()))
        socket.on('close', () => resolve(text))
        socket.on('error', reject)
      })
      assert.match(answer, /^HTTP\/1.1 413 /)
      assert.match(answer, /"payload_too_large"/)
    })

    it('whose client hangs up ends the handler and hurts nobody', async () => {
      const gone = new AbortController()
      const pending = fetch(`${gateway.url}/api/hang`, { signal: gone.signal })
      await waitFor('the handler', () => handlerSignal)
      gone.abort()
      await assert.rejects(pending)
      await waitFor('the abort', () => handlerSignal?.aborted)
      assert.equal((await gateway.call('GET', '/open')).status, 200)
    })

    it('with a compressed body is 415, which says that it must not be', async () => {
      for (const encoding of ['gzip', 'br', 'identity, gzip']) {
        const headers = { 'Content-Encoding': encoding, 'Content-Type': 'application/json' }
        const body = gzipSync(JSON.stringify({ name: 'x' }))
        const { headers: answered } = await envelope('POST', '/things', 415, 'invalid_request', { token: 'user', headers, body })
        assert.equal(answered.get('accept-encoding'), 'identity')
      }
      const plain = { 'Content-Encoding': 'identity' }
      assert.equal((await gateway.call('POST', '/things', { token: 'user', headers: plain, body: { name: 'x' } })).status, 201)
      const form = new FormData()
      form.append('file', new Blob(['x']), 'a.txt')
      await envelope('POST', '/files', 415, 'invalid_request', { token: 'user', headers: { 'Content-Encoding': 'gzip' }, body: form })
    })

    /** Sends the text, waits for the connection's end, and returns what came. */
    const answerTo = (text: string): Promise<string> =>
      new Promise((resolve, reject) => {
        const socket = connect(Number(new URL(gateway.url).port), '127.0.0.1', () => socket.write(text))
        let received = ''
        socket.on('data', chunk => (received += chunk.toString()))
        socket.on('close', () => resolve(received))
        socket.on('error', reject)
      })

    it('whose body never ends is 408 after a while', async () => {
      const head = 'HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer user\r\nContent-Length: 1000\r\nContent-Type: '
      const form = '--b\r\nContent-Disposition: form-data; name="file"; filename="a"\r\n\r\nhello'
      const answers = await Promise.all([
        answerTo(`POST /api/things ${head}application/json\r\n\r\n{"name"`),
        answerTo(`POST /api/raw ${head}a/b\r\n\r\nx`),
        answerTo(`POST /api/files ${head}multipart/form-data; boundary=b\r\n\r\n${form}`),
      ])
      for (const answer of answers) {
        assert.match(answer, /^HTTP\/1.1 408 /)
        assert.match(answer, /"invalid_request","message":"The request body did not arrive in time/)
        assert.match(answer, /^Connection: close/im)
      }
      await waitFor('an empty directory', async () => (await readdir(join(gateway.dataDir, 'tmp', 'uploads'))).length === 0)
    })

    it('that was refused may not go on sending its body for ever', async () => {
      const received = await new Promise<string>((resolve, reject) => {
        let text = ''
        const socket = connect(Number(new URL(gateway.url).port), '127.0.0.1', () =>
          socket.write('POST /api/things HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 100000\r\n\r\n'),
        )
        const drip = setInterval(() => socket.write('x'), 100)
        socket.on('data', chunk => (text += chunk.toString()))
        socket.on('error', (error: NodeJS.ErrnoException) => {
          if (error.code !== 'EPIPE' && error.code !== 'ECONNRESET') reject(error)
        })
        socket.on('close', () => {
          clearInterval(drip)
          resolve(text)
        })
      })
      assert.match(received, /^HTTP\/1.1 401 /)
    })

    it('nested too deep to be written again is 400', async () => {
      const nested = (depth: number): string => `{"name": "a \\\\\\"[", "more": ${'['.repeat(depth)}${']'.repeat(depth)}}`
      const headers = { 'Content-Type': 'application/json' }
      await envelope('POST', '/things', 400, 'invalid_request', { token: 'user', headers, body: nested(500) })
      const answer = await gateway.call('POST', '/things', { token: 'user', headers, body: nested(499) })
      assert.doesNotMatch(answer.text, /nested/)
    })

    it('that stops in the middle of its body is given up', async () => {
      const socket = connect(Number(new URL(gateway.url).port), '127.0.0.1')
      socket.write(
        'POST /api/things HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer user\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{"name"',
      )
      await new Promise(resolve => setTimeout(resolve, 50))
      socket.destroy()
      assert.equal((await gateway.call('GET', '/open')).status, 200)
    })
  })

  describe('with access', () => {
    it('without a token, or with a wrong one, is 401', async () => {
      await envelope('GET', '/whoami', 401, 'unauthenticated')
      await envelope('GET', '/whoami', 401, 'unauthenticated', { token: 'nobody' })
    })

    it('is let in by role and by permission, and told what is missing', async () => {
      assert.equal((await gateway.call('GET', '/for-admins', { token: 'admin' })).status, 200)
      const refused = await envelope('GET', '/for-admins', 403, 'not_authorized', { token: 'operator' })
      assert.equal(refused.body.error.details.role, 'Admin')
      assert.equal((await gateway.call('GET', '/for-operators', { token: 'operator' })).status, 200)
      assert.equal((await gateway.call('GET', '/for-operators', { token: 'admin' })).status, 200)
      await envelope('GET', '/for-operators', 403, 'not_authorized', { token: 'user' })
      assert.equal((await gateway.call('GET', '/for-permission', { token: 'other' })).status, 200)
      const missing = await envelope('GET', '/for-permission', 403, 'not_authorized', { token: 'user' })
      assert.equal(missing.body.error.details.permission, 'ManageWorkflows')
    })

    it("that makes a record under a tenant's prefix is told its place under the same prefix", async () => {
      const made = async (path: string) =>
        (await gateway.call('POST', path, { token: 'other', body: { name: 'x' } })).headers.get('location')
      assert.equal(await made('/tenants/acme/things'), '/api/tenants/acme/things/t1')
      assert.equal(await made('/tenants/%61cme/things'), '/api/tenants/%61cme/things/t1')
      assert.equal(await made('/things'), '/api/things/t1')
    })

    it('to a tenant comes by header or by prefix; both different is 400, a foreign or unknown one 403', async () => {
      assert.equal((await gateway.call('GET', '/tenants/acme/whoami', { token: 'other' })).body.tenant, 'acme')
      assert.equal((await gateway.call('GET', '/whoami', { token: 'other', headers: { 'X-Service-Tenant': 'acme' } })).status, 200)
      await envelope('GET', '/tenants/acme/whoami', 400, 'invalid_request', { token: 'other', headers: { 'X-Service-Tenant': 'b' } })
      const foreign = await envelope('GET', '/tenants/acme/whoami', 403, 'not_authorized', { token: 'user' })
      const unknown = await envelope('GET', '/tenants/none/whoami', 403, 'not_authorized', { token: 'user' })
      assert.equal(foreign.body.error.message, unknown.body.error.message)
    })
  })

  describe('with files', () => {
    const form = (files: [field: string, name: string, content: string][], fields: Record<string, string> = {}): FormData => {
      const data = new FormData()
      for (const [name, value] of Object.entries(fields)) data.append(name, value)
      for (const [field, name, content] of files) data.append(field, new Blob([content], { type: 'text/plain' }), name)
      return data
    }

    it('hands them over by path and removes what nobody kept', async () => {
      const { body, status } = await gateway.call('POST', '/files', {
        token: 'user',
        body: form([['file', '../../etc/pass\u0000wd', 'hello']], { note: 'n' }),
      })
      assert.equal(status, 200)
      assert.equal(body.files[0].name, 'passwd')
      assert.equal(body.files[0].size, 5)
      assert.deepEqual(body.fields, { note: 'n' })
      assert.ok(body.files[0].path.startsWith(join(gateway.dataDir, 'tmp', 'uploads')))
      await waitFor('the removal', () => !existsSync(body.files[0].path as string))
    })

    it('is refused without a form, without the field, and when too large, leaving nothing behind', async () => {
      await envelope('POST', '/files', 415, 'invalid_request', { token: 'user', body: { file: 'x' } })
      await envelope('POST', '/files', 422, 'validation_failed', { token: 'user', body: form([['other', 'a.txt', 'x']]) })
      await envelope('POST', '/files', 413, 'payload_too_large', { token: 'user', body: form([['file', 'a.txt', 'x'.repeat(200_000)]]) })
      await envelope('POST', '/files', 400, 'invalid_request', {
        token: 'user',
        body: 'not a form',
        headers: { 'Content-Type': 'multipart/form-data; boundary=x' },
      })
      await waitFor('an empty directory', async () => (await readdir(join(gateway.dataDir, 'tmp', 'uploads'))).length === 0)
    })
  })
})

describe('a gateway that was killed', () => {
  it('leaves no uploads behind: its next start removes them', async () => {
    const dataDir = await mkdtemp(join(tmpdir(), 'gateway-test-'))
    const uploads = join(dataDir, 'tmp', 'uploads')
    await mkdir(uploads, { recursive: true })
    await writeFile(join(uploads, 'half'), 'of a file')
    const gateway = await startGateway({ dataDir, plugins: [testIdentity] })
    assert.equal(existsSync(join(uploads, 'half')), false)
    await gateway.stop()
  })
})

describe('a route without access or limit', () => {
  it('keeps the gateway from starting', async () => {
    const [first] = exampleRoutes()
    const { access: _, ...open } = first!
    await assert.rejects(
      startGateway({ plugins: [testIdentity, routesPlugin(open as never)] }),
      /GET \/things\/:id does not declare who may call it/,
    )
  })

  it('keeps it from starting also when nothing can check its credential', async () => {
    const [first] = exampleRoutes()
    await assert.rejects(startGateway({ plugins: [routesPlugin(first!)] }), /needs a credential of kind "user", but no plugin registers/)
  })
})
