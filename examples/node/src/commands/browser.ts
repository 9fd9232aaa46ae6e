import { CommandError, defineCommand, invalidParams, string } from '@agent-gateway/sdk/node'
import { once } from 'node:events'
import { setTimeout as sleep } from 'node:timers/promises'
import { launch, requireDesktop } from '../execute.js'

/** A browser that is started here stays; one that cannot be started says so sooner. */
const FAILURE_LIMIT_MS = 1500

/** Opens a web address in the user's browser. */
export const browserOpen = defineCommand({
  name: 'browser.open',
  params: { url: string({ maxLength: 8000 }) },
  check: () => requireDesktop('xdg-open'),
  run: async ({ url }) => {
    const address = URL.canParse(url) ? new URL(url) : undefined
    if (address?.protocol !== 'http:' && address?.protocol !== 'https:') throw invalidParams('url', 'an http or https address is needed')
    const child = await launch(await requireDesktop('xdg-open'), [address.href])
    const ended = once(child, 'exit') as Promise<[number | null]>
    const outcome = await Promise.race([ended, sleep(FAILURE_LIMIT_MS)])
    if (outcome && outcome[0] !== 0)
      throw new CommandError('internal_error', `No browser could be opened: xdg-open ended with ${outcome[0] ?? 'a signal'}`)
    return { url: address.href }
  },
})
