import type { Cluster } from '../../core/cluster/cluster.js'
import { rateLimited } from '../../core/errors.js'
import { FailureLimit } from '../../core/failureLimit.js'

const WINDOW_SECONDS = 60
/** Wrong secrets for one node from one address, before that address has to wait with this node. */
const MAX_GUESSES_PER_NODE = 10
/** Wrong secrets from one address for any nodes; beyond it wrong ones are told to wait. A right one never is. */
const MAX_GUESSES_PER_ADDRESS = 60

/**
 * Slows the guessing of pairing secrets down. A node that knows its secret never guesses, so however often it polls it
 * is not refused.
 */
export class PairingGuesses {
  readonly #perNode: FailureLimit
  readonly #perAddress: FailureLimit

  constructor(create: Cluster['limiter']) {
    this.#perNode = new FailureLimit(create, { keyPrefix: 'pairing-node', points: MAX_GUESSES_PER_NODE, duration: WINDOW_SECONDS })
    this.#perAddress = new FailureLimit(create, { keyPrefix: 'pairing-address', points: MAX_GUESSES_PER_ADDRESS, duration: WINDOW_SECONDS })
  }

  /** Rejects with `rate_limited` for an address that has guessed at this node too often in the last minute. */
  async check(address: string, nodeId: string): Promise<void> {
    refuse(await this.#perNode.waitMs(`${address} ${nodeId}`))
  }

  /** Counts a wrong secret. Rejects with `rate_limited` when the address has too many. */
  async count(address: string, nodeId: string): Promise<void> {
    await this.#perNode.count(`${address} ${nodeId}`)
    refuse(await this.#perAddress.count(address))
  }
}

const refuse = (waitMs: number): void => {
  if (waitMs > 0) throw rateLimited(Math.max(1, Math.ceil(waitMs / 1000)), 'Too many wrong pairing secrets')
}
