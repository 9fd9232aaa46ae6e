import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { chown, mkdir, mkdtemp, readdir, readFile, rm, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { connect } from '../../../core/store/sqlite/connection.js'
import { askForReset } from '../../../plugins/identity/passwordResets.js'
import { ADMIN, login } from '../../support/gateway.js'
import { launchGateway, type GatewayProcess } from '../../support/gatewayProcess.js'
import { waitFor } from '../../support/waitFor.js'

const ROOT = fileURLToPath(new URL('../../..', import.meta.url))

describe('the command that resets a password', () => {
  let dataDir: string
  let gateway: GatewayProcess | undefined

  const start = async (): Promise<GatewayProcess> =>
    (gateway = await launchGateway({ dataDir, settings: { 'Service:Admin:Password': ADMIN.password } }))
  const stop = async (): Promise<void> => {
    await gateway?.stop()
    gateway = undefined
  }
  const tryLogin = async (password: string): Promise<number> =>
    (await gateway!.call('POST', '/auth/login', { body: { ...ADMIN, password } })).status
  const run = (...args: string[]): Promise<{ stdout: string; stderr: string }> =>
    promisify(execFile)(process.execPath, ['dist/main.js', '--default', `Service:DataDir=${dataDir}`, ...args], { cwd: ROOT })
  const passwordIn = (output: string): string => /The new password of \S+ is (\S+)\n/.exec(output)?.[1] ?? ''

  beforeEach(async () => {
    dataDir = await mkdtemp(join(tmpdir(), 'reset-test-'))
    await start()
  })
  afterEach(async () => {
    await stop()
    await rm(dataDir, { recursive: true, force: true })
  })

  it('puts a new one in force while the gateway runs, ends the sessions, and stands in the audit', async () => {
    const session = await login(gateway!)
    const { stdout } = await run('reset-password', 'Admin@LOCALHOST')
    assert.match(stdout, /It is in force/)
    const password = passwordIn(stdout)
    assert.equal(await tryLogin(ADMIN.password), 401)
    assert.equal(await tryLogin(password), 200)
    assert.equal((await gateway!.call('GET', '/auth/me', { token: session })).status, 401)
    assert.deepEqual(await readdir(join(dataDir, 'password-resets')), [])
    assert.ok(!gateway!.stderr().includes(password))
    await stop()
    const db = connect(join(dataDir, 'store.db'))
    const audited = db.prepare('SELECT doc FROM "c:audit.entries" WHERE instr(doc, ?) > 0').all('users.resetPassword')
    db.close()
    assert.equal(audited.length, 1)
  })

  it('puts a new one in force at the next start when no gateway runs, and keeps no password on disk', async () => {
    await stop()
    const { password, applied } = await askForReset(dataDir, ADMIN.email, 0)
    assert.equal(applied, false)
    const [file = ''] = await readdir(join(dataDir, 'password-resets'))
    assert.ok(!(await readFile(join(dataDir, 'password-resets', file), 'utf8')).includes(password))
    await start()
    assert.deepEqual([await tryLogin(password), await tryLogin(ADMIN.password)], [200, 401])
  })

  it('says what is wrong with who or where is named', async () => {
    await assert.rejects(run('reset-password', 'nobody@localhost'), ({ code, stderr }: { code: number; stderr: string }) => {
      assert.equal(code, 1)
      return /The password of nobody@localhost was not reset: .*nobody@localhost/.test(stderr)
    })
    const token = await login(gateway!)
    const body = { email: 'gone@localhost', name: 'Gone', password: 'a long enough password', roles: ['User'] }
    const { id } = (await gateway!.call('POST', '/admin/users', { token, body })).body as { id: string }
    assert.equal((await gateway!.call('PATCH', `/admin/users/${id}`, { token, body: { disabled: true } })).status, 200)
    await assert.rejects(run('reset-password', 'gone@localhost'), /gone@localhost is disabled: an administrator has to enable it first/)
    await assert.rejects(run('reset-password'), /is no command/)
    await assert.rejects(askForReset(join(dataDir, 'nowhere'), ADMIN.email, 0), /there is no data directory/)
  })

  it('is not fooled by a damaged request', async () => {
    await writeFile(join(dataDir, 'password-resets', 'x.json'), '{"email":"admin@localhost","passwordHash":"plain"}')
    const { stdout } = await run('reset-password', ADMIN.email)
    assert.equal(await tryLogin(passwordIn(stdout)), 200)
  })

  it('is not held up by what is no request', async () => {
    const directory = join(dataDir, 'password-resets')
    for (const n of [1, 2, 3]) {
      await mkdir(join(directory, `folder-${n}.json`))
      await symlink('nowhere', join(directory, `link-${n}.json`))
    }
    const { stdout } = await run('reset-password', ADMIN.email)
    assert.match(stdout, /It is in force/)
    await waitFor('an empty directory', async () => (await readdir(directory)).length === 0)
  })

  it('is not for root where the gateway is another user: it could not read the request', async function () {
    if (process.getuid?.() !== 0) this.skip()
    await stop()
    await chown(dataDir, 65_534, 65_534)
    await assert.rejects(askForReset(dataDir, ADMIN.email, 0), /is of the user 65534: run this as that user/)
    assert.deepEqual(await readdir(join(dataDir, 'password-resets')), [])
    await chown(dataDir, 0, 0)
  })
})
