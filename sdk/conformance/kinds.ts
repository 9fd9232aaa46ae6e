import type { Manifest } from '../manifest.js'

/** A channel that no check ever connects. */
export const NO_CHANNEL = 'chn_never_connected'

/** A request that a plugin of this interface knows, with params of the right shape that lead nowhere. */
export function callOf({ pluginInterface, recipientMetadataKey = 'chatId' }: Manifest): { method: string; params: object } | undefined {
  if (pluginInterface === 'ChannelAdapter') {
    const params = { channelId: NO_CHANNEL, deliveryId: 'snd_0', recipient: '1', text: 'hello', metadata: { [recipientMetadataKey]: '1' } }
    return { method: 'channel.send', params }
  }
  if (pluginInterface !== 'DocumentExtractor') return undefined
  const nowhere = '/nowhere/at/all'
  const params = {
    path: `${nowhere}/document.txt`,
    name: 'document.txt',
    extension: '.txt',
    mimeType: 'text/plain',
    size: 1,
    outputDir: nowhere,
  }
  return { method: 'extractor.extract', params }
}

/** A request that is for plugins of another interface. */
export const foreignCallOf = ({ pluginInterface }: Manifest): { method: string; params: object } =>
  pluginInterface === 'DocumentExtractor'
    ? { method: 'channel.disconnect', params: { channelId: NO_CHANNEL } }
    : { method: 'extractor.extract', params: callOf({ pluginInterface: 'DocumentExtractor' } as Manifest)?.params ?? {} }

/** The requests that a plugin of this interface must know, without `plugin.*`. */
export const methodsOf = ({ pluginInterface }: Manifest): string[] =>
  pluginInterface === 'ChannelAdapter'
    ? ['channel.connect', 'channel.disconnect', 'channel.test', 'channel.webhook', 'channel.send']
    : pluginInterface === 'DocumentExtractor'
      ? ['extractor.extract']
      : []
