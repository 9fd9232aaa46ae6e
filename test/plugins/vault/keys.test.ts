import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { chmod, mkdir, readdir, readFile, rename, rm, stat, utimes, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { identityPlugins } from '../identity/identityPlugins.js'
import { vault } from '../../../plugins/vault/contract.js'
import { startGateway, type TestGateway } from '../../support/gateway.js'
import { launchGateway } from '../../support/gatewayProcess.js'
import { temporaryDirectory } from '../../support/store.js'
import { waitFor } from '../../support/waitFor.js'

const ANN = { tenant: null, userId: 'ann' }
const VALUE = 'a value that nobody may see'
const newKey = (): string => randomBytes(32).toString('base64')

describe("the vault's keys", () => {
  let directory: Awaited<ReturnType<typeof temporaryDirectory>>
  let keyFile: string
  let gateway: TestGateway | undefined
  beforeEach(async () => {
    directory = await temporaryDirectory()
    keyFile = join(directory.path, 'vault.key')
  })
  afterEach(async () => {
    await stop()
    await directory.remove()
  })

  const start = async (key?: string): Promise<TestGateway> => {
    gateway = await startGateway({
      plugins: identityPlugins,
      dataDir: directory.path,
      env: key === undefined ? {} : { Service__Vault__Key: key },
    })
    return gateway
  }
  const stop = async (): Promise<void> => {
    await gateway?.stop({ keep: true })
    gateway = undefined
  }
  const put = async (name: string, key?: string): Promise<void> => {
    await (await start(key)).service(vault).put(ANN, name, VALUE)
    await stop()
  }
  const get = async (name: string, key?: string): Promise<string | null> => (await start(key)).service(vault).get(ANN, name)
  const refusal = (key?: string): Promise<string> =>
    start(key).then(
      () => assert.fail('the gateway started'),
      (error: unknown) => String(error),
    )

  it('are made at the first use, in a file of the owner alone, and stay the same', async () => {
    await start()
    await assert.rejects(stat(keyFile), { code: 'ENOENT' })
    await stop()
    await put('one')
    assert.equal((await stat(keyFile)).mode & 0o777, 0o600)
    const before = await readFile(keyFile, 'utf8')
    assert.equal(await get('one'), VALUE)
    await gateway?.service(vault).put(ANN, 'two', VALUE)
    assert.equal(await readFile(keyFile, 'utf8'), before)
    assert.deepEqual(
      (await readdir(directory.path)).filter(name => name.startsWith('vault')),
      ['vault.key'],
    )
  })

  it('are one key when many first secrets are put at once', async () => {
    const running = await start()
    await Promise.all(Array.from({ length: 20 }, (_, index) => running.service(vault).put(ANN, `secret ${String(index)}`, VALUE)))
    await stop()
    for (let index = 0; index < 20; index += 1) {
      assert.equal(await get(`secret ${String(index)}`), VALUE)
      await stop()
    }
  })

  it('that are missing while secrets are stored refuse the start, say why, and are not made anew', async () => {
    await put('one')
    await rename(keyFile, `${keyFile}.elsewhere`)
    const why = await refusal()
    assert.match(why, /The plugin "vault" could not start: the vault key file .*vault\.key is missing, but stored secrets are encrypted/)
    assert.match(why, /Restore it from a backup, or give the keys in Service:Vault:Key/)
    await assert.rejects(stat(keyFile), { code: 'ENOENT' })
    await rename(`${keyFile}.elsewhere`, keyFile)
    assert.equal(await get('one'), VALUE)
  })

  it('that are missing are told of in one line by the program', async () => {
    await put('one')
    await rm(keyFile)
    const why = await launchGateway({ dataDir: directory.path }).then(
      () => assert.fail('it started'),
      (error: unknown) => String(error),
    )
    const [last = ''] = why.trimEnd().split('\n').slice(-1)
    assert.match(last, /^agent-gateway could not start\. The plugin "vault" could not start: the vault key file .* is missing/)
  })

  it('that vanish while the gateway runs are not made anew either', async () => {
    await put('one')
    await start()
    await rm(keyFile)
    await gateway?.service(vault).put(ANN, 'two', VALUE)
    assert.equal(await gateway?.service(vault).get(ANN, 'one'), VALUE)
    await stop()
    assert.match(await refusal(), /is missing/)
  })

  it('of another store refuse the start', async () => {
    await put('one')
    await writeFile(keyFile, await otherKeyFile())
    assert.match(await refusal(), /lacks the key \S+, but stored secrets are encrypted with it/)
  })

  it('that others can read, or that are damaged, refuse the start with what to do and without what they hold', async () => {
    await put('one')
    const good = await readFile(keyFile, 'utf8')
    const { keys } = JSON.parse(good) as { keys: { kid: string; key: string }[] }
    const key = keys[0]?.key ?? ''
    for (const mode of [0o640, 0o604, 0o660, 0o777]) {
      await chmod(keyFile, mode)
      assert.match(await refusal(), /can be read by others than its owner \(mode \d+\)\. Run: chmod 600 .*vault\.key/)
    }
    await chmod(keyFile, 0o600)
    const other = newKey()
    const damaged = [
      '',
      '{',
      good.slice(0, -20),
      key,
      '{"version":1,"keys":[]}',
      good.replace(key, other),
      good.replace('"version": 1', '"version": 2'),
    ]
    for (const text of damaged) {
      await writeFile(keyFile, text)
      const why = await refusal()
      assert.match(why, /The vault key file .* is damaged: .*Restore it from a backup/s)
      assert.ok(!why.includes(key) && !why.includes(other), why)
    }
    await rm(keyFile)
    await mkdir(keyFile, { mode: 0o700 })
    assert.match(await refusal(), /vault\.key/)
    await rm(keyFile, { recursive: true })
    await writeFile(keyFile, good, { mode: 0o600 })
    assert.equal(await get('one'), VALUE)
  })

  it('come from the environment instead, and then no file is made', async () => {
    const key = newKey()
    await put('one', key)
    await assert.rejects(stat(keyFile), { code: 'ENOENT' })
    assert.equal(await get('one', ` ${key} `), VALUE)
    await stop()
    assert.match(await refusal(newKey()), /the setting Service:Vault:Key lacks the key/)
    assert.match(await refusal(), /is missing/)
  })

  it('of the environment that are malformed refuse the start without being shown', async () => {
    const short = randomBytes(16).toString('base64')
    for (const bad of [short, 'secret words', `${newKey()},${short}`, ',', `${newKey()}!`, randomBytes(32).toString('hex')]) {
      const why = await refusal(bad)
      assert.match(why, /Service:Vault:Key/)
      for (const part of bad.split(',').filter(Boolean)) assert.ok(!why.includes(part), why)
    }
  })

  it('of the environment are replaced by naming the new one first: at the start everything moves to it', async () => {
    const [old, next] = [newKey(), newKey()]
    await put('one', old)
    const running = await start(`${next},${old}`)
    assert.equal(await running.service(vault).get(ANN, 'one'), VALUE)
    await waitFor('the new key everywhere', () => running.logged().includes('1 secrets were encrypted anew'))
    await stop()
    assert.equal(await get('one', next), VALUE)
    assert.ok(!running.logged().includes(next) && !running.logged().includes(old))
  })

  it('leave no half-written file behind: what an interrupted write left is removed at the next start', async () => {
    await put('one')
    const [left, fresh] = ['5e1b1fd6-4c26-4a52-9d6f-0a4c4f2f6a11', '5e1b1fd6-4c26-4a52-9d6f-0a4c4f2f6a12'].map(id => `${keyFile}.${id}.tmp`)
    assert.ok(left && fresh)
    for (const file of [left, fresh]) await writeFile(file, await readFile(keyFile), { mode: 0o600 })
    const longAgo = new Date(Date.now() - 10 * 60_000)
    await utimes(left, longAgo, longAgo)
    assert.equal(await get('one'), VALUE)
    await assert.rejects(stat(left), { code: 'ENOENT' })
    // One that another process may be writing at this moment stays.
    await stat(fresh)
  })

  const otherKeyFile = async (): Promise<string> => {
    const other = await temporaryDirectory()
    const running = await startGateway({ plugins: identityPlugins, dataDir: other.path })
    await running.service(vault).put(ANN, 'one', VALUE)
    const text = await readFile(join(other.path, 'vault.key'), 'utf8')
    await running.stop()
    return text
  }
})
