import type { Cluster } from '../../core/cluster/cluster.js'
import { rateLimited } from '../../core/errors.js'
import { FailureLimit } from '../../core/failureLimit.js'
import { networkOf } from '../../core/http/network.js'

const WINDOW_SECONDS = 60
/** Wrong secrets for one node from one network, before that network has to wait with this node. */
const MAX_GUESSES_PER_NODE = 10
/** Wrong secrets from one network for any nodes; beyond it wrong ones are told to wait. A right one never is. */
const MAX_GUESSES_PER_NETWORK = 60

interface GuessesOptions {
  limiter: Cluster['limiter']
  /** Names the counts, over all gateways. */
  keyPrefix: string
  /** What a network is told that guessed too often. */
  message: string
}

/**
 * Slows the guessing of secrets down, counted by network. A node that knows its secret never guesses, so however often it
 * shows it, it is not refused.
 */
export class Guesses {
  readonly #perNode: FailureLimit
  readonly #perNetwork: FailureLimit
  readonly #message: string

  constructor({ limiter, keyPrefix, message }: GuessesOptions) {
    this.#perNode = new FailureLimit(limiter, { keyPrefix: `${keyPrefix}-node`, points: MAX_GUESSES_PER_NODE, duration: WINDOW_SECONDS })
    this.#perNetwork = new FailureLimit(limiter, {
      keyPrefix: `${keyPrefix}-network`,
      points: MAX_GUESSES_PER_NETWORK,
      duration: WINDOW_SECONDS,
    })
    this.#message = message
  }

  /** Rejects with `rate_limited` for an address that has guessed at this node too often in the last minute. */
  async check(address: string, nodeId: string): Promise<void> {
    this.#refuse(await this.#perNode.waitMs(`${networkOf(address)} ${nodeId}`))
  }

  /** Counts a wrong secret. Rejects with `rate_limited` when the address has too many. */
  async count(address: string, nodeId: string): Promise<void> {
    const network = networkOf(address)
    await this.#perNode.count(`${network} ${nodeId}`)
    this.#refuse(await this.#perNetwork.count(network))
  }

  #refuse(waitMs: number): void {
    if (waitMs > 0) throw rateLimited(Math.max(1, Math.ceil(waitMs / 1000)), this.#message)
  }
}
