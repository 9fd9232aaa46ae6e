import type { Claim } from './hub.js'

/** The token of a connection, from the query `access_token` or a bearer header, and the versions that it offers. */
export const claimOf = (authorization: string | undefined, query: Record<string, string | undefined>): Claim => ({
  token: query.access_token ?? bearerIn(authorization),
  protocolVersions: query.protocolVersions,
})

const bearerIn = (authorization: string | undefined): string | undefined =>
  authorization !== undefined && /^bearer /i.test(authorization) ? authorization.slice(7).trim() : undefined
