/** Nodes of the bench, by number. All have one secret: what is measured is the check, not the secret. */
export const nodeIdOf = (index: number): string => `bench-${index}`

export const SECRET = 'bench'.repeat(9)

export const tokenOf = (index: number): string => `${nodeIdOf(index)}.${SECRET}`

export const COMMAND = 'bench.echo'

/** About 200 bytes of parameters, which come back as the result. */
export const PARAMS = { text: 'x'.repeat(150), n: 1, flag: true, list: [1, 2, 3] }

export const HUB_PATH = '/hubs/node'
