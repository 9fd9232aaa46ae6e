import { RateLimiterMemory } from 'rate-limiter-flexible'
import { newId } from '../id.js'
import { Unreachable, type Cluster, type Owners } from './cluster.js'

const nothing = (): void => undefined

const nobodyElse: Owners<never> = {
  claim: nothing,
  release: nothing,
  touch: () => true,
  forget: nothing,
  elsewhere: () => Promise.resolve(undefined),
  entries: () => Promise.resolve(new Map()),
}

/** One gateway, and nobody to talk to. */
export const singleGateway = (): Cluster => ({
  id: newId('gtw'),
  isShared: false,
  now: () => Date.now(),
  state: () => ({ mode: 'single', isReachable: true, gateways: 1, ignored: 0 }),
  answer: () => nothing,
  ask: () => Promise.reject(new Unreachable('There is no other gateway', false)),
  hear: () => nothing,
  tell: nothing,
  follow: () => Promise.resolve(nothing),
  publish: nothing,
  owners: () => nobodyElse as Owners<unknown> as never,
  limiter: options => new RateLimiterMemory(options),
})
