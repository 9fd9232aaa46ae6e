import type { Manifest } from '../manifest.js'

/** A channel that no check ever connects. */
export const NO_CHANNEL = 'chn_never_connected'

const NOWHERE = '/nowhere/at/all'

interface Kind {
  /** The requests that such a plugin must know, without `plugin.*`. */
  methods: readonly string[]
  /** One of them, with params of the right shape that lead nowhere. */
  call: (manifest: Manifest) => { method: string; params: object }
}

const extractor: Kind = {
  methods: ['extractor.extract'],
  call: () => ({
    method: 'extractor.extract',
    params: {
      ...{ path: `${NOWHERE}/document.txt`, name: 'document.txt', extension: '.txt', mimeType: 'text/plain' },
      ...{ size: 1, outputDir: NOWHERE },
    },
  }),
}

const kinds: Readonly<Record<string, Kind>> = {
  ChannelAdapter: {
    methods: ['channel.connect', 'channel.disconnect', 'channel.test', 'channel.webhook', 'channel.send'],
    call: ({ recipientMetadataKey = 'chatId' }) => ({
      method: 'channel.send',
      params: { channelId: NO_CHANNEL, deliveryId: 'snd_0', recipient: '1', text: 'hello', metadata: { [recipientMetadataKey]: '1' } },
    }),
  },
  DocumentExtractor: extractor,
  ModelProvider: {
    methods: ['model.generate', 'model.list'],
    call: () => ({ method: 'model.list', params: { settings: {} } }),
  },
  EmbeddingProvider: {
    methods: ['embedding.embed'],
    call: () => ({ method: 'embedding.embed', params: { texts: ['a text'], purpose: 'document', settings: {} } }),
  },
}

/** A request that a plugin of this interface knows, with params of the right shape that lead nowhere. */
export const callOf = (manifest: Manifest): { method: string; params: object } | undefined =>
  kinds[manifest.pluginInterface]?.call(manifest)

/** A request that is for plugins of another interface. */
export const foreignCallOf = (manifest: Manifest): { method: string; params: object } =>
  manifest.pluginInterface === 'DocumentExtractor'
    ? { method: 'channel.disconnect', params: { channelId: NO_CHANNEL } }
    : extractor.call(manifest)

/** The requests that a plugin of this interface must know, without `plugin.*`. */
export const methodsOf = ({ pluginInterface }: Manifest): readonly string[] => kinds[pluginInterface]?.methods ?? []
