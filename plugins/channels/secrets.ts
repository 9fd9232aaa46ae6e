import type { Owned, Owner, ScopedHandle } from '../../core/store/collection.js'
import type { Vault } from '../vault/contract.js'
import type { ChannelRow, SettingEntry } from './rows.js'
import { exposedSecrets } from './settings.js'
import type { KnownType } from './types.js'

const below = (channelId: string): string => `channel/${channelId}/`
const nameOf = (channelId: string, setting: string): string => `${below(channelId)}${encodeURIComponent(setting)}`

/** The vault's side of channels: secret settings are there and nowhere else. */
export class ChannelSecrets {
  readonly #vault: Vault
  readonly #rows: ScopedHandle<ChannelRow>

  constructor(vault: Vault, rows: ScopedHandle<ChannelRow>) {
    this.#vault = vault
    this.#rows = rows
  }

  async put(owner: Owner, channelId: string, secrets: readonly SettingEntry[]): Promise<void> {
    for (const { name, value } of secrets) await this.#vault.put(owner, nameOf(channelId, name), value)
  }

  async remove(owner: Owner, channelId: string, names: readonly string[]): Promise<void> {
    for (const name of names) await this.#vault.remove(owner, nameOf(channelId, name))
  }

  async removeAll(owner: Owner, channelId: string): Promise<void> {
    await this.#vault.remove(owner, below(channelId))
  }

  /** Every declared setting that has a value, secrets and defaults included: what the adapter connects with. */
  async hydrate(row: Owned<ChannelRow>, type: KnownType): Promise<Record<string, string>> {
    const stored = new Map(row.settings.map(({ name, value }) => [name, value]))
    const values = new Map<string, string>()
    for (const { name, default: preset } of type.settings) {
      const secret = row.secrets.includes(name) ? await this.#vault.get(row, nameOf(row.id, name)) : null
      const value = secret ?? stored.get(name) ?? preset
      if (value !== undefined && value.trim() !== '') values.set(name, value)
    }
    return Object.fromEntries(values)
  }

  /** Moves what was stored in plain while the manifest was not known, and is secret by it, into the vault. */
  async protect(row: Owned<ChannelRow>, type: KnownType): Promise<Owned<ChannelRow>> {
    const exposed = exposedSecrets(row, type)
    if (exposed.length === 0) return row
    await this.put(row, row.id, exposed)
    const names = new Set(exposed.map(({ name }) => name))
    const settings = row.settings.filter(({ name }) => !names.has(name))
    const secrets = [...new Set([...row.secrets, ...names])]
    // Only while the settings are those that were moved; a change meanwhile came with the manifest known.
    const moved = await this.#rows.everyone.updateOne({ id: row.id, revision: row.revision }, { $set: { settings, secrets } })
    return moved ? { ...row, settings, secrets } : row
  }
}
