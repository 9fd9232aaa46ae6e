import assert from 'node:assert/strict'
import { readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { GATEWAY_OWNER, vault } from '../../../plugins/vault/contract.js'
import { ADMIN, login, startGateway } from '../../support/gateway.js'
import { launchGateway } from '../../support/gatewayProcess.js'
import { temporaryDirectory } from '../../support/store.js'
import { openVault } from '../vault/opened.js'
import { identityPlugins } from './identityPlugins.js'
import { addUser, statusOf } from './people.js'

describe('the first administrator', () => {
  let directory: Awaited<ReturnType<typeof temporaryDirectory>>
  beforeEach(async () => {
    directory = await temporaryDirectory()
  })
  afterEach(() => directory.remove())
  const start = (settings: Record<string, string> = {}) => startGateway({ plugins: identityPlugins, dataDir: directory.path, settings })

  it('is the configured one, whose password stands in no file and no log', async () => {
    const gateway = await start({ 'Service:Admin:Email': ' Root@Example.org ' })
    await login(gateway, { email: 'root@example.org', password: ADMIN.password })
    await gateway.stop({ keep: true })
    assert.ok(!gateway.logged().includes(ADMIN.password))
    for (const entry of await readdir(directory.path, { withFileTypes: true, recursive: true }))
      if (entry.isFile()) assert.ok(!(await readFile(join(entry.parentPath, entry.name))).includes(ADMIN.password), entry.name)
  })

  it('keeps the password when the configured one changes: that is for the first start alone', async () => {
    await (await start()).stop({ keep: true })
    const gateway = await start({ 'Service:Admin:Password': 'another password' })
    await login(gateway)
    assert.equal((await gateway.call('POST', '/auth/login', { body: { ...ADMIN, password: 'another password' } })).status, 401)
    assert.match(gateway.logged(), /keeps the present password: Service:Admin:Password is for the first start/)
    await gateway.stop({ keep: true })
  })

  it('cannot have an address or a password that the rules refuse: the start says which, without showing it', async () => {
    const why = (settings: Record<string, string>): Promise<string> =>
      start(settings).then(
        () => assert.fail('it started'),
        (error: unknown) => String(error),
      )
    const short = await why({ 'Service:Admin:Password': 'sh0rt!' })
    assert.match(short, /Service:Admin:Email and Service:Admin:Password cannot be used: password: /)
    assert.ok(!short.includes('sh0rt!'))
    assert.match(await why({ 'Service:Admin:Email': 'nobody' }), /cannot be used: email: expected an e-mail address/)
  })

  it('is not made over an administrator who is there, nor over another user of that address', async () => {
    const gateway = await start()
    const admin = await login(gateway)
    await addUser(gateway, admin, { email: 'taken@example.org' })
    await gateway.stop({ keep: true })
    const again = await start({ 'Service:Admin:Email': 'taken@example.org' })
    assert.equal(await statusOf(again, await login(again)), 200)
    await again.stop({ keep: true })
  })

  it('is not shown by the log when its password stands on the command line', async () => {
    const password = 'a password of the command line'
    const settings = {
      'Service:Admin:Password': password,
      'Service:Models:Providers:far:BaseUrl': 'http://127.0.0.1:1/v1',
      'Service:Models:Providers:far:Model': 'none',
      'Service:Models:Providers:far:ApiKey': 'a key of the command line',
    }
    const gateway = await launchGateway({ dataDir: directory.path, settings })
    assert.equal((await gateway.call('POST', '/auth/login', { body: { ...ADMIN, password } })).status, 200)
    await gateway.stop()
    assert.ok(gateway.stderr().includes('default Service:Port = '))
    assert.ok(!gateway.stderr().includes('of the command line'), gateway.stderr())
  })
})

describe('a signing key that cannot be read', () => {
  it('ends the sessions that it signed, is named in the log, and locks nobody out', async () => {
    const directory = await temporaryDirectory()
    const first = await startGateway({ plugins: identityPlugins, dataDir: directory.path })
    const token = await login(first)
    const kid = (JSON.parse(Buffer.from(token.split('.')[0] ?? '', 'base64url').toString()) as { kid: string }).kid
    const name = `identity/signing/${kid}`
    await first.stop({ keep: true })
    await damage(directory.path, name)
    const gateway = await startGateway({ plugins: identityPlugins, dataDir: directory.path })
    await assert.rejects(gateway.service(vault).get(GATEWAY_OWNER, name), /identity\/signing\/.* cannot be opened/)
    assert.equal(await statusOf(gateway, token), 401)
    assert.equal(await statusOf(gateway, await login(gateway)), 200)
    assert.match(gateway.logged(), new RegExp(`the signing key ${kid} is not readable`))
    await gateway.stop()
  })
})

/** Changes a stored secret behind the gateway's back. */
const damage = async (directory: string, name: string): Promise<void> => {
  const { rows, close } = await openVault(directory)
  await rows.updateOne({ name }, { $set: { 'sealed.tag': 'AAAAAAAAAAAAAAAAAAAAAA' } })
  await close()
}
