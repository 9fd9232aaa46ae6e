/** What a connection shows to be let in. */
export interface Claim {
  token: string | undefined
  /** Comma-separated, newest first. */
  protocolVersions: string | undefined
  /** Where it comes from. */
  address: string
}

/** The token of a connection, from the query `access_token` or a bearer header, the versions that it offers, and its address. */
export const claimOf = (authorization: string | undefined, query: Record<string, string | undefined>, address: string): Claim => ({
  address,
  token: query.access_token ?? bearerIn(authorization),
  protocolVersions: query.protocolVersions,
})

const bearerIn = (authorization: string | undefined): string | undefined =>
  authorization !== undefined && /^bearer /i.test(authorization) ? authorization.slice(7).trim() : undefined
