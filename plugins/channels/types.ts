import type { Collection } from '../../core/store/collection.js'
import type { PluginChannelType, PluginHost, PluginSetting } from '../plugins/contract.js'
import type { ChannelType } from './contract.js'
import type { TypeRow } from './rows.js'

/** Remembered types beyond it: the one longest unseen is forgotten. */
const MAX_REMEMBERED = 500

/**
 * What is known of a channel type. `declared`: its plugin is installed and says so now; `remembered`: it said so
 * once; `guessed`: only stored channels name the type.
 */
export interface KnownType {
  type: string
  knowledge: 'declared' | 'remembered' | 'guessed'
  displayName: string
  pluginId: string | undefined
  recipientMetadataKey: string
  settings: PluginSetting[]
  ready: boolean
}

/** Channel types: those of the plugins installed, and those remembered from before. */
export class ChannelTypes {
  readonly #rows: Collection<TypeRow>
  readonly #host: PluginHost
  readonly #remembered = new Map<string, TypeRow>()

  constructor(rows: Collection<TypeRow>, host: PluginHost) {
    this.#rows = rows
    this.#host = host
  }

  /** Reads what was remembered; before anything else. */
  async load(): Promise<void> {
    for (const row of await this.#rows.find({}, { limit: MAX_REMEMBERED })) this.#remembered.set(row.id, row)
  }

  get(type: string): KnownType | undefined {
    const declared = this.#host.channelTypes().find(candidate => candidate.type === type)
    if (declared) return fromHost(declared)
    const remembered = this.#remembered.get(type)
    return remembered && fromRow(remembered)
  }

  /** For a type that a stored channel names: what is known, else a description without settings. */
  ofStored(type: string): KnownType {
    return this.get(type) ?? guess(type)
  }

  list(): KnownType[] {
    const declared = this.#host.channelTypes().map(fromHost)
    const names = new Set(declared.map(({ type }) => type))
    return [...declared, ...[...this.#remembered.values()].filter(({ id }) => !names.has(id)).map(fromRow)]
  }

  /** The types that a plugin adds. */
  ofPlugin(pluginId: string): KnownType[] {
    return this.#host
      .channelTypes()
      .filter(type => type.pluginId === pluginId)
      .map(fromHost)
  }

  /** Remembers what the plugins declare now. Returns the types whose description is new or has changed. */
  async remember(): Promise<KnownType[]> {
    const changed = this.#host.channelTypes().filter(type => !isSame(this.#remembered.get(type.type), type))
    for (const type of changed) await this.#store(type)
    return changed.map(fromHost)
  }

  async #store({ type, displayName, pluginId, recipientMetadataKey, settings }: PluginChannelType): Promise<void> {
    const row: TypeRow = { id: type, displayName, pluginId, recipientMetadataKey, settings, seenAt: new Date().toISOString() }
    // Before the write: another look meanwhile must not write it again.
    this.#remembered.set(type, row)
    const { id, ...fields } = row
    await this.#rows.updateOne({ id }, { $set: fields }, { upsert: true })
    if (this.#remembered.size <= MAX_REMEMBERED) return
    const oldest = [...this.#remembered.values()].sort((a, b) => (a.seenAt < b.seenAt ? -1 : 1))[0]
    if (!oldest) return
    this.#remembered.delete(oldest.id)
    await this.#rows.deleteOne({ id: oldest.id })
  }
}

const isSame = (row: TypeRow | undefined, type: PluginChannelType): boolean =>
  row !== undefined &&
  row.displayName === type.displayName &&
  row.pluginId === type.pluginId &&
  row.recipientMetadataKey === type.recipientMetadataKey &&
  JSON.stringify(row.settings) === JSON.stringify(type.settings)

const fromHost = (type: PluginChannelType): KnownType => ({ ...type, knowledge: 'declared' })

const fromRow = ({ id, displayName, pluginId, recipientMetadataKey, settings }: TypeRow): KnownType => ({
  type: id,
  knowledge: 'remembered',
  displayName,
  pluginId,
  recipientMetadataKey,
  settings,
  ready: false,
})

const guess = (type: string): KnownType => ({
  type,
  knowledge: 'guessed',
  displayName: type,
  pluginId: undefined,
  recipientMetadataKey: 'chatId',
  settings: [],
  ready: false,
})

export const toWire = ({ type, displayName, pluginId, recipientMetadataKey, settings, ready }: KnownType): ChannelType => ({
  type,
  displayName,
  source: 'plugin',
  ...(pluginId === undefined ? {} : { pluginId }),
  recipientMetadataKey,
  settings,
  ready,
})
