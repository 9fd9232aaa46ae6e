import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { identityPlugins } from '../identity/identityPlugins.js'
import { vault } from '../../../plugins/vault/contract.js'
import { environmentKeys } from '../../../plugins/vault/rootKeys.js'
import { ADMIN, login, startGateway } from '../../support/gateway.js'
import { launchGateway } from '../../support/gatewayProcess.js'
import { temporaryDirectory } from '../../support/store.js'
import { waitFor } from '../../support/waitFor.js'
import { openVault } from './opened.js'

const ANN = { tenant: null, userId: 'ann' }

describe("the rotation of the vault's key", () => {
  let directory: Awaited<ReturnType<typeof temporaryDirectory>>
  beforeEach(async () => {
    directory = await temporaryDirectory()
  })
  afterEach(() => directory.remove())

  const kids = async (): Promise<string[]> => {
    const { keys } = JSON.parse(await readFile(join(directory.path, 'vault.key'), 'utf8')) as { keys: { kid: string }[] }
    return keys.map(({ kid }) => kid)
  }

  it('moves every secret to a new key, forgets the old one, and loses no value that is set meanwhile', async () => {
    const { vault: secrets, rows, close } = await openVault(directory.path)
    const names = Array.from({ length: 150 }, (_, index) => `secret ${String(index)}`)
    await Promise.all(names.map(name => secrets.put(ANN, name, `old ${name}`)))
    const [before] = await kids()
    const [first, second] = await Promise.all([
      secrets.rotate(),
      secrets.rotate(),
      ...names.slice(0, 75).map(name => secrets.put(ANN, name, `new ${name}`)),
      secrets.put(ANN, 'late', 'late'),
    ])
    assert.deepEqual(first, second)
    for (const [index, name] of names.entries()) assert.equal(await secrets.get(ANN, name), `${index < 75 ? 'new' : 'old'} ${name}`)
    assert.equal(await secrets.get(ANN, 'late'), 'late')
    const after = await kids()
    assert.equal(after.length, 1)
    assert.notEqual(after[0], before)
    assert.equal(await rows.count({ kid: { $ne: after[0] } }), 0)
    await close()
  })

  it('keeps the keys of what it cannot open, names it, and finishes when that was put right', async () => {
    const { vault: secrets, rows, close } = await openVault(directory.path)
    await secrets.put(ANN, 'good', 'a good value')
    await secrets.put(ANN, 'bad', 'a value to be damaged')
    const [old] = await kids()
    const bad = await rows.findOne({ name: 'bad' })
    await rows.updateOne({ name: 'bad' }, { $set: { 'sealed.ciphertext': 'AAAA' } })
    for (let repeated = 0; repeated < 3; repeated += 1)
      await assert.rejects(secrets.rotate(), { code: 'conflict', message: /^1 secrets cannot be opened .*: bad\. Their keys are kept/ })
    const kept = await kids()
    assert.equal(kept.length, 2)
    assert.equal(kept[1], old)
    assert.equal(await secrets.get(ANN, 'good'), 'a good value')
    await rows.updateOne({ name: 'bad' }, { $set: { sealed: bad?.sealed } })
    assert.equal(await secrets.get(ANN, 'bad'), 'a value to be damaged')
    assert.deepEqual(await secrets.rotate(), { reencrypted: 2 })
    assert.equal((await kids()).length, 1)
    await close()
  })

  it('uses the first key of the environment, and makes none', async () => {
    const [old, next] = [randomBytes(32), randomBytes(32)].map(key => key.toString('base64'))
    const before = await openVault(directory.path, environmentKeys(old ?? ''))
    await before.vault.put(ANN, 'one', 'a value')
    await before.close()
    const keys = environmentKeys(`${next ?? ''},${old ?? ''}`)
    const { vault: secrets, rows, close } = await openVault(directory.path, keys)
    assert.equal(await secrets.get(ANN, 'one'), 'a value')
    assert.deepEqual(await secrets.rotate(), { reencrypted: 1 })
    assert.equal((await rows.findOne({ name: 'one' }))?.kid, keys.kids[0])
    await assert.rejects(kids(), { code: 'ENOENT' })
    await close()
  })

  it('loses nothing when the gateway is killed in its middle, again and again, and the next start goes on', async () => {
    const names = Array.from({ length: 200 }, (_, index) => `secret ${String(index)}`)
    const first = await openVault(directory.path)
    await Promise.all(names.map(name => first.vault.put(ANN, name, `value of ${name}`)))
    await first.close()
    let inTheMiddle = 0
    for (let round = 0; round < 10 && (round < 3 || inTheMiddle === 0); round += 1) {
      const before = (await kids())[0]
      const gateway = await launchGateway({ dataDir: directory.path, settings: { 'Service:Admin:Password': ADMIN.password } })
      const token = await login(gateway)
      const rotation = gateway.call('POST', '/admin/vault/rotate', { token }).catch(() => undefined)
      await waitFor('a new key', async () => (await kids())[0] !== before)
      await new Promise(resolve => setTimeout(resolve, round * 20))
      gateway.kill('SIGKILL')
      await Promise.all([gateway.exited, rotation])
      const { vault: secrets, rows, keys, close } = await openVault(directory.path)
      const current = (await keys.current()).kid
      const left = await rows.count({ kid: { $ne: current } })
      if (left > 0 && left < names.length) inTheMiddle += 1
      for (const name of names) assert.equal(await secrets.get(ANN, name), `value of ${name}`, `round ${String(round)}: ${name}`)
      await close()
    }
    assert.ok(inTheMiddle > 0, 'no kill fell into the middle of a rotation')
    const gateway = await startGateway({ plugins: identityPlugins, dataDir: directory.path })
    await waitFor('one key', async () => (await kids()).length === 1)
    for (const name of names) assert.equal(await gateway.service(vault).get(ANN, name), `value of ${name}`)
    await gateway.stop({ keep: true })
  })

  it('is left where it is by a stop, and the next start goes on', async () => {
    const names = Array.from({ length: 200 }, (_, index) => `secret ${String(index)}`)
    const first = await startGateway({ plugins: identityPlugins, dataDir: directory.path })
    await Promise.all(names.map(name => first.service(vault).put(ANN, name, `value of ${name}`)))
    const rotation = first.service(vault).rotate()
    const outcome = rotation.then(
      () => 'finished',
      (error: unknown) => (error as { code?: string }).code,
    )
    await waitFor('the new key', async () => (await kids()).length === 2)
    await first.stop({ keep: true })
    assert.equal(await outcome, 'service_unavailable')
    assert.equal((await kids()).length, 2)
    const next = await startGateway({ plugins: identityPlugins, dataDir: directory.path })
    await waitFor('one key', async () => (await kids()).length === 1)
    for (const name of names) assert.equal(await next.service(vault).get(ANN, name), `value of ${name}`)
    await next.stop({ keep: true })
  })
})
