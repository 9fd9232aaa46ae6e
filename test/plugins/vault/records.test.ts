import assert from 'node:assert/strict'
import { readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { UnreadableSecret } from '../../../plugins/vault/contract.js'
import type { Sealed } from '../../../plugins/vault/seal.js'
import { temporaryDirectory } from '../../support/store.js'
import { openVault, type OpenedVault } from './opened.js'

const ANN = { tenant: null, userId: 'ann' }
const BOB = { tenant: 'acme', userId: 'bob' }
const VALUE = 'a value that nobody may see'

describe('secrets in the vault', () => {
  let directory: Awaited<ReturnType<typeof temporaryDirectory>>
  let opened: OpenedVault
  beforeEach(async () => {
    directory = await temporaryDirectory()
    opened = await openVault(directory.path)
  })
  afterEach(async () => {
    await opened.close()
    await directory.remove()
  })

  const sealedOf = async (name: string): Promise<Sealed> => {
    const row = await opened.rows.findOne({ name })
    assert.ok(row)
    return row.sealed
  }
  const overwrite = (name: string, changes: Record<string, unknown>): Promise<boolean> => opened.rows.updateOne({ name }, { $set: changes })
  /** Refused, naming the record, and holding nothing of the value, also in what the log would show. */
  const assertUnreadable = async (name: string): Promise<void> => {
    const error = await opened.vault.get(ANN, name).then(
      () => assert.fail(`${name} was opened`),
      (reason: unknown) => reason as Error,
    )
    assert.ok(error instanceof UnreadableSecret)
    assert.equal(error.code, 'conflict')
    assert.ok(opened.logged().includes(`the secret ${name} of ann cannot be opened`))
    assert.ok(error.message.includes(name), error.message)
    assert.match(error.message, /changed, or belongs to another record|lacks the key/)
    const shown = `${String(error.stack)} ${String((error.cause as Error | undefined)?.stack)} ${opened.logged()}`
    assert.ok(!shown.includes(VALUE) && !shown.includes('nobody may see'), shown)
  }

  it('come back to their owner, under their name, until they are removed', async () => {
    await opened.vault.put(ANN, 'channel/chn_1/token', VALUE)
    await opened.vault.put(ANN, 'channel/chn_10/token', 'another value')
    await opened.vault.put(ANN, 'channel/chn_1/ключ 🔑', '')
    assert.equal(await opened.vault.get(ANN, 'channel/chn_1/token'), VALUE)
    assert.equal(await opened.vault.get(ANN, 'channel/chn_1/ключ 🔑'), '')
    assert.equal(await opened.vault.get(BOB, 'channel/chn_1/token'), null)
    assert.equal(await opened.vault.get({ ...ANN, tenant: 'acme' }, 'channel/chn_1/token'), null)
    await opened.vault.remove(BOB, 'channel/chn_1/')
    await opened.vault.remove(ANN, 'channel/chn_1/')
    assert.equal(await opened.vault.get(ANN, 'channel/chn_1/token'), null)
    assert.equal(await opened.vault.get(ANN, 'channel/chn_10/token'), 'another value')
  })

  it('are each encrypted with a key of their own, and stand in no file in clear', async () => {
    await opened.vault.put(ANN, 'one', VALUE)
    await opened.vault.put(ANN, 'two', VALUE)
    const [one, two] = [await sealedOf('one'), await sealedOf('two')]
    assert.notEqual(one.encrypted_key, two.encrypted_key)
    assert.notEqual(one.ciphertext, two.ciphertext)
    await opened.vault.put(ANN, 'one', VALUE)
    assert.notEqual((await sealedOf('one')).ciphertext, one.ciphertext)
    for (const entry of await readdir(directory.path)) assert.ok(!(await readFile(join(directory.path, entry))).includes(VALUE), entry)
  })

  it('do not open after they were copied onto another record, of the same owner or another', async () => {
    await opened.vault.put(ANN, 'one', VALUE)
    await opened.vault.put(ANN, 'two', 'the other value')
    await opened.vault.put(BOB, 'three', VALUE)
    const [one, two, three] = [await sealedOf('one'), await sealedOf('two'), await sealedOf('three')]
    await overwrite('one', { sealed: two })
    await overwrite('two', { sealed: one })
    await assertUnreadable('one')
    await assertUnreadable('two')
    await overwrite('one', { sealed: three })
    await assertUnreadable('one')
    await overwrite('two', { sealed: { ...two, encrypted_key: one.encrypted_key } })
    await assertUnreadable('two')
    // Put back where they belong, they open again.
    await overwrite('one', { sealed: one })
    assert.equal(await opened.vault.get(ANN, 'one'), VALUE)
  })

  it('do not open after any part of them was changed, cut or emptied', async () => {
    await opened.vault.put(ANN, 'one', VALUE)
    const sealed = await sealedOf('one')
    const flip = (text: string): string => (text.startsWith('A') ? 'B' : 'A') + text.slice(1)
    for (const part of Object.keys(sealed) as (keyof Sealed)[]) {
      for (const changed of [flip(sealed[part]), sealed[part].slice(1), '', 'no base64 !']) {
        await overwrite('one', { sealed: { ...sealed, [part]: changed } })
        await assertUnreadable('one')
      }
    }
    const header = (fields: object): string => Buffer.from(JSON.stringify(fields)).toString('base64url')
    for (const fields of [{ alg: 'dir', enc: 'A256GCM' }, { alg: 'none' }, { alg: 'A256GCMKW', enc: 'A128GCM' }]) {
      await overwrite('one', { sealed: { ...sealed, protected: header(fields) } })
      await assertUnreadable('one')
    }
    await overwrite('one', { sealed: null })
    await assertUnreadable('one')
    await overwrite('one', { sealed, kid: 'unknown' })
    await assertUnreadable('one')
  })

  it('are refused when they are too large, with the name and not the value', async () => {
    await assert.rejects(opened.vault.put(ANN, 'big', VALUE.repeat(5000)), (error: Error) => {
      assert.match(error.message, /The secret big is larger than/)
      assert.ok(!error.message.includes(VALUE))
      return true
    })
    assert.equal(await opened.vault.get(ANN, 'big'), null)
  })

  it('keep the last of several values that are set at once', async () => {
    const values = Array.from({ length: 20 }, (_, index) => `value ${String(index)}`)
    await Promise.all(values.map(value => opened.vault.put(ANN, 'one', value)))
    assert.ok(values.includes((await opened.vault.get(ANN, 'one')) ?? ''))
    assert.equal(await opened.rows.count({ name: 'one' }), 1)
  })
})
